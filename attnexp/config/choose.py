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
from attnexp.config.options import did_you_mean, groups, read
from attnexp.config.pieces import CLASS, Piece, load, spec
from attnexp.config.places import PLACES, Allowed, describe_likeness
from attnexp.config.schema import PIECES, TOKENIZERS, RunConfig, acts, flatten, walk
from attnexp.config.words import habit
from attnexp.model import seams

# Pydantic's types of errors for a key that a section does not have.
UNKNOWN = ("unexpected_keyword_argument", "dataclass_type")


class NotChosen(UserError):
    """Error for a setting that what is chosen does not have, or that does nothing with it."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


def check_run(tree: Mapping[str, Any]) -> RunConfig:
    """The config of a run from a tree without interpolations. Imports the classes that it names.
    Raises `UserError` for anything in it that is wrong."""
    pieces: dict[str, Piece] = {}
    for place in PIECES:
        pieces[place] = choose_piece(tree.get(place), place, PLACES[place])
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
    if config.vectors is not None:
        model.vectors = _absolute(config.vectors)
    return config


def _absolute(path: str) -> str:
    """The path from the root, links left as they are."""
    return os.path.abspath(os.path.expanduser(path))


def choose_piece(choice: Any, key: str, allowed: Allowed) -> Piece:
    """The piece chosen at a key, with its settings.

    choice: a name or class, or a section that has one as its `kind`. Raises `UserError` for a class
    that does not fit there, and for a setting that is wrong.
    """
    settings: dict[str, Any] = {"kind": choice}
    if isinstance(choice, dict):
        settings = {"kind": None} | choice
    name = settings["kind"]
    if name is not None and not CLASS.fullmatch(str(name)):  # of an option, as in `before: cnn`
        tree = compose_options({key: str(name)}, [])
        section = OmegaConf.select(OmegaConf.create(tree), key)
        option: Any = OmegaConf.to_container(section, resolve=True)
        settings = option | settings
        settings["kind"] = option["kind"]
    piece_spec = _spec_in_place(settings["kind"], key, allowed)
    for f in fields(piece_spec):
        if "seam" in f.metadata:
            seam = f.metadata["seam"]()
            default = f.metadata.get("default_kind")
            inner: dict[type | None, Any] = {seam: Piece}
            if default is None:
                inner[None] = Piece
            inner_key = f"{key}.{f.name}"
            inner_choice = settings.get(f.name) or default
            settings[f.name] = choose_piece(inner_choice, inner_key, inner)
    piece: Piece = validate(piece_spec, settings, f"{key}.")
    return piece


def _spec_in_place(kind: str | None, key: str, allowed: Allowed) -> Any:
    """The dataclass of a class's settings in its place. Raises `UserError` if it does not fit."""
    if kind is None and None in allowed:
        return allowed[None]
    cls = None if kind is None else load(kind)
    for seam, common in allowed.items():
        fits = seam is not None and isinstance(cls, type) and issubclass(cls, seam)
        if fits:
            return spec(kind, common)
    names = [seam.__name__ for seam in allowed if seam is not None]
    raise UserError(
        f"{key}={kind}: wanted a subclass of one of attnexp.model.seams: {', '.join(names)}."
        f"{describe_likeness(cls, str(kind))} docs/extending.md has an example of each."
    )


def validate(section: Any, values: Mapping[Any, Any], prefix: str = "") -> Any:
    """A section of a config with these values. Raises `UserError` for the first that is wrong.

    prefix: of the section's keys, such as `model.`.
    """
    named = {str(name): value for name, value in values.items()}
    try:
        return section(**named)
    except ValidationError as validation:
        # A key that is unknown says more than a value that is wrong.
        error, *_ = sorted(validation.errors(), key=lambda error: error["type"] not in UNKNOWN)
        location = ".".join(map(str, error["loc"]))
        key = f"{prefix}{location}"
        value = error["input"]
        if error["type"] in UNKNOWN:
            innermost, *_ = [*flatten({key: value}), key]
            innermost = innermost.removesuffix(".kind")
            keys_of_section = [f"{prefix}{f.name}" for f in fields(section)]
            raise _unknown_key(innermost, keys_of_section) from validation
        if error["type"] == "missing":
            raise UserError(f"{key} must be given: write {key}=VALUE.") from validation
        message = re.sub("^(Input|String) should", "must", error["msg"])
        raise UserError(f"{key} {message}; got {value}.") from validation


def _unknown_key(key: str, keys_of_section: Sequence[str]) -> NotChosen:
    """Error for a key that no chosen option has."""
    choices = _choices_by_key()
    if choices.get(key):
        return NotChosen(key, f"'{key}' belongs to {', '.join(choices[key])}, which is not chosen.")
    keys = dict.fromkeys([*keys_of_section, *choices])
    keys.pop(key, None)
    return NotChosen(
        key,
        f"There is no key '{key}'.{did_you_mean(key, keys)} `attnexp config` lists the keys of "
        f"what is chosen, `attnexp config --groups` all there is to choose.",
    )


def _choices_by_key() -> dict[str, list[str]]:
    """Every key, with the choices that it belongs to, such as `position=learned`; with none where
    it is a group, or one of every run."""
    choices: dict[str, list[str]] = {key: [] for key, _, _ in walk(RunConfig())}
    for group, allowed in PLACES.items():
        for option in groups()[group]:
            with suppress(UserError, TypeError, KeyError):  # a user's file may hold anything
                kind = read(group, option)["kind"]
                section = _spec_in_place(kind, group, allowed)
                for f in fields(section):
                    key = f"{group}.{f.name}"
                    choices.setdefault(key, [])
                    choices[key].append(f"{group}={option}")
    return choices | {group: [] for group in groups()}


def option_as_setting(option: str, words: Sequence[str]) -> str:
    """What to write instead of an option that no command has, such as `--epochs 3`; empty where no
    setting is called so. words: all of the command line."""
    for place, word in enumerate(words):
        name, _, value = word.partition("=")
        if name != option:
            continue
        if not option.startswith("--"):
            return habit(word)
        following = words[place + 1 :]
        if not value:
            value = following[0] if following else "VALUE"
        key = name.removeprefix("--").replace("-", "_")
        instead = habit(f"{key}={value}") or habit(word)
        settings = [shlex.quote(f"{setting}={value}") for setting in _find_keys(key)]
        if instead or not settings:
            return instead
        return f"{option}: settings have no dashes: {' or '.join(settings)}"
    return ""


def _find_keys(name: str) -> list[str]:
    """Keys that a name such as `epochs` may mean: the key itself, or two that end in it."""
    keys = _choices_by_key()
    if name in keys:
        return [name]
    return [key for key in keys if key.endswith(f".{name}")][:2]


def refuse_idle(config: Any, prefix: str = "") -> None:
    """Raise `NotChosen` for a setting that has no effect and another value than its default.

    prefix: of the config's keys, such as `executor.`.
    """
    for key, section, f in walk(config, prefix):
        default = f.default if f.default_factory is MISSING else f.default_factory()
        if acts(f, config) or getattr(section, f.name) == default:
            continue
        condition = f.metadata["when"].description
        raise NotChosen(key, f"{key} would do nothing: it is for {condition}.")
