"""From a plain tree to a checked `RunConfig`: the piece of each place, then all values by pydantic,
and what is wrong with them in the user's terms."""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields
from typing import Any

from omegaconf import OmegaConf
from pydantic import ValidationError

from attnexp.base.errors import UserError
from attnexp.config.hydra_options import compose_options
from attnexp.config.likeness import describe_likeness
from attnexp.config.options import did_you_mean, groups, read
from attnexp.config.pieces import CLASS, Piece, load, spec
from attnexp.config.schema import (
    TOKENIZERS,
    MaskConfig,
    ModelConfig,
    PositionConfig,
    RunConfig,
    acts,
    flatten,
    walk,
)
from attnexp.config.words import habit
from attnexp.model import seams

Allowed = Mapping[type | None, Any]
"""Seams that a piece may fill in a place, with the settings that come with it. None is no piece."""

PLACES: dict[str, Allowed] = {
    "model": {
        seams.Layers: ModelConfig,
        seams.Mixer: ModelConfig,
        seams.Embedding: ModelConfig,
        seams.Baseline: Piece,
    },
    "position": {
        seams.JoinedPosition: PositionConfig,
        seams.Rotation: PositionConfig,
        seams.ScoreBias: PositionConfig,
        None: Piece,
    },
    "mask": {seams.Mask: MaskConfig, None: MaskConfig},
}


class NotChosen(UserError):
    """Error for a setting of pieces of which none is chosen."""

    def __init__(self, key: str, choices: Sequence[str]) -> None:
        super().__init__(f"'{key}' belongs to {', '.join(choices)}, which is not chosen.")
        self.key = key


# Pydantic's types of errors for a key that a section does not have.
UNKNOWN = ("unexpected_keyword_argument", "dataclass_type")


def check_run(tree: Mapping[str, Any]) -> RunConfig:
    """The config of a run from a tree without interpolations. Imports the classes that it names.
    Raises `UserError` for anything in it that is wrong."""
    pieces = {place: choose_piece(tree.get(place), place, PLACES[place]) for place in PLACES}
    config: RunConfig = validate(RunConfig, {**tree, **pieces})
    refuse_idle(config)
    position = config.position
    if position.fills(seams.Rotation, seams.ScoreBias) and not config.model.fills(seams.Layers):
        raise UserError(f"position={position.name} acts on attention, and this model has none.")
    data = config.data
    if data.name in ("files", "hub") and data.path is None:
        raise UserError(f"data={data.name} needs data.path: a folder, a file or a name on the hub.")
    if data.tokenizer not in TOKENIZERS:
        load(data.tokenizer)
    if config.train.loss is not None:
        load(config.train.loss)
    if data.path is not None and data.name != "hub":
        data.path = _absolute(data.path)
    model: Any = config.model
    if getattr(model, "vectors", None) is not None:  # a baseline has none
        model.vectors = _absolute(model.vectors)
    return config


def choose_piece(choice: Any, key: str, allowed: Allowed) -> Piece:
    """The piece chosen at a key, with its settings.

    choice: a name or class, or a section that has one as its `kind`. Raises `UserError` for a class
    that does not fit there, and for a setting that is wrong.
    """
    settings: dict[str, Any] = {"kind": None}
    settings |= choice if isinstance(choice, dict) else {"kind": choice}
    name = settings["kind"]
    if name is not None and not CLASS.fullmatch(str(name)):  # of an option, as in `before: cnn`
        tree = OmegaConf.create(compose_options({key: str(name)}, []))
        section = OmegaConf.select(tree, key)
        option: Any = OmegaConf.to_container(section, resolve=True)
        settings = {**option, **settings, "kind": option["kind"]}
    piece_spec = _spec_in_place(settings["kind"], key, allowed)
    for f in fields(piece_spec):
        if "seam" in f.metadata:
            default = f.metadata.get("default_kind")
            inner: dict[type | None, Any] = {f.metadata["seam"](): Piece}
            if default is None:
                inner[None] = Piece
            inner_choice = settings.get(f.name) or default
            settings[f.name] = choose_piece(inner_choice, f"{key}.{f.name}", inner)
    piece: Piece = validate(piece_spec, settings, f"{key}.")
    return piece


def _spec_in_place(kind: str | None, key: str, allowed: Allowed) -> Any:
    """The dataclass of a class's settings in its place. Raises `UserError` if it does not fit."""
    if kind is None and None in allowed:
        return allowed[None]
    cls = None if kind is None else load(kind)
    for seam, common in allowed.items():
        if seam is not None and isinstance(cls, type) and issubclass(cls, seam):
            return spec(kind, common)
    names = [seam.__name__ for seam in allowed if seam is not None]
    wanted = ", ".join(names)
    raise UserError(
        f"{key}={kind}: wanted a subclass of one of attnexp.model.seams: {wanted}."
        f"{describe_likeness(cls, str(kind))} docs/extending.md has an example of each."
    )


def _absolute(path: str) -> str:
    """The path from the root, links left as they are."""
    return os.path.abspath(os.path.expanduser(path))


def validate(section: Any, values: Mapping[Any, Any], prefix: str = "") -> Any:
    """A section of a config with these values. Raises `UserError` for the first that is wrong.

    prefix: of the section's keys, such as `model.`.
    """
    named = {str(name): value for name, value in values.items()}
    try:
        return section(**named)
    except ValidationError as error:
        # A key that is unknown says more than a value that is wrong.
        first = min(error.errors(), key=lambda each: each["type"] not in UNKNOWN)
        location = ".".join(map(str, first["loc"]))
        key = f"{prefix}{location}"
        value = first["input"]
        if first["type"] in UNKNOWN:
            known = [f"{prefix}{f.name}" for f in fields(section)]
            innermost, *_ = [*flatten({key: value}), key]
            raise _unknown_key(innermost.removesuffix(".kind"), known) from error
        if first["type"] == "missing":
            raise UserError(f"{key} must be given: write {key}=VALUE.") from error
        message = re.sub("^(Input|String) should", "must", first["msg"])
        raise UserError(f"{key} {message}; got {value}.") from error


def _unknown_key(key: str, keys: Sequence[str]) -> UserError:
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


def option_as_setting(option: str, words: Sequence[str]) -> str:
    """What to write instead of an option that no command has, such as `--epochs 3`; empty where no
    setting is called so. words: all of the command line."""
    options = [word.partition("=")[0] for word in words]
    if option not in options:
        return ""
    place = options.index(option)
    word = words[place]
    if not option.startswith("--"):
        return habit(word)
    value = word.partition("=")[2]
    following = words[place + 1 :]
    if not value:
        value = following[0] if following else "VALUE"
    name = option.removeprefix("--").replace("-", "_")
    instead = habit(f"{name}={value}") or habit(word)
    if instead:
        return instead
    settings = [shlex.quote(f"{key}={value}") for key in _find_keys(name)]
    if not settings:
        return ""
    return f"{option}: settings have no dashes: {' or '.join(settings)}"


def _find_keys(name: str) -> list[str]:
    """Keys that a name such as `epochs` may mean: the key itself, or two that end in it."""
    keys = [*_keys_of_every_run(), *_choices_by_setting(), *groups()]
    if name in keys:
        return [name]
    ending = [key for key in keys if key.endswith(f".{name}")]
    return list(dict.fromkeys(ending))[:2]


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
                if group in PLACES:
                    settings = fields(_spec_in_place(kind, group, PLACES[group]))
                else:
                    settings = fields(spec(kind))
                for f in settings:
                    key = f"{group}.{f.name}"
                    choices.setdefault(key, []).append(f"{group}={option}")
    return choices


def refuse_idle(config: Any, prefix: str = "") -> None:
    """Raise `UserError` for a setting that has no effect and another value than its default.

    prefix: of the config's keys, such as `executor.`.
    """
    for key, section, f in walk(config, prefix):
        if acts(f, config):
            continue
        default = f.default
        if f.default_factory is not MISSING:
            default = f.default_factory()
        if getattr(section, f.name) != default:
            needed = f.metadata["when"].description
            raise UserError(f"{key} would do nothing: it is for {needed}.")
