"""From words on the command line to a checked `RunConfig`, with Hydra doing the composing.

Hydra composes plain text: it picks the files of the groups and overlays. `_typed` then gives every
section the spec of the piece that was chosen (`pieces`), has pydantic check each value, and refuses
what no chosen piece has. A stored config goes the same way from there. Nothing in words, files or
stored configs is executed: `${...}` stays the text it is.
"""

import copy
import os
import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import MISSING, fields
from functools import lru_cache
from typing import Any

import hydra
import torch
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import ValidationError
from torch.overrides import TorchFunctionMode

from attnexp.base.errors import UserError
from attnexp.config import pieces, schema
from attnexp.config.options import conf_dir, file, groups, read
from attnexp.config.pieces import CLASS, Piece
from attnexp.config.schema import PLACES, ExecutorConfig, RunConfig, did_you_mean, flatten, walk
from attnexp.config.words import check_option, options_of, parse

_built: set[str] = set()
"""Models that could be built, as texts."""


class _WithoutLargeDraws(TorchFunctionMode):
    """Leaves large tensors empty, which costs neither time nor memory. On the meta device a model
    would take as little, but torch imports its compiler there, for two seconds."""

    def __torch_function__(self, call: Any, _: Any, args: Any = (), given: Any = None) -> Any:
        if call.__name__ in ("normal_", "uniform_"):
            tensor = args[0] if args else given["tensor"]
            if tensor.numel() > 1_000_000:
                return tensor
        return call(*args, **(given or {}))


class NotTrusted(UserError):
    """A stored run names code from outside attnexp, and the user has not allowed it."""


def compose(*given: str | Sequence[str]) -> RunConfig:
    """The config of one run, from words such as `seed=3`, or lists of them.

    Raises `UserError` for anything in them that is wrong.
    """
    words = [word for each in given for word in ([each] if isinstance(each, str) else each)]
    one_run = f"this is one run. For many runs: attnexp sweep {shlex.join(words)}"
    for word in words:
        if re.match(r"(study|executor|tune)\b", word):
            raise UserError(f"{word} is for many runs, and {one_run}")
    return _typed(_composed(parse(words, one_run)), words)


def is_executor(key: str) -> bool:
    """Whether a key belongs to `compose_executor` rather than to `compose`."""
    return key.partition(".")[0] == "executor"


def compose_executor(words: Sequence[str]) -> ExecutorConfig:
    """Executor settings of a sweep, from words such as `executor=ray executor.gpu=0.5`."""
    tree: dict[str, Any] = {"executor": "local"}
    _set(tree, parse(words, "a sweep has one executor."))
    given = tree["executor"] if isinstance(tree["executor"], dict) else {"kind": tree["executor"]}
    config: ExecutorConfig = _made(
        ExecutorConfig, read("executor", given["kind"]) | given, "executor."
    )
    _reset_idle(config, words, "executor.")
    return config


def overlay(tree: dict[str, Any], words: Sequence[str], *, trust_code: bool = False) -> RunConfig:
    """A config that was resolved before (as `to_dict` gives it), with some keys set anew.

    A run's folder may come from anyone. Raises `NotTrusted` where its config names code that is not
    attnexp's, unless the user trusts it (`--trust-code`): composing imports that code.
    """
    if (found := foreign_code(tree)) and not trust_code:
        raise NotTrusted(
            f"This run's model is not attnexp's alone: loading it would run {', '.join(found)}. If "
            f"you trust this code, add --trust-code. Tables and verdicts need no model."
        )
    tree = copy.deepcopy(tree)
    _set(tree, parse(words, "this is one run."))
    return _typed(tree, words)


def foreign_code(config: dict[str, Any]) -> list[str]:
    """Code that is not attnexp's in a config as `to_dict` gives it, as `module:name`."""
    return [
        value
        for key, value in flatten(config).items()
        if key in ("data.tokenizer", "train.loss") or key.partition(".")[0] in PLACES
        if CLASS.fullmatch(str(value)) and not value.startswith("attnexp.")
    ]


def _composed(overrides: Sequence[Override]) -> dict[str, Any]:
    """Values of the chosen files and of the words, as plain text."""
    chosen, settings = dict[str, list[str]](), list[Override]()
    keys = [str(override.key_or_group) for override in overrides]
    # Without an experiment, a piece is read by `_piece` like the pieces within it: far sooner.
    by_hydra = groups() if "experiment" in keys else groups().keys() - PLACES.keys()
    for key, override in zip(keys, overrides, strict=True):
        if key not in by_hydra or "." in key:
            settings.append(override)
        else:  # several experiments compose, of other groups the last word counts
            before = chosen.get(key, []) if key == "experiment" else []
            chosen[key] = before + options_of(override)
    try:
        files = {key: [_offer(key, name) for name in names] for key, names in chosen.items()}
        merge = _merged if files == chosen else _merged.__wrapped__  # a user's file may change
        tree = copy.deepcopy(merge(*(f"{key}=[{','.join(names)}]" for key, names in files.items())))
    except (HydraException, OmegaConfBaseException) as error:
        given = " ".join(f"{key}={','.join(names)}" for key, names in chosen.items())
        said = re.sub("^In '.*?': ", "", str(error.__cause__ or error).splitlines()[0])
        raise UserError(f"{given}: {said}") from error
    _set(tree, settings)
    return tree


@lru_cache
def _merged(*files: str) -> dict[str, Any]:
    """Values of the chosen files; cached, since reading takes longer than all the rest."""
    with hydra.initialize_config_dir(str(conf_dir().resolve()), version_base="1.3"):
        tree: Any = OmegaConf.to_container(hydra.compose("config", [*files]), resolve=False)
    return tree  # type: ignore[no-any-return]


def _offer(group: str, option: str) -> str:
    """Register a user's class or file with Hydra; returns the option's name there."""
    is_class = CLASS.fullmatch(option)
    if not is_class and conf_dir() in file(group, option).parents:
        return option
    tree = {"kind": option} if is_class else copy.deepcopy(read(group, option))
    defaults = tree.get("defaults", []) if isinstance(tree, dict) else None
    if not isinstance(defaults, list) or "hydra" in tree or "${" in str(defaults):
        raise UserError(f"{group}={option} must hold keys and, if any, a list of plain defaults.")
    for entry in [one for one in defaults if isinstance(one, dict)]:
        for key, name in entry.items():
            if (within := str(key).rpartition("/")[2]) in groups() and name is not None:
                check_option(within, str(name))
                entry[key] = _offer(within, str(name))
    name = "own_" + re.sub(r"\W", "_", option)
    package = "_global_" if group == "experiment" else None
    ConfigStore.instance().store(group=group, name=name, node=tree, package=package)
    return name


def _set(tree: dict[str, Any], settings: Sequence[Override]) -> None:
    """Put values into the tree by their keys; choices first, then the settings within them."""
    for override in sorted(settings, key=lambda one: str(one.key_or_group).count(".")):
        *sections, name = str(override.key_or_group).split(".")
        branch = tree
        for section in sections:
            if not isinstance(branch.get(section), dict):
                branch[section] = {"kind": branch[section]} if section in branch else {}
            branch = branch[section]
        branch[name] = override.value()


def _typed(tree: dict[str, Any], words: Sequence[str]) -> RunConfig:
    """Config from a composed tree, typed by the specs of its pieces. words: given by the user."""
    for place, seams in PLACES.items():
        tree[place] = _piece(tree.get(place), place, seams)
    config: RunConfig = _made(RunConfig, tree)
    _reset_idle(config, words)
    _check(config)
    for section, name in ((config.data, "path"), (config.model, "vectors")):
        if (path := getattr(section, name, None)) and (name, config.data.name) != ("path", "hub"):
            setattr(section, name, os.path.abspath(os.path.expanduser(path)))  # links stay
    return config


def _piece(given: Any, key: str, seams: Any, option: str | None = None) -> Piece:
    """The piece chosen at `key`, with its settings. option: the choice where none is given."""
    given = dict(given) if isinstance(given, dict) else {"kind": given or option}
    kind = given.setdefault("kind", option)
    if kind is not None and not CLASS.fullmatch(str(kind)):
        check_option(key, str(kind))
        given = {"kind": None} | read(key, kind) | {k: v for k, v in given.items() if k != "kind"}
        kind = given["kind"]
    seam = pieces.seam(kind)
    if seam not in seams or (kind and not seam):
        wanted = ", ".join(filter(None, seams))
        raise UserError(f"{key}={kind}: wanted a subclass of one of attnexp.model.seams: {wanted}.")
    spec = pieces.spec(kind, seams[seam])
    for f in [f for f in fields(spec) if "seam" in f.metadata]:
        default = f.metadata["option"]
        within = {f.metadata["seam"]: Piece} | ({} if default else {None: Piece})
        given[f.name] = _piece(given.get(f.name), f"{key}.{f.name}", within, default)
    piece: Piece = _made(spec, given, f"{key}.")
    return piece


def _made(section: Any, given: dict[Any, Any], prefix: str = "") -> Any:
    """A section of the config with these values, which pydantic checks."""
    try:
        return section(**{str(name): value for name, value in given.items()})
    except ValidationError as error:
        unknown = ("unexpected_keyword_argument", "dataclass_type")
        first = min(error.errors(), key=lambda one: one["type"] not in unknown)
        key, value = prefix + ".".join(map(str, first["loc"])), first["input"]
        if first["type"] in unknown:
            known = [f"{prefix}{f.name}" for f in fields(section)]
            raise _unknown([*flatten({key: value}), key][0], known) from error
        if first["type"] == "missing":
            raise UserError(f"{key} must be given: write {key}=VALUE.") from error
        wanted = first["msg"].replace("Input should be", "must be")
        raise UserError(f"{key} {wanted}; got {value}.") from error


def _unknown(key: str, keys: Sequence[str]) -> UserError:
    """Error for a key that no chosen option has. keys: those that there are."""
    owners = dict[str, list[str]]()  # of the settings of all pieces: the choices that have them
    for group, option in [(group, one) for group, names in groups().items() for one in names]:
        with suppress(UserError, TypeError, KeyError):  # no piece; a user's may be anything
            kind = read(group, option)["kind"] if group.partition(".")[0] in PLACES else None
            frame = PLACES.get(group, {}).get(pieces.seam(kind), Piece)
            for f in fields(pieces.spec(kind, frame)):
                owners.setdefault(f"{group}.{f.name}", []).append(f"{group}={option}")
    if key in owners:
        return UserError(f"'{key}' belongs to {', '.join(owners[key])}, which is not chosen.")
    keys = [*keys, *(name for name, _, _ in walk(RunConfig()))]
    others = [one for one in {**dict.fromkeys(keys), **owners, **groups()} if one != key]
    same = [one for one in others if one.rpartition(".")[2] == key.rpartition(".")[2]]
    hint = did_you_mean(key, same) or did_you_mean(key, others)
    if "." not in key and 0 < len(same) <= 3:
        hint = f" Did you mean {' or '.join(map(repr, same))}?"
    return UserError(
        f"There is no key '{key}'.{hint} `attnexp config` lists the keys of what is chosen, "
        f"`attnexp config --groups` all there is to choose."
    )


def _reset_idle(config: Any, words: Sequence[str], prefix: str = "") -> None:
    """Set settings that have no effect to their defaults. Raises `UserError` if a word sets one,
    or a choice brings one."""
    for key, section, f in walk(config, prefix):
        if (when := f.metadata.get("when")) is None or when.holds(config):
            continue
        made = f.default if f.default_factory is MISSING else f.default_factory()
        value = getattr(section, f.name)
        given = [one for one in words if one.startswith((f"{key}=", f"{key}."))]
        if value != made and (isinstance(value, Piece) or isinstance(section, Piece)):
            given.append(f"{key}={value.name if isinstance(value, Piece) else value}")
        for word in set(given) - {f"{key}=none"}:
            belongs = f"{key} belongs to {when.description}"
            raise UserError(f"{word} would do nothing: {belongs}.")
        setattr(section, f.name, made)


def _check(config: RunConfig) -> None:
    """Raise `UserError` for settings that exclude each other, and for a model that cannot be built:
    it is built once, so that its constructors speak."""
    data, model = config.data, config.model
    if data.name in ("files", "hub") and data.path is None:
        wanted = "a folder or file" if data.name == "files" else "a data set's name"
        raise UserError(f"data={data.name} needs data.path: {wanted}. None was given.")
    if ":" in data.tokenizer:
        pieces.load(data.tokenizer)
    elif data.tokenizer not in schema.TOKENIZERS:
        hint = did_you_mean(data.tokenizer, schema.TOKENIZERS)
        choices = f"{', '.join(schema.TOKENIZERS)}; or give a function as module:function"
        raise UserError(f"data.tokenizer={data.tokenizer}: no such one.{hint} Choose {choices}.")
    is_blind = not model.fills("Layers") or config.mask.fills("Causal")
    if config.is_network and model.pooling.fills("SummaryToken") and is_blind:
        raise UserError(
            "model.pooling=cls reads the first token, which must see the others; without attention "
            "and with mask=causal it does not. Use model.pooling=last."
        )
    parts = repr((model, config.position, config.mask, data.max_len, data.vocab_size))
    if config.is_network and parts not in _built:
        try:
            with torch.random.fork_rng(devices=[]), _WithoutLargeDraws():
                pieces.load("attnexp.model.classifier:build_model")(config)
        except RuntimeError as error:  # torch's, of memory and sizes
            raise UserError(f"The model cannot be built: {str(error).splitlines()[0]}") from error
        _built.add(parts)
