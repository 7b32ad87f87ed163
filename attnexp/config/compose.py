"""From words on the command line to a checked `RunConfig`, with Hydra doing the composing.

Hydra composes plain text: it picks the files of the groups and overlays. `_typed` then gives every
section the spec of the piece that was chosen (`pieces`), lets OmegaConf check types against it, and
refuses what no chosen piece has. A stored config goes the same way from there. Nothing in words,
studies or stored configs is executed: `${...}` stays the text it is.
"""

import copy
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING, asdict, fields, replace
from functools import lru_cache, reduce
from typing import Any

from hydra import compose as hydra_compose
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from attnexp.base.errors import UserError
from attnexp.config import pieces
from attnexp.config.checks import check, check_bounds
from attnexp.config.options import groups, is_file, read
from attnexp.config.pieces import CLASS, Piece
from attnexp.config.schema import (
    PLACES,
    DataName,
    ExecutorConfig,
    ModelConfig,
    RunConfig,
    SweepConfig,
    did_you_mean,
    flatten,
    owners,
    walk,
)
from attnexp.config.signatures import SEAMS
from attnexp.config.words import check_option, hydra_initialized, options_of, parse

EXECUTOR = "executor"
"""Group of the options that say where a sweep's runs take place; it is part of no run."""

MAX_NEAR = 3
"""Maximum number of keys that a message offers for one written without its section."""


class NotChosen(UserError):
    """Error about a key that belongs to options other than the chosen ones."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


ConfigStore.instance().store(name="sweep_schema", node=SweepConfig)


def compose(*given: str | Sequence[str]) -> RunConfig:
    """The config of one run, from words such as `seed=3`, or lists of them.

    Raises `UserError` for anything in them that is wrong.
    """
    pieces.forget_edited()
    words = [word for each in given for word in ([each] if isinstance(each, str) else each)]
    one_run = f"this is one run. For many runs: attnexp sweep {shlex.join(words)}"
    for word in words:
        if word.startswith(("tune=", "tune.")):
            raise UserError(f"{word} searches with many runs, and {one_run}")
    overrides = parse(words, one_run)
    for override in overrides:
        key = str(override.key_or_group)
        if key == "study":
            raise UserError(f"A study is many runs, and {one_run}")
        if is_executor(key):
            raise UserError(f"{override.input_line} places many runs, and {one_run}")
    return _typed(_composed(overrides), words)


def compose_each(runs: Iterable[Sequence[str]]) -> Iterator[RunConfig]:
    """The configs of runs whose words differ in seeds alone: `compose` gives each the same.

    Hydra composes the first; the others share its sections, but for `seeds`.
    """
    first: RunConfig | None = None
    for words in runs:
        seeds = None if first is None else _seeds(words)
        if first is None or seeds is None:
            first = compose(words)
            yield first
        else:
            own = {key.removeprefix("seeds."): seed for key, seed in seeds.items() if "." in key}
            seed = seeds.get("seed", first.seed)
            yield replace(first, seed=seed, seeds=replace(first.seeds, **own))


def is_seed(key: str) -> bool:
    """Whether runs that differ in this key belong to the same variant."""
    return key == "seed" or key.startswith("seeds.")


def _seeds(words: Sequence[str]) -> dict[str, Any] | None:
    """Seeds among the words, by key; None if one is not written as a sweep writes it."""
    pairs = [word.partition("=")[::2] for word in words]
    found = {key: value for key, value in pairs if is_seed(key)}
    plain = all(re.fullmatch("[0-9]{1,18}|null", value) for value in found.values())
    if not plain or found.get("seed") == "null":
        return None
    return {key: None if value == "null" else int(value) for key, value in found.items()}


def compose_executor(words: Sequence[str]) -> ExecutorConfig:
    """Executor settings of a sweep, from words such as `executor=ray executor.gpu=0.5`."""
    overrides = parse(words, "a sweep has one executor.")
    for override in overrides:
        key, keys = str(override.key_or_group), [name for name, _, _ in walk(SweepConfig())]
        if key not in (EXECUTOR, *keys):
            hint = did_you_mean(key, keys)
            raise UserError(f"There is no key {key}.{hint} There are {', '.join(keys)}.")
    config = _filled(SweepConfig(), _composed(overrides, root="sweep"))
    assert isinstance(config, SweepConfig)
    check_bounds(config)
    _reset_idle(config, words)
    return config.executor


def is_executor(key: str) -> bool:
    """Whether a key belongs to `compose_executor` rather than to `compose`."""
    return key == EXECUTOR or key.startswith(f"{EXECUTOR}.")


def overlay(tree: dict[str, Any], words: Sequence[str]) -> RunConfig:
    """A config that was resolved before (as `to_dict` gives it), with some keys set anew."""
    overrides = parse(words, "this is one run.")
    tree = copy.deepcopy(tree)
    _set(tree, overrides)
    return _typed(tree, words)


def _composed(overrides: Sequence[Override], root: str = "config") -> dict[str, Any]:
    """Values of the chosen files and of the words, as plain text. root: a file of `conf/`."""
    files, settings = [], []
    keys = [str(override.key_or_group) for override in overrides]
    # Without an overlay, a piece is read by `_piece` like the pieces within it: far sooner.
    chosen = groups() if "experiment" in keys else groups().keys() - PLACES.keys()
    for key, override in zip(keys, overrides, strict=True):
        if key not in chosen or "." in key:
            settings.append(override)
        else:
            (option,) = options_of(override)
            files.append(f"{key}={_offer(key, option)}")
    # The file of one's own has one name, whatever it holds.
    merge = _merged.__wrapped__ if "experiment=a_file" in files else _merged
    try:
        tree: dict[str, Any] = copy.deepcopy(merge(root, tuple(files)))
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        given = " ".join(str(o.input_line) for o in overrides if o not in settings)
        raise UserError(f"{given}: {_cause(error)}") from error
    _set(tree, settings)
    return tree


@lru_cache
def _merged(root: str, files: tuple[str, ...]) -> Any:
    """Values of the chosen files; cached, since reading takes longer than all the rest."""
    with hydra_initialized():
        return OmegaConf.to_container(hydra_compose(root, overrides=[*files]), resolve=False)


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


def _offer(group: str, option: str) -> str:
    """Register a user's class or experiment with Hydra; returns the option's name there."""
    if CLASS.fullmatch(option):
        ConfigStore.instance().store(group=group, name=option, node={"kind": option})
    elif group == "experiment" and is_file(option):
        tree = read(group, option)
        if not isinstance(tree, dict) or not isinstance(tree.get("defaults", []), list):
            raise UserError(f"{group}={option} must hold keys and, if any, a list of defaults.")
        executed = {key: tree[key] for key in ("defaults", "hydra") if key in tree}  # by Hydra
        if "${" in str(executed):
            raise UserError(f"{group}={option}: no name of a choice holds '${{'; got {executed}.")
        for entry in tree.get("defaults", []):
            for key, chosen in entry.items() if isinstance(entry, dict) else []:
                _offer(str(key).rpartition("/")[2], str(chosen))
        ConfigStore.instance().store(group=group, name="a_file", node=tree, package="_global_")
        return "a_file"
    return option


def _typed(tree: Any, words: Sequence[str]) -> RunConfig:
    """Config from a composed tree, typed by the specs of its pieces. words: given by the user."""
    schema = RunConfig()
    for place, seams in PLACES.items():
        setattr(schema, place, _piece(tree, place, seams, option=None))
    known = asdict(schema)
    keys = flatten(known)
    for key in flatten(tree):
        if key not in keys:
            raise _unknown(key, known)
    config = _filled(schema, tree)
    assert isinstance(config, RunConfig)
    return _finish(config, words)


def _filled(schema: Any, tree: Any) -> Any:
    """Copy of a config with the values of a tree. Raises `UserError` for wrong types."""
    try:
        merged = OmegaConf.unsafe_merge(OmegaConf.structured(schema), _as_text(tree))
        return OmegaConf.to_object(merged)
    except MissingMandatoryValue as error:
        raise UserError(f"{error.full_key} must be given: write {error.full_key}=VALUE.") from error
    except OmegaConfBaseException as error:
        raise UserError(_cause(error)) from error


def _piece(branch: dict[str, Any], key: str, seams: Any, *, option: str | None) -> Piece:
    """The piece chosen at `key`, with its default settings; puts its `kind` into the tree."""
    name = key.rpartition(".")[2]
    given = branch.get(name, option)
    given = dict(given) if isinstance(given, dict) else {"kind": given}
    kind = given.setdefault("kind", option)
    if kind is not None and not CLASS.fullmatch(str(kind)):
        check_option(key, str(kind))
        given = read(key, kind) | {k: v for k, v in given.items() if k != "kind"}
    branch[name] = given
    seam = pieces.seam(given["kind"])
    if seam not in seams or (given["kind"] and not seam):
        wanted = " or ".join(pieces.describe(name) for name in seams if name)
        raise UserError(
            f"{key}={given['kind'] or 'none'}: a piece for {key} is a subclass of one of "
            f"{SEAMS}: {wanted}."
        )
    piece: Piece = pieces.spec(given["kind"], seams[seam])()
    for f in fields(piece):
        if "seam" in f.metadata:
            within = {f.metadata["seam"]: Piece}
            if f.metadata["option"] is None:
                within[None] = Piece
            inner = _piece(given, f"{key}.{f.name}", within, option=f.metadata["option"])
            setattr(piece, f.name, inner)
    return piece


def _unknown(key: str, known: Any) -> UserError:
    """Error for a key that no chosen option has. known: tree of the keys that exist."""
    section, _, _ = key.rpartition(".")
    having = owners().get(key, [])
    if having:
        here = reduce(lambda tree, name: tree.get(name, {}), section.split("."), known)
        names = ", ".join(str(name) for name in here if name != "kind") or "no settings"
        return NotChosen(
            key, f"'{key}' belongs to {', '.join(having)}. What is chosen as {section} has {names}."
        )
    keys = [*dict.fromkeys([*flatten(known), *owners()])]
    ends = [k for k in keys if k.endswith(f".{key.rpartition('.')[2]}")]
    near = did_you_mean(key, ends)
    if not near and "." not in key and 0 < len(ends) <= MAX_NEAR:
        near = f" Did you mean {' or '.join(map(repr, ends))}?"
    others = [*keys, *groups(), *(k.partition(".")[0] for k in keys)]
    near = near or did_you_mean(key, [other for other in others if other != key])
    return UserError(
        f"There is no key '{key}'.{near} `attnexp config` lists the keys of what is chosen, "
        f"`attnexp config --groups` all there is to choose."
    )


def _as_text(tree: Any) -> Any:
    """Escape what OmegaConf would execute, and the backslashes that would undo it."""
    if isinstance(tree, dict):
        return {key: _as_text(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_as_text(value) for value in tree]
    return re.sub(r"(\\*)\$\{", r"\1\1\\${", tree) if isinstance(tree, str) else tree


def _finish(config: RunConfig, words: Sequence[str]) -> RunConfig:
    """Check a config, and bring equal settings into one form: absolute paths, default widths."""
    check_bounds(config)
    if config.model.fills("Attention") and hasattr(config.model, "d_head"):
        for width in ("d_query", "d_key", "d_value"):
            if getattr(config.model, width, None) == config.model.d_head:
                setattr(config.model, width, None)
    check(config)
    _reset_idle(config, words)
    data = config.data  # unlike resolve(), abspath keeps links
    if data.path is not None and data.name is not DataName.hub:
        data.path = os.path.abspath(os.path.expanduser(data.path))
    if isinstance(config.model, ModelConfig) and config.model.vectors is not None:
        config.model.vectors = os.path.abspath(os.path.expanduser(config.model.vectors))
    return config


def _reset_idle(config: Any, words: Sequence[str]) -> None:
    """Set settings that have no effect to their defaults. Raises `NotChosen` if a word sets one."""
    for key, section, f in walk(config):
        when = f.metadata.get("when")
        if when is not None and not when.holds(config):
            for word in words:
                if word != f"{key}=none" and word.startswith((f"{key}=", f"{key}.")):
                    raise NotChosen(
                        word.partition("=")[0],
                        f"{word} would do nothing: {key} belongs to {when.description}.",
                    )
            made = f.default if f.default_factory is MISSING else f.default_factory()
            setattr(section, f.name, made)


def _cause(error: BaseException) -> str:
    """Innermost message of an error: Hydra wraps OmegaConf's, which names key and type."""
    while error.__cause__ is not None:
        error = error.__cause__
    key = getattr(error, "full_key", None)
    message = str(getattr(error, "msg", None) or error).splitlines()[0]
    # The first is of our escapes, the second our name for the file.
    message = re.sub("^(While dereferencing interpolation|In) '.*?': ", "", message)
    return f"{key}: {message}. `attnexp config` shows a value that fits." if key else message
