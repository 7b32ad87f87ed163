"""Words of the command line, such as `position=none,sinusoidal`, read by Hydra's own parser.

Hydra's messages speak of its insides, so what a user can get wrong is looked at here first: words
that cannot be read, options that do not exist, several values where one is wanted.
"""

import re
import shlex
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import islice

from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType, RangeSweep
from hydra.errors import HydraException, OverrideParseException

from attnexp.base.errors import UserError
from attnexp.config.options import conf_dir, groups, is_file
from attnexp.config.pieces import CLASS
from attnexp.config.schema import PLACES, did_you_mean

OVERLAYS = ("experiment", "study")
"""Groups that set keys of other groups. A study belongs to `sweep`, which reads it itself."""

MAX_VALUES = 10_000
"""Maximum number of values of one axis of a sweep."""

_one_at_a_time = threading.Lock()
"""Held while Hydra is initialized, since its state belongs to the whole process."""


@contextmanager
def hydra_initialized() -> Iterator[None]:
    """Context in which Hydra finds the files of `conf/`."""
    place = str(conf_dir().resolve())
    with _one_at_a_time, initialize_config_dir(place, job_name="attnexp", version_base="1.3"):
        yield


@cache
def _parser() -> OverridesParser:
    """Hydra's parser, which knows the options of each group, for `glob()`."""
    with hydra_initialized():
        return OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())


def parse(words: Sequence[str], single: str = "") -> list[Override]:
    """Hydra's overrides, whose options are known to exist. Raises `UserError` for any other word.

    single: if given, why each word must have one value, for the message about several.
    """
    overrides = []
    for word in words:
        try:
            (override,) = _parser().parse_overrides([word])
        except (OverrideParseException, HydraException, ValueError) as error:
            raise UserError(_unreadable(word)) from error
        key = str(override.key_or_group)
        if override.type is not OverrideType.CHANGE or override.package is not None:
            raise UserError(f"{word}: only key=value is understood here.")
        if single and override.is_sweep_override():
            raise UserError(f"{shlex.quote(word)} names several values, and {single}")
        if key in groups():
            for option in options_of(override):
                check_option(key, option)
        elif override.value() == "" and not override.is_sweep_override():
            raise UserError(f"'{word}' gives no value. Write {key}=VALUE, or {key}=null for none.")
        overrides.append(override)
    return overrides


def expand(words: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Axes of a sweep in Hydra's syntax: each word as (key, one `key=value` word) pairs.

    `a,b`, `range()`, `choice()` and `glob()` give several pairs, anything else gives one.
    """
    axes = []
    for override, word in zip(parse(words), words, strict=True):
        values = [word]
        if override.is_sweep_override():
            values = [f"{override.get_key_element()}={value}" for value in options_of(override)]
        if not values:
            raise UserError(f"{word} has no value at all. Give one or more.")
        axes.append([(str(override.key_or_group), value) for value in values])
    return axes


def options_of(override: Override) -> list[str]:
    """Values of an override as texts: all values of an axis, else one."""
    value, word = override.value(), override.input_line
    if not override.is_sweep_override():
        return ["null" if value is None else str(value)]
    try:
        values = value.range() if isinstance(value, RangeSweep) else override.sweep_iterator()
        count = len([*islice(values, MAX_VALUES + 1)])  # before an endless one is shuffled
    except (HydraException, ArithmeticError, ValueError) as error:
        raise UserError(
            f"{word} cannot be listed. Write values as a,b,c or range(START, STOP, STEP) with "
            f"finite numbers and a STEP other than 0."
        ) from error
    if count > MAX_VALUES:
        raise UserError(f"{word} has more values than a sweep takes: {MAX_VALUES:,} at most.")
    # Hydra escapes the colon of `module:Class`.
    return [str(value).replace("\\:", ":") for value in override.sweep_string_iterator()]


def check_option(group: str, option: str) -> None:
    """Raise `UserError` for an option that the group does not have."""
    options = groups().get(group, [])
    yours, accepted = "", option in options
    if group in OVERLAYS:
        yours = "; or give a file, as FILE.yaml"
        accepted = accepted or is_file(option)
    elif group.partition(".")[0] in PLACES:
        yours = "; or give a class, as module:Class"
        accepted = accepted or CLASS.fullmatch(option) is not None
    if accepted:
        return
    raise UserError(
        f"{group}={option}: there is no such {group}.{did_you_mean(option, options)} Choose one "
        f"of: {', '.join(options)}{yours}."
    )


def _unreadable(word: str) -> str:
    key, equals, value = word.partition("=")
    if not equals:
        return (
            f"'{word}' is not understood: settings are written key=value, such as "
            f"model.heads=4 or position=sinusoidal."
        )
    if value.endswith(","):
        return f"'{word}' ends in a comma. Write values with no space after the comma: {key}=A,B."
    return (
        f"The value in '{word}' is not understood. If it is one text, quote it: "
        f"{shlex.quote(quoted(key, value))}"
    )


def quoted(key: str, value: str) -> str:
    """A word whose value is this text, in quotes where its characters need them."""
    if re.fullmatch(r"[\w./-]+", value):
        return f"{key}={value}"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'{key}="{escaped}"'
