"""Values checked by pydantic, and what is wrong with them in the user's terms."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields
from typing import Any

from pydantic import ValidationError

from attnexp.base.errors import UserError
from attnexp.config.options import did_you_mean, groups, read
from attnexp.config.pieces import Piece, spec
from attnexp.config.places import PLACES, common_settings
from attnexp.config.schema import RunConfig, acts, flatten, walk

UNKNOWN = ("unexpected_keyword_argument", "dataclass_type")
"""Pydantic's types of errors for a key that a section does not have."""


class NotChosen(UserError):
    """Error for a setting of pieces of which none is chosen."""

    def __init__(self, key: str, choices: Sequence[str]) -> None:
        super().__init__(f"'{key}' belongs to {', '.join(choices)}, which is not chosen.")
        self.key = key


def validate(section: Any, values: Mapping[Any, Any], prefix: str = "") -> Any:
    """A section of a config with these values. Raises `UserError` for the first that is wrong.

    prefix: of the section's keys, such as `model.`.
    """
    named = {str(name): value for name, value in values.items()}
    try:
        return section(**named)
    except ValidationError as error:
        raise _in_the_users_terms(error, section, prefix) from error


def _in_the_users_terms(error: ValidationError, section: Any, prefix: str) -> UserError:
    """The first of pydantic's errors."""
    # A key that is unknown says more than a value that is wrong.
    first = min(error.errors(), key=lambda each: each["type"] not in UNKNOWN)
    location = ".".join(map(str, first["loc"]))
    key = f"{prefix}{location}"
    value = first["input"]
    if first["type"] in UNKNOWN:
        known = [f"{prefix}{f.name}" for f in fields(section)]
        innermost = next(iter(flatten({key: value})), key)
        return unknown_key(innermost.removesuffix(".kind"), known)
    if first["type"] == "missing":
        return UserError(f"{key} must be given: write {key}=VALUE.")
    message = re.sub("^(Input|String) should", "must", first["msg"])
    return UserError(f"{key} {message}; got {value}.")


def unknown_key(key: str, keys: Sequence[str]) -> UserError:
    """Error for a key that no chosen option has. keys: those of its section."""
    choices = _choices_by_setting()
    if key in choices:
        return NotChosen(key, choices[key])
    known = dict.fromkeys([*keys, *_keys_of_every_run(), *choices, *groups()])
    known.pop(key, None)
    return UserError(
        f"There is no key '{key}'.{did_you_mean(key, known)} `attnexp config` lists the keys of "
        f"what is chosen, `attnexp config --groups` all there is to choose."
    )


def find_keys(name: str) -> list[str]:
    """Keys that a name such as `epochs` may mean: the key itself, or two that end in it."""
    keys = [*dict.fromkeys([*_keys_of_every_run(), *_choices_by_setting(), *groups()])]
    if name in keys:
        return [name]
    return [key for key in keys if key.endswith(f".{name}")][:2]


def _keys_of_every_run() -> list[str]:
    return [key for key, _, _ in walk(RunConfig())]


def _choices_by_setting() -> dict[str, list[str]]:
    """The choices that have a setting, such as `position=learned`, by its key."""
    choices: dict[str, list[str]] = {}
    for group, options in groups().items():
        if group.partition(".")[0] not in PLACES:
            continue
        for option in options:
            with suppress(UserError, TypeError, KeyError):  # a user's file may hold anything
                kind = read(group, option)["kind"]
                common: Any = Piece
                if group in PLACES:
                    common = common_settings(kind, group, PLACES[group])
                for f in fields(spec(kind, common)):
                    key = f"{group}.{f.name}"
                    choices.setdefault(key, []).append(f"{group}={option}")
    return choices


def refuse_idle(config: Any, section: Any = None, prefix: str = "") -> None:
    """Raise `UserError` for a setting that has no effect and another value than its default.

    section: a part of the config, whose keys begin with `prefix`; all of it where None.
    """
    part = config if section is None else section
    for key, holder, f in walk(part, prefix):
        if acts(f, config):
            continue
        default = f.default
        if f.default_factory is not MISSING:
            default = f.default_factory()
        if getattr(holder, f.name) != default:
            needed = f.metadata["when"].description
            raise UserError(f"{key} would do nothing: it is for {needed}.")
