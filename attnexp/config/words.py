"""Words of the command line, such as `position=none,sinusoidal`, read by Hydra's own parser.

Hydra's messages speak of its insides, so what a user can get wrong is looked at here first: habits
of Hydra, words that cannot be read, several values where one is wanted.
"""

import itertools
import re
import shlex
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException

from attnexp.base.errors import UserError

MAX_VALUES = 10_000  # of one axis of a sweep

HABITS = {
    r"-m|--multirun": "Several runs are a sweep: attnexp sweep position=none,sinusoidal",
    r"-c|--cfg": "attnexp config OVERRIDES prints the settings of a run.",
    r"--((?:seed|out|data|model|position|mask|train|study|experiment)\b[\w.]*)(?:=.*)?": "Settings "
    "are written without dashes: {0}=VALUE",
    r"hydra/launcher=.*": "A sweep runs where its executor says: attnexp sweep executor=slurm",
    r"hydra\.\w+\.(?:sub)?dir=(.*)": "The folder of all results is out={0}",
    r"hydra[./].*": "Hydra's own settings do not exist here. `attnexp config` lists those that do.",
    r"\+\+?([^=]*)=(.*)": "Keys need not be added: write {0}={1}",
    r"~([^=]*).*": "No key can be deleted: write {0}=none for a choice, {0}=null for a setting.",
    r"(\w+)\..*_target_=([\w.]*)\.(\w+)": "A class is a choice: write {0}={1}:{2}",
    r"executor=.*,.*": "All runs of a sweep take one executor: local, slurm or ray.",
    r"([\w.]+)=": "No value is given. Write {0}=VALUE, or {0}=null for none.",
    r"([^=]*)=.*\$\{.*": "Nothing is interpolated. Write the value itself: {0}=VALUE",
}
"""What Hydra's users type, as patterns of a whole word, and what to write instead."""


def habit(word: str) -> str:
    """What to write instead of a word of Hydra's; empty for other words."""
    matches = ((re.fullmatch(one, word, re.DOTALL), instead) for one, instead in HABITS.items())
    return next((f"{word}: {text.format(*m.groups())}" for m, text in matches if m), "")


@lru_cache(maxsize=MAX_VALUES)
def parse(word: str) -> Override:
    """Hydra's override. Raises `UserError` for a word that is none, or a habit of Hydra's users."""
    if instead := habit(word):
        raise UserError(instead)
    try:
        return OverridesParser.create().parse_override(word)
    except (HydraException, ValueError) as error:
        key, _, value = word.partition("=")
        raise UserError(
            f"'{word}' is not understood. Settings are written key=value, lists with no space "
            f"after the comma, texts in quotes: '{key}=\"{value}\"'"
        ) from error


def setting_of(word: str) -> tuple[str, Any]:
    """Key and value of a word. Raises `UserError` for one with several values, too."""
    override = parse(word)
    if override.is_sweep_override():
        raise UserError(f"{word} names several values: attnexp sweep {shlex.quote(word)}")
    return override.get_key_element(), override.value()


def expand(words: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Axes of a sweep in Hydra's syntax: each word as (key, one `key=value` word) pairs.

    `a,b`, `range()` and `choice()` give several pairs, anything else gives one. Of one key the last
    word counts, but all experiments do, since they compose.
    """
    keys = [parse(word).get_key_element() for word in words]
    return [
        [(key, one) for one in _single(word)]
        for place, (key, word) in enumerate(zip(keys, words, strict=True), start=1)
        if key == "experiment" or key not in keys[place:]
    ]


def _single(word: str) -> list[str]:
    """The words that a word with several values stands for."""
    override = parse(word)
    if not override.is_sweep_override():
        return [word]
    try:
        values = [*itertools.islice(override.sweep_string_iterator(), MAX_VALUES + 1)]
    except (HydraException, ArithmeticError, ValueError) as error:
        raise UserError(
            f"{word} cannot be listed. Write values as a,b,c or range(START, STOP, STEP) with "
            f"finite numbers and a STEP other than 0."
        ) from error
    if not 0 < len(values) <= MAX_VALUES:
        raise UserError(f"{word}: a sweep takes 1 to {MAX_VALUES:,} values.")
    key = override.get_key_element()
    return [f"{key}={value}".replace("\\:", ":") for value in values]  # escaped in `module:Class`
