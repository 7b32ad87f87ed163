"""From words on the command line to a checked `RunConfig`.

The chosen files of `conf/` and the words are merged as plain text, in Hydra's order: the options of
the groups, then the experiments, then the words. `_typed` then gives every section the spec of the
piece that was chosen (`pieces`), has pydantic check each value, and refuses what no chosen piece
has. A stored config goes the same way from there. Nothing in words, files or stored configs is
executed: `${...}` stays the text it is.
"""

import copy
import os
import re
import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields, replace
from typing import Any

from pydantic import ValidationError

from attnexp.base.errors import UserError
from attnexp.config import pieces, schema
from attnexp.config.options import conf_dir, groups, read
from attnexp.config.pieces import CLASS, Piece
from attnexp.config.schema import PLACES, ExecutorConfig, RunConfig, did_you_mean, flatten, walk
from attnexp.config.words import check_option, parse_settings

Settings = Iterable[tuple[str, Any]]
"""Keys such as `position.scale`, each with its value; of one key the last counts."""

CHOSEN_BY = {"data": "name", "train": "protocol"}
"""Setting that says which option of a group was chosen, where that is not `kind`."""


class NotTrusted(UserError):
    """A stored run names code from outside attnexp, and the user has not allowed it."""


def compose(*given: str | Sequence[str]) -> RunConfig:
    """The config of one run, from words such as `seed=3`, or lists of them.

    Raises `UserError` for anything in them that is wrong.
    """
    words = [word for each in given for word in ([each] if isinstance(each, str) else each)]
    for word in words:
        if re.match(r"(study|executor|tune)\b", word):
            raise UserError(f"{word} is for many runs: attnexp sweep {shlex.join(words)}")
    return _typed(_composed(parse_settings(words)), words)


def is_executor(key: str) -> bool:
    """Whether a key belongs to `compose_executor` rather than to `compose`."""
    return key.partition(".")[0] == "executor"


def compose_executor(words: Sequence[str]) -> ExecutorConfig:
    """Executor settings of a sweep, from words such as `executor=ray executor.gpu=0.5`."""
    tree = _set({"executor": "local"}, parse_settings(words))
    given = _filled("executor", tree["executor"])
    config: ExecutorConfig = _made(ExecutorConfig, given, "executor.")
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
    return _typed(_set(tree, parse_settings(words)), words)


def foreign_code(config: dict[str, Any]) -> list[str]:
    """Code that is not attnexp's in a config as `to_dict` gives it, as `module:name`."""
    return [
        value
        for key, value in flatten(config).items()
        if key in ("data.tokenizer", "train.loss") or key.partition(".")[0] in PLACES
        if CLASS.fullmatch(str(value)) and not value.startswith("attnexp.")
    ]


def _composed(words: Settings) -> dict[str, Any]:
    """The tree of the chosen files and of the words, as plain text."""
    files = [str(conf_dir() / "config.yaml")]
    for key, value in words:
        if key == "experiment":
            files += value if isinstance(value, list) else [value]
    settings = [setting for file in files for setting in _experiment(file)]
    named = {key for key, _ in settings}
    for key, value in words:
        if f"{key}.{CHOSEN_BY.get(key, 'kind')}" in named:
            raise UserError(f"{key}={value} would do nothing: the experiment names its {key}.")
    tree = _set({}, [*settings, *(word for word in words if word[0] != "experiment")])
    return tree | {group: _filled(group, tree[group]) for group in CHOSEN_BY}


def _experiment(option: str) -> Settings:
    """Choices of an experiment's file, then its values."""
    tree, choices = read("experiment", option), []
    if not isinstance(tree, dict) or not isinstance(tree.get("defaults", []), list):
        raise UserError(f"experiment={option} must hold keys and, if any, a list of defaults.")
    for entry in tree.get("defaults", []):
        for key, name in entry.items() if isinstance(entry, dict) else [(entry, None)]:
            group = str(key).removeprefix("override ").removeprefix("/")
            if group in groups():
                check_option(group, str(name))
                choices.append((group, name))
            elif group != "_self_":
                raise UserError(
                    f"experiment={option}: there is no group '{group}'. Write defaults as "
                    f"'override /position: rotary'; give several experiments as several words."
                )
    values = flatten({key: value for key, value in tree.items() if key != "defaults"})
    return [*choices, *values.items()]


def _section(given: Any) -> dict[str, Any]:
    return given if isinstance(given, dict) else {"kind": given}


def _set(tree: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """The tree with settings put in by their keys; choices first, then the settings within them."""
    tree = copy.deepcopy(tree)
    for key, value in sorted(settings, key=lambda setting: setting[0].count(".")):
        *sections, name = key.split(".")
        branch = tree
        for section in sections:
            branch[section] = _section(branch.get(section, {}))
            branch = branch[section]
        branch[name] = value
    return tree


def _filled(group: str, given: Any) -> dict[str, Any]:
    """A section over the file of the option that is its `kind`."""
    own = {key: value for key, value in _section(given).items() if key != "kind"}
    return _set(read(group, _section(given)["kind"]), flatten(own).items())


def _typed(tree: dict[str, Any], words: Sequence[str]) -> RunConfig:
    """Config from a composed tree, typed by the specs of its pieces. words: given by the user."""
    found = {place: _piece(tree.get(place), place, seams) for place, seams in PLACES.items()}
    config: RunConfig = _made(RunConfig, tree | found)
    _reset_idle(config, words)
    _check(config)
    for section, name in ((config.data, "path"), (config.model, "vectors")):
        if (path := getattr(section, name, None)) and (name, config.data.name) != ("path", "hub"):
            setattr(section, name, os.path.abspath(os.path.expanduser(path)))  # links stay
    return config


def _piece(given: Any, key: str, seams: Any, option: str | None = None) -> Piece:
    """The piece chosen at `key`, with its settings. option: the choice where none is given."""
    given = {"kind": option} | _section(given or option)
    if given["kind"] is not None and not CLASS.fullmatch(str(given["kind"])):
        check_option(key, str(given["kind"]))
        given = {"kind": None} | _filled(key, given)
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
        wanted = re.sub("^(Input|String) should", "must", first["msg"])
        raise UserError(f"{key} {wanted}; got {value}.") from error


def _unknown(key: str, keys: Sequence[str]) -> UserError:
    """Error for a key that no chosen option has. keys: those that there are."""
    owners = dict[str, list[str]]()  # of the settings of all pieces: the choices that have them
    for group in [group for group in groups() if group.partition(".")[0] in PLACES]:
        for option in groups()[group]:
            with suppress(UserError, TypeError, KeyError):  # a user's file may hold anything
                kind = read(group, option)["kind"]
                frame = PLACES.get(group, {}).get(pieces.seam(kind), Piece)
                for f in fields(pieces.spec(kind, frame)):
                    owners.setdefault(f"{group}.{f.name}", []).append(f"{group}={option}")
    if key in owners:
        return UserError(f"'{key}' belongs to {', '.join(owners[key])}, which is not chosen.")
    keys = [*keys, *(name for name, _, _ in walk(RunConfig())), *owners, *groups()]
    keys = [one for one in dict.fromkeys(keys) if one != key]
    same = [one for one in keys if one.rpartition(".")[2] == key.rpartition(".")[2]]
    hint = f" Did you mean {' or '.join(map(repr, same))}?" if 0 < len(same) <= 3 else ""
    return UserError(
        f"There is no key '{key}'.{hint or did_you_mean(key, keys)} `attnexp config` lists the "
        f"keys of what is chosen, `attnexp config --groups` all there is to choose."
    )


def _reset_idle(config: Any, words: Sequence[str], prefix: str = "") -> None:
    """Set settings that have no effect to their defaults. Raises `UserError` if a word sets one,
    or a file another value."""
    for key, section, f in walk(config, prefix):
        if (when := f.metadata.get("when")) is None or when.holds(config):
            continue
        default = f.default if f.default_factory is MISSING else f.default_factory()
        given = [one for one in words if one.startswith((f"{key}=", f"{key}."))]
        if (value := getattr(section, f.name)) != default:
            given.append(f"{key}={getattr(value, 'name', value)}")
        for word in given if f"{key}=none" not in given else []:
            raise UserError(f"{word} would do nothing: {key} belongs to {when.description}.")
        setattr(section, f.name, default)


def _check(config: RunConfig) -> None:
    """Raise `UserError` for settings that exclude each other, and for a model that cannot be built:
    it is built once, with few words, so that its constructors speak."""
    data = config.data
    if data.name in ("files", "hub") and data.path is None:
        wanted = "a folder or file" if data.name == "files" else "a data set's name"
        raise UserError(f"data={data.name} needs data.path: {wanted}. None was given.")
    pieces.load(schema.TOKENIZERS.get(data.tokenizer, data.tokenizer))
    if config.is_network:
        import torch  # which reports need not wait for

        small = replace(config, data=replace(data, vocab_size=min(data.vocab_size, 1000)))
        try:
            with torch.random.fork_rng(devices=[]):
                pieces.load("attnexp.model.classifier:build_model")(small)
        except RuntimeError as error:  # torch's, of memory and sizes
            raise UserError(f"The model cannot be built: {str(error).splitlines()[0]}") from error
