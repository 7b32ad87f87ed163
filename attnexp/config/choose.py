"""From a plain tree to a checked `RunConfig`: the piece of each place, then all values by pydantic,
and what is wrong with them in the user's terms."""

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields
from os.path import abspath, expanduser
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
    # Paths from the root, links left as they are.
    if data.path is not None and data.name != "hub":
        data.path = abspath(expanduser(data.path))
    model: Any = config.model
    if config.vectors is not None:
        model.vectors = abspath(expanduser(config.vectors))
    return config


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
        tree = OmegaConf.create(compose_options({key: str(name)}, []))
        option: Any = OmegaConf.to_container(OmegaConf.select(tree, key), resolve=True)
        settings = option | settings | {"kind": option["kind"]}
    piece_spec = _spec_in_place(settings["kind"], key, allowed)
    for f in fields(piece_spec):
        if "seam" in f.metadata:
            seam = f.metadata["seam"]()
            default = f.metadata.get("default_kind")
            inner: Allowed = {seam: Piece} if default else {seam: Piece, None: Piece}
            choice = settings.get(f.name) or default
            settings[f.name] = choose_piece(choice, f"{key}.{f.name}", inner)
    piece: Piece = validate(piece_spec, settings, f"{key}.")
    return piece


def _spec_in_place(kind: str | None, key: str, allowed: Allowed) -> Any:
    """The dataclass of a class's settings in its place. Raises `UserError` if it does not fit."""
    if kind is None and None in allowed:
        return allowed[None]
    seams_allowed = [seam for seam in allowed if seam is not None]
    cls = None if kind is None else load(kind)
    for seam in seams_allowed:
        if isinstance(cls, type) and issubclass(cls, seam):
            return spec(kind, allowed[seam])
    names = [seam.__name__ for seam in seams_allowed]
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
        key = prefix + ".".join(map(str, error["loc"]))
        value = error["input"]
        if error["type"] in UNKNOWN:
            innermost, *_ = [*flatten({key: value}), key]
            keys_of_section = [f"{prefix}{f.name}" for f in fields(section)]
            unknown = _unknown_key(innermost.removesuffix(".kind"), keys_of_section)
            raise unknown from validation
        if error["type"] == "missing":
            raise UserError(f"{key} must be given: write {key}=VALUE.") from validation
        message = re.sub("^(Input|String) should", "must", error["msg"])
        raise UserError(f"{key} {message}; got {value}.") from validation


def _unknown_key(key: str, keys_of_section: Sequence[str]) -> NotChosen:
    """Error for a key that no chosen option has."""
    choices = _choices_by_key()
    if choices.get(key):
        return NotChosen(key, f"'{key}' belongs to {', '.join(choices[key])}, which is not chosen.")
    keys = [known for known in [*keys_of_section, *choices] if known != key]
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
                for f in fields(_spec_in_place(kind, group, allowed)):
                    choices.setdefault(f"{group}.{f.name}", []).append(f"{group}={option}")
    return choices | {group: [] for group in groups()}


def option_as_setting(option: str, words: Sequence[str]) -> str:
    """What to write instead of an option that no command has, such as `--epochs 3`; empty where no
    setting is called so. words: all of the command line."""
    names = [word.partition("=")[0] for word in words]
    if option not in names:
        return ""
    place = names.index(option)
    word = words[place]
    if not option.startswith("--"):
        return habit(word)
    name = option.removeprefix("--").replace("-", "_")
    value = word.partition("=")[2] or [*words, "VALUE"][place + 1]
    instead = habit(f"{name}={value}") or habit(word)
    choices = _choices_by_key()
    keys = [name] if name in choices else [key for key in choices if key.endswith(f".{name}")]
    settings = [shlex.quote(f"{key}={value}") for key in keys[:2]]
    if instead or not settings:
        return instead
    return f"{option}: settings have no dashes: {' or '.join(settings)}"


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
