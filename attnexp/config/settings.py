"""Settings in three forms: words of the command line, values by whole key, a tree as in YAML."""

import copy
import itertools
import re
import shlex
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from attnexp.base.errors import UserError

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

Flat = dict[str, Any]  # by whole key: `{"model.heads": 4}` for the word `model.heads=4`
Tree = dict[str, Any]  # by section: `{"model": {"heads": 4}}`
Axis = tuple[str, list[str]]  # of a sweep: a key, and a word `key=value` for each of its values

MAX_VALUES = 10_000  # of one axis of a sweep
OF_SWEEPS = re.compile(r"\+*(study|name|executor|tune)\b")  # begins a word that no single run takes
PIECES = ("model", "position", "mask")  # groups of pieces of the model
CHOICE_IN = {"data": "name", "train": "protocol"} | dict.fromkeys(PIECES, "kind")
"""Groups of `conf/config.yaml`, with the setting of each that holds its choice."""


@lru_cache(maxsize=MAX_VALUES)
def parse(word: str) -> tuple[str, "Override"]:
    """Key of a word as `attnexp config` has it (`model.pooling` for `+model/pooling=max`), and what
    Hydra's own parser reads. Raises `UserError` for a word that it does not understand."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException  # Readers of results need not wait for Hydra.

    try:
        override = OverridesParser.create().parse_override(word)
    except (HydraException, ValueError) as error:
        raise UserError(
            f"'{word}' is not understood. Settings are written key=value, such as seed=1 or "
            f"data.path=FILE; a text with signs, or letters such as é, takes quotes: 'out=\"é\"'"
        ) from error
    key = _group_of(override.key_or_group.replace("/", "."))
    if override.package:
        key += f"@{override.package}"
    return key, override


def _group_of(key: str) -> str:
    """The group whose choice a key holds: `position` for `position.kind`; else the key itself."""
    section, _, name = key.rpartition(".")
    return section if CHOICE_IN.get(section) == name else key.removesuffix(".kind")


def key_of(word: str) -> str:
    """Key of a word as `attnexp config` has it: see `parse`."""
    return parse(word)[0]


def setting_of(word: str) -> tuple[str, Any]:
    """Key and value of a word, None for `~position`. Raises `UserError` unless it has one value."""
    key, override = parse(word)
    if override.is_sweep_override():
        raise UserError(f"{word} names several values: attnexp sweep {shlex.quote(word)}")
    value = None if override.is_delete() else override.value()
    if word.endswith("=") or value == {}:
        raise UserError(f"{word} names no value. Write {key}=VALUE, such as null for none.")
    if key == "seeds" and isinstance(value, int):
        raise UserError(f"{word}: seeds are given one by one, as in 'seed=range({value})'.")
    return key, value


def expand(words: Sequence[str]) -> list[Axis]:
    """Axes of a sweep, one a word. Of words with one key the last counts; experiments compose."""
    axes: dict[str, Axis] = {}
    for word in words:
        key = key_of(word)
        name = word if key == "experiment" else key
        axes.pop(name, None)  # The last word stands in its own place.
        axes[name] = key, [f"{key}={value}" for value in _values(word)]
    return list(axes.values())


def _values(word: str) -> list[str]:
    """Values of a word, each as a user would type it alone."""
    from hydra.errors import HydraException  # as in `parse`

    _, override = parse(word)
    if override.is_delete():
        return ["null"]
    if not override.is_sweep_override():
        return [word.partition("=")[2]]
    try:
        values = [*itertools.islice(override.sweep_string_iterator(), MAX_VALUES + 1)]
    except (HydraException, ArithmeticError, ValueError) as error:
        raise UserError(f"{word} cannot be listed: {error}") from error
    if not 0 < len(values) <= MAX_VALUES:
        raise UserError(f"{word}: a sweep takes 1 to {MAX_VALUES:,} values.")
    return [value.replace("\\:", ":") for value in values]  # Hydra escapes `module:Class`.


def by_key(pairs: Iterable[tuple[str, Any]]) -> Flat:
    """Settings by whole key, and choices by the keys of their groups: `data` for `data.name`."""
    settings: Flat = {}
    for section, content in pairs:
        for key, value in flatten({section: content}).items():
            settings[_group_of(key)] = value
    return settings


def flatten(tree: Tree, prefix: str = "") -> Flat:
    """`{"a": {"b": 1}}` as `{"a.b": 1}`: the keys a user writes on the command line."""
    flat: Flat = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def set_keys(tree: Tree, values: Flat) -> Tree:
    """A copy of a tree with values put in by their keys. `model.before` goes in before
    `model.before.kernel`, so that `before: cnn` becomes `before: {kind: cnn, kernel: 5}`."""
    tree = copy.deepcopy(tree)
    for key in sorted(values, key=lambda key: key.count(".")):
        *sections, name = key.split(".")
        branch = tree
        for section in sections:
            if not isinstance(branch.setdefault(section, {}), dict):
                branch[section] = {"kind": branch[section]}
            branch = branch[section]
        branch[name] = values[key]
    return tree
