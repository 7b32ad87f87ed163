"""Words of the command line, such as `position=none,sinusoidal`, read by Hydra's own parser.

Hydra's messages speak of its insides, so what a user can get wrong is looked at here first: words
that cannot be read, habits of Hydra, options that do not exist, several values where one is wanted.
"""

import itertools
import re
import shlex
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.errors import HydraException, OverrideParseException

from attnexp.base.errors import UserError
from attnexp.config.options import groups, is_file
from attnexp.config.pieces import CLASS
from attnexp.config.schema import PLACES, did_you_mean

MAX_VALUES = 10_000
"""Maximum number of values of one axis of a sweep."""

HABITS = {
    r"-m|--multirun": "Several runs are a sweep: attnexp sweep position=none,sinusoidal",
    r"-c|--cfg": "attnexp config OVERRIDES prints the settings of a run.",
    r"-cn|-cp|-cd|--config-name|--config-path": "Give a file of your own as experiment=FILE.yaml, "
    "and a folder of options as --config-dir DIR.",
    r"hydra/launcher=.*": "A sweep runs where its executor says: attnexp sweep executor=slurm",
    r"hydra/sweeper=.*": "A search is tune=KEY=VALUES; axes are words such as train.lr=1e-3,1e-4",
    r"hydra\.\w+\.(?:sub)?dir=(.*)": "The folder of all results is out={0}",
    r"hydra[./].*": "Hydra's own settings do not exist here. `attnexp config` lists those that do.",
    r"\+\+?([^=]*)=(.*)": "Keys need not be added: write {0}={1}",
    r"~([^=]*).*": "No key can be deleted: write {0}=none for a choice, {0}=null for a setting.",
    r"(\w+)\..*_target_=([\w.]*)\.(\w+)": "A class is a choice: write {0}={1}:{2}",
    r"([^=]*)=.*\$\{.*": "Nothing is interpolated. Write the value itself: {0}=VALUE",
}
"""What Hydra's users type, as patterns of a whole word, and what to write instead."""


class _Options:
    """The options of each group, for Hydra's `glob()`."""

    def get_group_options(self, group: str, results_filter: Any) -> list[str]:
        return groups().get(group, [])


def habit(word: str) -> str:
    """What to write instead of a word of Hydra's; empty for other words."""
    matches = ((re.fullmatch(one, word, re.DOTALL), instead) for one, instead in HABITS.items())
    return next((f"{word}: {text.format(*m.groups())}" for m, text in matches if m), "")


@lru_cache(maxsize=MAX_VALUES)
def _parsed(word: str) -> Override:
    parser = OverridesParser.create(config_loader=_Options())  # type: ignore[arg-type]
    (override,) = parser.parse_overrides([word])
    return override


def parse(words: Sequence[str], single: str = "") -> list[Override]:
    """Hydra's overrides, whose options are known to exist. Raises `UserError` for any other word.

    single: if given, why each word must have one value, for the message about several.
    """
    overrides = []
    for word in words:
        if instead := habit(word):
            raise UserError(instead)
        try:
            override = _parsed(word)
        except (OverrideParseException, HydraException, ValueError) as error:
            key, equals, value = word.partition("=")
            hint = shlex.quote(quoted(key, value)) if equals else "model.heads=4"
            raise UserError(
                f"'{word}' is not understood. Settings are written key=value, lists with no space "
                f"after the comma, texts in quotes: {hint}"
            ) from error
        key = str(override.key_or_group)
        if override.type is not OverrideType.CHANGE or override.package is not None:
            raise UserError(f"{word}: only key=value is understood here.")
        if single and override.is_sweep_override():
            raise UserError(f"{shlex.quote(word)} names several values, and {single}")
        if key in groups():
            for option in options_of(override):
                check_option(key, option)
        elif override.value() == "":
            raise UserError(f"'{word}' gives no value. Write {key}=VALUE, or {key}=null for none.")
        overrides.append(override)
    return overrides


def expand(words: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Axes of a sweep in Hydra's syntax: each word as (key, one `key=value` word) pairs.

    `a,b`, `range()`, `choice()` and `glob()` give several pairs, anything else gives one. Several
    experiments become one axis, since they compose.
    """
    axes = list[list[tuple[str, str]]]()
    for override, word in zip(parse(words), words, strict=True):
        key, values = str(override.key_or_group), [word]
        if override.is_sweep_override():
            values = [f"{key}={value}" for value in options_of(override)]
        if not values:
            raise UserError(f"{word} has no value at all. Give one or more.")
        axes.append([(key, value) for value in values])
    several = [axis for axis in axes if axis[0][0] == "experiment"]
    if len(several) > 1:
        names = ([word.partition("=")[2].strip("[]") for _, word in axis] for axis in several)
        joined = (f"experiment=[{','.join(chosen)}]" for chosen in itertools.product(*names))
        axes = [axis for axis in axes if axis not in several]
        axes.append([("experiment", word) for word in joined])
    return axes


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
    if len(values) > MAX_VALUES:
        raise UserError(f"{override.input_line}: a sweep takes {MAX_VALUES:,} values at most.")
    return [value.replace("\\:", ":") for value in values]  # escaped in `module:Class`


def check_option(group: str, option: str) -> None:
    """Raise `UserError` for an option that the group does not have."""
    options = groups().get(group, [])
    yours, accepted = "", option in options
    if group in ("experiment", "study"):
        yours, accepted = "; or give a file, as FILE.yaml", accepted or is_file(option)
    elif group.partition(".")[0] in PLACES:
        yours = "; or give a class, as module:Class"
        accepted = accepted or CLASS.fullmatch(option) is not None
    if not accepted:
        raise UserError(
            f"{group}={option}: there is no such {group}.{did_you_mean(option, options)} Choose "
            f"one of: {', '.join(options)}{yours}."
        )


def quoted(key: str, value: str) -> str:
    """A word whose value is this text, in quotes where its characters need them."""
    if re.fullmatch(r"[\w./-]+", value):
        return f"{key}={value}"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'{key}="{escaped}"'
