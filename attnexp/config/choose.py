"""From a plain tree to a checked `RunConfig`, or to a `UserError` in the user's terms."""

import re
from dataclasses import fields
from os.path import abspath, expanduser
from types import NoneType
from typing import Any

from pydantic import ValidationError

from attnexp.base.errors import UserError, did_you_mean
from attnexp.config import schema
from attnexp.config.options import groups, name_of, read
from attnexp.config.pieces import CLASS, Piece, load, spec
from attnexp.config.schema import TOKENIZERS, RunConfig, meanings, refuse_idle
from attnexp.config.settings import OF_SWEEPS, PIECES, Tree, flatten, set_keys
from attnexp.model import seams

Allowed = dict[type[Any], Any]
"""Seams that a piece may fill in a place (`NoneType`: no piece), with their common settings."""
PLACES: dict[str, Allowed] = {
    "model": {
        seams.Layers: schema.ModelConfig,
        seams.Mixer: schema.ModelConfig,
        seams.Embedding: schema.ModelConfig,
        seams.Network: Piece,
        seams.Baseline: Piece,
    },
    "position": {
        seams.JoinedPosition: schema.PositionConfig,
        seams.Rotation: schema.PositionConfig,
        seams.ScoreBias: schema.PositionConfig,
        NoneType: Piece,
    },
    # Without a pattern of its own, a mask may still hide padding.
    "mask": {seams.Mask: schema.MaskConfig, NoneType: schema.MaskConfig},
}


def check_run(tree: Tree) -> RunConfig:
    """The config of a tree without interpolations, whose classes it imports. Raises `UserError`."""
    chosen: Tree = {}
    for key, allowed in PLACES.items():
        chosen[key] = choose_piece(tree.get(key, {}), key, allowed)
    train = tree.get("train")
    if isinstance(train, dict) and "loss" in train:
        chosen["train"] = train | {"loss": _choose_loss(train["loss"])}
    config: RunConfig = validate(RunConfig, tree | chosen)
    refuse_idle(config)
    position = config.position
    acts_on_attention = position.fills(seams.Rotation, seams.ScoreBias)
    if acts_on_attention and not config.model.fills(seams.Layers):
        raise UserError(f"position={position.name} acts on attention, and this model has none.")
    data = config.data
    if data.name in ("files", "hub") and data.path is None:
        raise UserError(f"data={data.name} needs data.path: a folder, a file or a name on the hub.")
    if data.path is not None and data.name != "hub":  # On the hub it is a name.
        data.path = abspath(expanduser(data.path))
    if data.tokenizer not in TOKENIZERS:
        load(data.tokenizer)  # raises unless it can be imported
    return config


def choose_piece(choice: Any, key: str, allowed: Allowed, default: str | None = None) -> Piece:
    """The piece of a choice at a key such as `model`, with those within it. choice: an option, a
    class, or a section with either as `kind`, or else the `default` kind. Raises `UserError`."""
    settings: Tree = choice if isinstance(choice, dict) else {"kind": choice}
    kind = settings.get("kind", default)
    if kind is not None and not CLASS.fullmatch(str(kind)):  # the name of an option
        option = read(key, str(kind))
        kind = option.get("kind")
        settings = set_keys(option, flatten(settings))
    settings = settings | {"kind": kind}  # the class, where the option's name may have stood
    piece_spec = _spec_in_place(kind, key, allowed)
    within: dict[str, Piece] = {}
    for f in fields(piece_spec):
        if place := f.metadata.get("place"):
            fitting: Allowed = {place.seam(): Piece}
            if place.default_kind is None:
                fitting[NoneType] = Piece
            inner = settings.get(f.name, {})
            within[f.name] = choose_piece(inner, f"{key}.{f.name}", fitting, place.default_kind)
    piece: Piece = validate(piece_spec, settings | within, f"{key}.")
    return piece


def _choose_loss(choice: Any) -> Piece | None:
    """The loss of a choice: a function, or a class with settings; it has no seam, no options."""
    settings = choice if isinstance(choice, dict) else {"kind": choice}
    loss: Piece = validate(spec(load(settings.get("kind"))), settings, "train.loss.")
    return loss if loss.kind else None


def _spec_in_place(kind: str | None, key: str, allowed: Allowed) -> Any:
    """The dataclass of a class's settings in its place. Raises `UserError` if it does not fit."""
    cls = load(kind)
    for seam, base_spec in allowed.items():
        if isinstance(cls, type) and issubclass(cls, seam):
            return spec(cls, base_spec)
    listed = " or ".join(seam.__name__ for seam in allowed if seam is not NoneType)
    raise UserError(f"{key}={kind}: wanted a subclass of {listed} (docs/extending.md).")


def validate(section_type: Any, values: Tree, prefix: str = "") -> Any:
    """A section with these values, whose keys have a prefix such as `model.`, or a `UserError`."""
    try:
        return section_type(**{str(key): value for key, value in values.items()})  # `1: x` is YAML.
    except ValidationError as validation:
        errors = validation.errors()
        unknown = [error for error in errors if error["type"] == "unexpected_keyword_argument"]
        error = (unknown or errors)[0]  # An unknown key says more than a wrong value.
        key = prefix + ".".join(map(str, error["loc"]))
        if unknown:
            message = _describe_unknown(key, section_type, values, prefix)
        elif error["type"] == "missing":
            message = f"{key} must be given: write {key}=VALUE."
        else:
            what_is_wrong = re.sub("^(Input|String) should", "must", error["msg"])
            message = f"{key} {what_is_wrong}; got {error['input']}."
        raise UserError(message) from validation


def _describe_unknown(key: str, section_type: Any, values: Tree, prefix: str) -> str:
    """What to say of a key that no chosen option has."""
    if key == "experiment":  # Hydra puts a file by name below it that does not begin so.
        return "'experiment' is no key of a run. A file of one begins with '# @package _global_'."
    if OF_SWEEPS.fullmatch(key):  # in an experiment's file
        return f"'{key}' is no key of a run, but a word of the command line."
    if key == "defaults":
        return "A list of defaults acts in conf/experiment/NAME.yaml, chosen as experiment=NAME."
    if prefix:
        names = [f.name for f in fields(section_type)]
        owner = f"{prefix[:-1]}={name_of(values.get('kind'))}"
        hint = did_you_mean(key.removeprefix(prefix), names, prefix)
        return f"{owner} has no key '{key}'.{hint} It has {', '.join(names)}."
    pieces = {section: values[section] for section in PIECES}  # They have been checked.
    hint = did_you_mean(key, groups() | meanings(RunConfig(**pieces)))
    listing = "`attnexp config` lists the keys, `attnexp config --groups` all that may be chosen"
    return f"There is no key '{key}'.{hint} {listing}."
