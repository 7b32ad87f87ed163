"""From a plain tree to a checked `RunConfig`: the piece of each place, then all values."""

import os
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from omegaconf import OmegaConf

from attnexp.base.errors import UserError
from attnexp.config.hydra_options import compose_options
from attnexp.config.pieces import CLASS, Piece, load, spec
from attnexp.config.places import PLACES, Allowed, common_settings
from attnexp.config.schema import TOKENIZERS, RunConfig, SeedsConfig
from attnexp.config.validate import refuse_idle, validate
from attnexp.model.seams import Layers, Rotation, ScoreBias


def check_run(tree: Mapping[str, Any]) -> RunConfig:
    """The config of a run from a tree without interpolations.

    Imports the classes that it names. Raises `UserError` for anything in it that is wrong.
    """
    pieces = {place: choose_piece(tree.get(place), place, PLACES[place]) for place in PLACES}
    config: RunConfig = validate(RunConfig, {**tree, **pieces})
    refuse_idle(config)
    position = config.position
    if position.fills(Rotation, ScoreBias) and not config.model.fills(Layers):
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
    if getattr(config.model, "vectors", None) is not None:  # a baseline has none
        config.model.vectors = _absolute(config.model.vectors)
    return config


def with_seeds(config: RunConfig, seeds: Mapping[str, Any]) -> RunConfig:
    """The same config with other seeds, by key: {"seed": 3, "seeds.init": 4}.

    The sections of both are the same objects. Raises `UserError` for a seed that is wrong.
    """
    sources = {key.removeprefix("seeds."): seeds[key] for key in seeds if key != "seed"}
    values = {f.name: getattr(config, f.name) for f in fields(config)}
    values["seed"] = seeds.get("seed", config.seed)
    values["seeds"] = validate(SeedsConfig, asdict(config.seeds) | sources, "seeds.")
    seeded: RunConfig = validate(RunConfig, values)
    refuse_idle(seeded, seeded.seeds, "seeds.")
    return seeded


def choose_piece(choice: Any, key: str, allowed: Allowed) -> Piece:
    """The piece chosen at a key, with its settings.

    choice: a name or class, or a section that has one as its `kind`. Raises `UserError` for a class
    that does not fit there, and for a setting that is wrong.
    """
    settings = dict(choice) if isinstance(choice, dict) else {"kind": choice}
    settings.setdefault("kind", None)
    kind = settings["kind"]
    if kind is not None and not CLASS.fullmatch(str(kind)):  # an option's name, as in `before: cnn`
        option = _settings_of_option(key, str(kind))
        kind = option["kind"]
        settings = option | settings | {"kind": kind}
    piece_spec = spec(kind, common_settings(kind, key, allowed))
    for f in fields(piece_spec):
        if "seam" in f.metadata:
            default = f.metadata["default_kind"]
            inner = settings.get(f.name) or default
            settings[f.name] = choose_piece(inner, f"{key}.{f.name}", _allowed_within(f.metadata))
    piece: Piece = validate(piece_spec, settings, f"{key}.")
    return piece


def _allowed_within(metadata: Mapping[str, Any]) -> Allowed:
    """What may stand at a setting that is a piece; nothing may where it has no default."""
    allowed: dict[type | None, type[Piece]] = {metadata["seam"](): Piece}
    if metadata["default_kind"] is None:
        allowed[None] = Piece
    return allowed


def _settings_of_option(key: str, name: str) -> dict[str, Any]:
    """What Hydra composes of the option of a group with this name."""
    config = OmegaConf.create(compose_options({key: name}))
    settings: Any = OmegaConf.to_container(OmegaConf.select(config, key), resolve=True)
    return dict(settings)


def _absolute(path: str) -> str:
    """The path from the root, links left as they are."""
    return os.path.abspath(os.path.expanduser(path))
