"""From a plain tree to a checked `RunConfig`: the piece of each place, then all values by pydantic,
and what is wrong with them in the user's terms."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields
from os.path import abspath, expanduser
from typing import Any

from pydantic import ValidationError

from attnexp.base.errors import UserError
from attnexp.config import schema
from attnexp.config.options import Tree, did_you_mean, groups, read
from attnexp.config.pieces import CLASS, Piece, load, spec
from attnexp.config.schema import PIECES, TOKENIZERS, RunConfig, acts, flatten, walk
from attnexp.model import seams

Allowed = Mapping[type | None, Any]
"""Seams that a piece may fill in a place, with the settings that come with it. None is no piece."""

PLACES: dict[str, Allowed] = {
    "model": {
        seams.Layers: schema.ModelConfig,
        seams.Mixer: schema.ModelConfig,
        seams.Embedding: schema.ModelConfig,
        seams.Network: Piece,
        seams.Baseline: Piece,
    },
    "model.before": {seams.Mixer: Piece, None: Piece},
    "model.pooling": {seams.Pooling: Piece},
    "model.score": {seams.Score: Piece},
    "position": {
        seams.JoinedPosition: schema.PositionConfig,
        seams.Rotation: schema.PositionConfig,
        seams.ScoreBias: schema.PositionConfig,
        None: Piece,
    },
    "mask": {seams.Mask: schema.MaskConfig, None: schema.MaskConfig},
}

# Pydantic's types of errors for a key that a section does not have.
UNKNOWN = ("unexpected_keyword_argument", "dataclass_type")


def check_run(tree: Tree) -> RunConfig:
    """The config of a run from a tree without interpolations. Imports the classes that it names.
    Raises `UserError` for anything in it that is wrong."""
    chosen: Tree = {place: choose_piece(tree.get(place), place, PLACES[place]) for place in PIECES}
    train = tree.get("train")
    if isinstance(train, dict):
        chosen["train"] = {**train, "loss": _choose_loss(train.get("loss"))}
    config: RunConfig = validate(RunConfig, tree | chosen)
    refuse_idle(config)
    position = config.position
    acts_on_attention = position.fills(seams.Rotation, seams.ScoreBias)
    if acts_on_attention and not config.model.fills(seams.Layers):
        raise UserError(f"position={position.name} acts on attention, and this model has none.")
    data = config.data
    if data.name in ("files", "hub") and data.path is None:
        raise UserError(f"data={data.name} needs data.path: a folder, a file or a name on the hub.")
    if data.tokenizer not in TOKENIZERS:
        load(data.tokenizer)
    config.out = expanduser(config.out)
    # Paths from the root, links left as they are.
    if data.path is not None and data.name != "hub":
        data.path = abspath(expanduser(data.path))
    model: Any = config.model
    if config.vectors is not None:
        model.vectors = abspath(expanduser(config.vectors))
    return config


def choose_piece(choice: Any, key: str, allowed: Allowed) -> Piece:
    """The piece of a choice at a key: a name, a class, or a section that has one as its `kind`.
    Raises `UserError` for a class that does not fit there, or a setting that is wrong."""
    settings: Tree = {"kind": choice}
    if isinstance(choice, dict):
        settings = {"kind": None} | choice
    name = settings["kind"]
    if name is not None and not CLASS.fullmatch(str(name)):  # of an option, as in `before: cnn`
        option = read(key, str(name))
        settings = option | settings
        settings["kind"] = option["kind"]
    piece_spec = _spec_in_place(settings["kind"], key, allowed)
    for f in fields(piece_spec):
        if "seam" in f.metadata:  # a piece within the piece
            default = f.metadata.get("default_kind")
            seam = f.metadata["seam"]()
            inner_allowed = {seam: Piece}
            if default is None:
                inner_allowed[None] = Piece
            inner_key = f"{key}.{f.name}"
            inner_choice = settings.get(f.name) or default
            settings[f.name] = choose_piece(inner_choice, inner_key, inner_allowed)
    piece: Piece = validate(piece_spec, settings, f"{key}.")
    return piece


def _choose_loss(choice: Any) -> Piece | None:
    """The loss of a choice: a function, or a class with settings."""
    settings = choice if isinstance(choice, dict) else {"kind": choice}
    kind = settings.get("kind")
    is_class = kind is not None and isinstance(load(str(kind)), type)
    loss: Piece = validate(spec(kind) if is_class else Piece, settings, "train.loss.")
    return None if kind is None else loss


def _spec_in_place(kind: str | None, key: str, allowed: Allowed) -> Any:
    """The dataclass of a class's settings in its place. Raises `UserError` if it does not fit."""
    if kind is None and None in allowed:
        return allowed[None]
    cls = None if kind is None else load(kind)
    names: list[str] = []
    for seam, common in allowed.items():
        if seam is None:
            continue
        if isinstance(cls, type) and issubclass(cls, seam):
            return spec(kind, common)
        names.append(seam.__name__)
    listed = " or ".join(names)
    raise UserError(f"{key}={kind}: wanted a subclass of {listed} (docs/extending.md).")


def validate(section: Any, values: Mapping[Any, Any], prefix: str = "") -> Any:
    """A section of a config, whose keys have a prefix such as `model.`, with these values. Raises
    `UserError` for the first that is wrong."""
    named = {str(name): value for name, value in values.items()}
    try:
        return section(**named)
    except ValidationError as validation:
        # A key that is unknown says more than a value that is wrong.
        errors = validation.errors()
        unknown = [error for error in errors if error["type"] in UNKNOWN]
        error = (unknown + errors)[0]
        location = ".".join(map(str, error["loc"]))
        key = f"{prefix}{location}"
        value = error["input"]
        if unknown:
            # where a whole section is unknown, its first setting is named
            first_setting = next(iter(flatten({key: value})), key)
            keys_of_section = [f"{prefix}{f.name}" for f in fields(section)]
            key = first_setting.removesuffix(".kind")
            raise _unknown_key(key, keys_of_section) from validation
        if error["type"] == "missing":
            raise UserError(f"{key} must be given: write {key}=VALUE.") from validation
        message = re.sub("^(Input|String) should", "must", error["msg"])
        raise UserError(f"{key} {message}; got {value}.") from validation


def _unknown_key(key: str, keys_of_section: Sequence[str]) -> UserError:
    """Error for a key that no chosen option has."""
    choices = choices_by_key()
    if choices.get(key):
        listed = ", ".join(choices[key])
        return UserError(f"'{key}' belongs to {listed}, which is not chosen.")
    keys = [known for known in [*keys_of_section, *choices] if known != key]
    return UserError(
        f"There is no key '{key}'.{did_you_mean(key, keys)} `attnexp config` lists the keys of "
        f"what is chosen, `attnexp config --groups` all there is to choose.",
    )


def choices_by_key() -> dict[str, list[str]]:
    """Every key, with the choices that it belongs to, such as `position=learned`; with none where
    it is a group, or one of every run."""
    choices = defaultdict[str, list[str]](list)
    for key, _, _ in walk(RunConfig()):
        choices[key] = []
    for group, allowed in PLACES.items():
        for option in groups()[group]:
            with suppress(UserError, TypeError, KeyError):  # a user's file may hold anything
                kind = read(group, option)["kind"]
                section = _spec_in_place(kind, group, allowed)
                for f in fields(section):
                    key = f"{group}.{f.name}"
                    choices[key].append(f"{group}={option}")
    for group in groups():
        choices[group] = []
    return choices


def refuse_idle(config: Any, prefix: str = "") -> None:
    """Raise `UserError` for a setting of a config, whose keys have a prefix such as `executor.`,
    that has no effect and another value than its default."""
    for key, section, f in walk(config, prefix):
        if acts(f, config):
            continue
        default = f.default if f.default_factory is MISSING else f.default_factory()
        if getattr(section, f.name) != default:
            condition = f.metadata["when"].description
            raise UserError(f"{key} would do nothing: it is for {condition}.")
