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
from attnexp.config.settings import OF_SWEEPS, Tree, flatten, set_keys
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
    "mask": {seams.Mask: schema.MaskConfig, NoneType: schema.MaskConfig},
}
ANY_CLASS: Allowed = {object: Piece}


def check_run(tree: Tree) -> RunConfig:
    """The config of a tree without interpolations, whose classes it imports. Raises `UserError`."""
    chosen: Tree = {key: choose_piece(tree.get(key, {}), key, PLACES[key]) for key in PLACES}
    train = tree.get("train")
    if isinstance(train, dict) and train.get("loss") is not None:
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
    if data.path is not None and data.name != "hub":
        data.path = abspath(expanduser(data.path))
    if data.tokenizer not in TOKENIZERS:
        load(data.tokenizer)  # raises unless it can be imported
    return config


def choose_piece(choice: Any, key: str, allowed: Allowed, default: str | None = None) -> Piece:
    """The piece of a choice at a key such as `model`, with those within it. choice: an option, a
    class, or a section with either as its `kind`. default: the kind of a section without one.
    Raises `UserError` for a class that does not fit there, or a wrong setting."""
    if not isinstance(choice, dict):
        choice = {"kind": choice}
    settings: Tree = dict(choice)
    kind = settings.pop("kind", default)
    if kind is not None and not CLASS.fullmatch(str(kind)):  # an option: its file, below `settings`
        settings = set_keys(read(key, str(kind)), flatten(settings))
        kind = settings.pop("kind", None)
    piece_spec = _spec_in_place(kind, key, allowed)
    places = {f.name: f.metadata["place"] for f in fields(piece_spec) if "place" in f.metadata}
    for name, (seam, default_kind) in places.items():
        fitting: Allowed = {seam(): Piece}
        if default_kind is None:
            fitting[NoneType] = Piece
        choice_within = settings.get(name, {})
        settings[name] = choose_piece(choice_within, f"{key}.{name}", fitting, default_kind)
    piece: Piece = validate(piece_spec, {"kind": kind} | settings, f"{key}.")
    return piece


def _choose_loss(choice: Any) -> Piece | None:
    """The loss of a choice: a function, or a class with settings. Settings alone are an error."""
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
    if key == "experiment" or OF_SWEEPS.fullmatch(key):  # in an experiment's file
        return f"'{key}' is no key of a run, but a word of the command line."
    if key == "defaults":
        return "A list of defaults acts in conf/experiment/NAME.yaml, chosen as experiment=NAME."
    options_by_key = _options_by_key()
    if key in options_by_key:
        return f"'{key}' belongs to {', '.join(options_by_key[key])}, which is not chosen."
    if prefix:
        lacking = f"{prefix[:-1]}={name_of(values.get('kind'))} has"
        keys = [f"{prefix}{f.name}" for f in fields(section_type)]
    else:
        lacking = "There is"
        keys = [*groups(), *meanings(RunConfig()), *options_by_key]
    return (
        f"{lacking} no key '{key}'.{did_you_mean(key, keys)} `attnexp config` lists the keys of "
        f"what is chosen, `attnexp config --groups` all there is to choose."
    )


def _options_by_key() -> dict[str, list[str]]:
    """Keys of all pieces, with the options that have each: `mask=window` for `mask.radius`. This
    imports the class of every option."""
    options_by_key: dict[str, list[str]] = {}
    for group, options in groups().items():
        if group.partition(".")[0] not in PLACES:
            continue
        allowed = PLACES.get(group, ANY_CLASS)
        for option in options:
            try:
                option_spec = _spec_in_place(read(group, option).get("kind"), group, allowed)
            except UserError:
                continue  # A user's may name no class.
            for f in fields(option_spec):
                options_by_key.setdefault(f"{group}.{f.name}", []).append(f"{group}={option}")
    return options_by_key
