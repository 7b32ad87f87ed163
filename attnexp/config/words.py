"""Words of the command line, such as `position=none,sinusoidal`, read by Hydra's own parser.

Hydra's messages speak of its insides, so what a user can get wrong is looked at here first: words
that cannot be read, several values where one is wanted, what this program has no use for.
"""

import itertools
import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException

from attnexp.base.errors import UserError
from attnexp.config.options import groups

MAX_VALUES = 10_000  # of one axis of a sweep

HABITS = {
    r"-m|--multirun": "Several runs are a sweep: attnexp sweep position=none,sinusoidal",
    r"-c|--cfg": "attnexp config OVERRIDES prints the settings of a run.",
    r"hydra/launcher=.*": "A sweep runs where its executor says: attnexp sweep executor=slurm",
    r"hydra\.\w+\.(?:sub)?dir=(.*)": "The folder of all results is out={0}",
    r"[+~]*hydra[./].*": "Hydra's own settings do nothing here. `attnexp config` lists what does.",
    r"(?:n_?|num_)?seeds=(\d+)": "A number of seeds is a range of them: 'seed=range({0})'",
    r"data=(.*\.(?:csv|tsv|jsonl|ndjson|json|parquet)(?:\.gz|\.zst|\.bz2)?)": "A file of your own "
    "is data=files data.path={0}",
    r"(\w+)\..*_target_=([\w.]*)\.(\w+)": "A class is a choice: write {0}={1}:{2}",
    r"([\w.]+=(?:.*,)?)(?:[^,{]*/)?(\w+)\.py:(\w+)((?:,.*)?)": "In the folder of a file a class "
    "is {0}{1}:{2}{3}",
    r"((?:model|position|mask)[\w.]*=(?:.*,)?)[^,{]*/(\w+):(\w+)((?:,.*)?)": "In the folder of a "
    "file a class is {0}{1}:{2}{3}",
    r"executor=.*,.*": "All runs of a sweep take one executor: local, slurm or ray.",
    r"\+*([\w./]+)=": "No value is given. Write {0}=VALUE, or {0}=null for none.",
    r"([\w.]+)==+(.+)": "One sign is enough. Write {0}={1}",
    r"(model|position|mask)=[\[{]([^:]*)[\]}]": "Several are a sweep: attnexp sweep {0}={1}",
    r"([\w.]+=[^\s'\"]+)\s+([\w.]+=\S+)": "These are two words. Write {0} {1}",
    r"(.+=.*[^\r;&])([\r;&]+)": "It ends in {1!r}, as lines of Windows end in a carriage return. "
    "Write {0!r}",
    r"['\"“„‘](.*=.*)['\"“”’]": 'The quotes around it reach the program. Write "{0}"',
}
"""What Hydra's users type for what is done otherwise here, as patterns of a whole word."""

SEEDS_FROM_TO = re.compile(r"(seed|seeds\.\w+)=(\d+)(?:-|:|\.\.)(\d+)")
"""Seeds as a span, such as `seed=0-3`."""

CHOICE_KEYS = {"data.name": "data", "train.protocol": "train"}
"""Keys that hold what was chosen in a group; in other groups it is `kind`."""


def habit(word: str) -> str:
    """What to write instead of a word of Hydra's or of other programs; empty for other words."""
    span = SEEDS_FROM_TO.fullmatch(word)
    if span:
        key, first, last = span.groups()
        seeds = f"{key}=range({first},{int(last) + 1})"
        return f"{word}: write {shlex.quote(seeds)}"
    for pattern, instead in HABITS.items():
        match = re.fullmatch(pattern, word, re.DOTALL)
        if match:
            return f"{word.strip()}: {instead.format(*match.groups())}"
    return ""


@lru_cache(maxsize=MAX_VALUES)
def parse(word: str) -> Override:
    """Hydra's override. Raises `UserError` for a word that is none, or a habit of Hydra's users."""
    instead = habit(word)
    if instead:
        raise UserError(instead)
    override = _read(word)
    if override is not None:
        return override
    key, _, value = word.partition("=")
    if key and value:
        text = value.replace('"', '\\"')
        closed = [f"{word}{bracket}" for bracket in ")]}"]
        for plain in (word.rstrip(", "), *closed, f'{key}="{text}"'):
            if _read(plain):
                raise UserError(
                    f"'{word}' is not understood. Write lists with no space after the comma, "
                    f"brackets closed, texts in quotes: {shlex.quote(plain)}"
                )
    raise UserError(f"'{word}' is not understood. Settings are written key=value, such as seed=1")


def _read(word: str) -> Override | None:
    """What Hydra reads in a word; None where it cannot."""
    with suppress(HydraException, ValueError):
        return OverridesParser.create().parse_override(word)
    return None


def key_of(word: str) -> str:
    """Key of a word as `attnexp config` has it; `position` for `position.kind=rotary`, too."""
    override = parse(word)
    key = override.key_or_group.replace("/", ".")
    key = CHOICE_KEYS.get(key, key).removesuffix(".kind")
    return f"{key}@{override.package}" if override.package else key


def setting_of(word: str) -> tuple[str, Any]:
    """Key and value of a word: of `+model/pooling=max` the key is `model.pooling`; `position=null`
    and `~position` choose `none`. Raises `UserError` for one with several values, too."""
    override = parse(word)
    if override.is_sweep_override():
        raise UserError(f"{word} names several values: attnexp sweep {shlex.quote(word)}")
    key = key_of(word)
    value = override.value()
    if value is None or override.is_delete():
        if "none" in groups().get(key, {}):
            value = "none"
        elif override.is_delete():
            raise UserError(
                f"{word}: only a choice that can be none is taken out. A setting is unset by "
                f"{key}=null."
            )
    return key, value


def expand(words: Sequence[str]) -> list[list[str]]:
    """Axes of a sweep: each word as words `key=value` of one value each. Of one key the last word
    counts, but all experiments do, since they compose."""
    keys = [key_of(word) for word in words]
    axes = []
    for place, word in enumerate(words):
        key = keys[place]
        is_last = key not in keys[place + 1 :]
        if is_last or key == "experiment":
            axes.append([f"{key}={value}" for value in _values(word)])
    return axes


def _values(word: str) -> list[str]:
    """Values of a word, as they would be typed one by one."""
    override = parse(word)
    if override.is_delete():
        _, value = setting_of(word)
        return [str(value)]
    if not override.is_sweep_override():
        return [word.partition("=")[2]]
    try:
        values = [*itertools.islice(override.sweep_string_iterator(), MAX_VALUES + 1)]
    except (HydraException, ArithmeticError, ValueError) as error:
        raise UserError(
            f"{word} cannot be listed. Write values as a,b,c or range(START, STOP, STEP) with "
            f"finite numbers and a STEP other than 0."
        ) from error
    if not 0 < len(values) <= MAX_VALUES:
        raise UserError(f"{word}: a sweep takes 1 to {MAX_VALUES:,} values.")
    return [value.replace("\\:", ":") for value in values]  # escaped in `module:Class`
