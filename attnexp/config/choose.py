"""From a plain tree to a checked `RunConfig`: the piece of each place, then all values."""

import os
from collections.abc import Mapping
from dataclasses import Field, asdict, fields
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
    model: Any = config.model
    if getattr(model, "vectors", None) is not None:  # a baseline has none
        model.vectors = _absolute(model.vectors)
    return config


def with_seeds(config: RunConfig, seeds: Mapping[str, Any]) -> RunConfig:
    """The same config with other seeds, by key: {"seed": 3, "seeds.init": 4}.

    The sections of both are the same objects. Raises `UserError` for a seed that is wrong.
    """
    sources = {"seed": config.seed} | asdict(config.seeds)
    sources |= {key.removeprefix("seeds."): seed for key, seed in seeds.items()}
    values = {f.name: getattr(config, f.name) for f in fields(config)}
    values["seed"] = sources.pop("seed")
    values["seeds"] = validate(SeedsConfig, sources, "seeds.")
    seeded: RunConfig = validate(RunConfig, values)
    refuse_idle(seeded, seeded.seeds, "seeds.")
    return seeded


def choose_piece(choice: Any, key: str, allowed: Allowed) -> Piece:
    """The piece chosen at a key, with its settings.

    choice: a name or class, or a section that has one as its `kind`. Raises `UserError` for a class
    that does not fit there, and for a setting that is wrong.
    """
    settings: dict[str, Any] = {"kind": None}
    settings |= choice if isinstance(choice, dict) else {"kind": choice}
    name = settings["kind"]
    if name is not None and not CLASS.fullmatch(str(name)):  # of an option, as in `before: cnn`
        tree = OmegaConf.create(compose_options({key: str(name)}))
        option: Any = OmegaConf.to_container(OmegaConf.select(tree, key), resolve=True)
        settings = {**option, **settings, "kind": option["kind"]}
    kind = settings["kind"]
    piece_spec = spec(kind, common_settings(kind, key, allowed))
    for f in fields(piece_spec):
        if "seam" in f.metadata:
            settings[f.name] = _choose_inner(settings.get(f.name), f"{key}.{f.name}", f)
    piece: Piece = validate(piece_spec, settings, f"{key}.")
    return piece


def _choose_inner(choice: Any, key: str, f: Field[Any]) -> Piece:
    """The piece at a setting of another piece; none may stand where that has no default."""
    default = f.metadata.get("default_kind")
    allowed: dict[type | None, Any] = {f.metadata["seam"](): Piece}
    if default is None:
        allowed[None] = Piece
    return choose_piece(choice or default, key, allowed)


def _absolute(path: str) -> str:
    """The path from the root, links left as they are."""
    return os.path.abspath(os.path.expanduser(path))
