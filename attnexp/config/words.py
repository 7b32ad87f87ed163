"""Words of the command line, such as `position=none,sinusoidal`, read by Hydra's own parser.

Hydra's messages speak of its insides, so what a user can get wrong is looked at here first: words
that cannot be read, habits of Hydra, options that do not exist, several values where one is wanted.
"""

import itertools
import json
import re
import shlex
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException

from attnexp.base.errors import UserError
from attnexp.config.options import groups
from attnexp.config.pieces import CLASS
from attnexp.config.schema import PLACES, did_you_mean

MAX_VALUES = 10_000
"""Maximum number of values of one axis of a sweep."""

HABITS = {
    r"-m|--multirun": "Several runs are a sweep: attnexp sweep position=none,sinusoidal",
    r"-c|--cfg": "attnexp config OVERRIDES prints the settings of a run.",
    r"-c[npd]|--config-(name|path)": "Your own file is experiment=FILE.yaml",
    r"--((?:seed|out|data|model|position|mask|train|study|experiment)\b[\w.]*)(?:=.*)?": "Settings "
    "are written without dashes: {0}=VALUE",
    r"hydra/launcher=.*": "A sweep runs where its executor says: attnexp sweep executor=slurm",
    r"hydra/sweeper=.*": "A search is tune=KEY=VALUES; axes are words such as train.lr=1e-3,1e-4",
    r"hydra\.\w+\.(?:sub)?dir=(.*)": "The folder of all results is out={0}",
    r"hydra[./].*": "Hydra's own settings do not exist here. `attnexp config` lists those that do.",
    r"\+\+?([^=]*)=(.*)": "Keys need not be added: write {0}={1}",
    r"~([^=]*).*": "No key can be deleted: write {0}=none for a choice, {0}=null for a setting.",
    r"(\w+)\..*_target_=([\w.]*)\.(\w+)": "A class is a choice: write {0}={1}:{2}",
    r"([\w.]+)=": "No value is given. Write {0}=VALUE, or {0}=null for none.",
    r"[^=]*@.*": "Nothing is placed elsewhere: write KEY=VALUE, as `attnexp config` shows it.",
    r"([^=]*)=.*\$\{.*": "Nothing is interpolated. Write the value itself: {0}=VALUE",
}
"""What Hydra's users type, as patterns of a whole word, and what to write instead."""


def habit(word: str) -> str:
    """What to write instead of a word of Hydra's; empty for other words."""
    matches = ((re.fullmatch(one, word, re.DOTALL), instead) for one, instead in HABITS.items())
    return next((f"{word}: {text.format(*m.groups())}" for m, text in matches if m), "")


@lru_cache(maxsize=MAX_VALUES)
def _parsed(word: str) -> Override:
    return OverridesParser.create().parse_override(word)


def parse(words: Sequence[str]) -> list[Override]:
    """Hydra's overrides, whose options exist. Raises `UserError` for any other word."""
    overrides = []
    for word in words:
        if instead := habit(word):
            raise UserError(instead)
        try:
            override = _parsed(word)
        except (HydraException, ValueError) as error:
            raise UserError(
                f"'{word}' is not understood. Settings are written key=value, lists with no space "
                f"after the comma, texts in quotes: 'data.path=\"a b\"'"
            ) from error
        key = str(override.key_or_group)
        if key in groups():
            for option in options_of(override):
                check_option(key, option)
        overrides.append(override)
    return overrides


def parse_settings(words: Sequence[str]) -> list[tuple[str, Any]]:
    """Key and value of each word. Raises `UserError` for a word with several values, too."""
    overrides = parse(words)
    for override, word in zip(overrides, words, strict=True):
        if override.is_sweep_override():
            raise UserError(f"{word} names several values: attnexp sweep {shlex.quote(word)}")
    return [(str(override.key_or_group), override.value()) for override in overrides]


def expand(words: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Axes of a sweep in Hydra's syntax: each word as (key, one `key=value` word) pairs.

    `a,b`, `range()` and `choice()` give several pairs, anything else gives one. Several experiments
    are one axis, since they compose; of another key the last word counts.
    """
    axes = dict[str, list[str]]()
    for override, word in zip(parse(words), words, strict=True):
        key, values = str(override.key_or_group), [word]
        if override.is_sweep_override():
            values = [f"{key}={value}" for value in options_of(override)]
        if key == "experiment" and key in axes:
            pairs = itertools.product(axes[key], values)
            names = [[one.partition("=")[2].strip("[]") for one in pair] for pair in pairs]
            values = [f"experiment=[{','.join(pair)}]" for pair in names]
        axes[key] = values
    return [[(key, value) for value in values] for key, values in axes.items()]


def options_of(override: Override) -> list[str]:
    """Values of an override as texts: all values of an axis or list, else one."""
    value: Any = override.value()
    if not override.is_sweep_override():
        values = value if isinstance(value, list) else [value]
        return ["null" if one is None else str(one) for one in values]
    try:
        values = [*itertools.islice(override.sweep_string_iterator(), MAX_VALUES + 1)]
    except (HydraException, ArithmeticError, ValueError) as error:
        raise UserError(
            f"{override.input_line} cannot be listed. Write values as a,b,c or range(START, STOP, "
            f"STEP) with finite numbers and a STEP other than 0."
        ) from error
    if not 0 < len(values) <= MAX_VALUES:
        raise UserError(f"{override.input_line}: a sweep takes 1 to {MAX_VALUES:,} values.")
    return [value.replace("\\:", ":") for value in values]  # escaped in `module:Class`


def check_option(group: str, option: str) -> None:
    """Raise `UserError` for an option that the group does not have."""
    options = [*groups().get(group, {})]
    is_file = group in ("experiment", "study") and option.endswith((".yaml", ".yml"))
    is_class = group.partition(".")[0] in PLACES and CLASS.fullmatch(option)
    if option not in options and not is_file and not is_class:
        raise UserError(
            f"{group}={option}: there is no such {group}.{did_you_mean(option, options)} Choose "
            f"one of: {', '.join(options)}. Your own are module:Class for a piece of the model, "
            f"FILE.yaml for an experiment or a study."
        )


def quoted(key: str, value: str) -> str:
    """A word whose value is this text, whatever its characters."""
    return f"{key}={json.dumps(value, ensure_ascii=False)}"
