"""From words on the command line to a checked `RunConfig`.

Files of `conf/` and words are merged as plain text, in Hydra's order: the options of the groups,
then the experiments, then the words. `_typed` then gives every section the spec of the piece that
was chosen (`pieces`), and has pydantic check each value. A stored config goes the same way from
there. Nothing in files or stored configs is executed: `${...}` stays the text it is.
"""

import copy
import os
import re
import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields
from typing import Any

from pydantic import ValidationError

from attnexp.base.errors import UserError
from attnexp.config import pieces
from attnexp.config.options import conf_dir, did_you_mean, groups, read
from attnexp.config.pieces import CLASS, Piece
from attnexp.config.schema import PLACES, TOKENIZERS, ExecutorConfig, RunConfig, acts, flatten, walk
from attnexp.config.words import setting_of

Settings = Iterable[tuple[str, Any]]  # such as ("position.scale", 2)

CHOSEN_BY = {"data": "name", "train": "protocol"}  # in other groups `kind` says what is chosen


def compose(*given: str | Sequence[str]) -> RunConfig:
    """The config of one run, from words such as `seed=3`, or lists of them.

    Raises `UserError` for anything in them that is wrong.
    """
    words = [word for each in given for word in ([each] if isinstance(each, str) else each)]
    for word in words:
        if re.match(r"(study|name|executor|tune)[.=]", word):
            raise UserError(f"{word} is for many runs: attnexp sweep {shlex.join(words)}")
    return _typed(_composed([setting_of(word) for word in words]))


def compose_executor(words: Sequence[str]) -> ExecutorConfig:
    """Executor settings of a sweep, from words such as `executor=ray executor.gpu=0.5`."""
    tree = _set({"executor": "local"}, [setting_of(word) for word in words])
    given = _filled("executor", tree["executor"])
    config: ExecutorConfig = _made(ExecutorConfig, given, "executor.")
    _refuse_idle(config, "executor.")
    return config


def overlay(tree: dict[str, Any], words: Sequence[str], *, trust_code: bool = False) -> RunConfig:
    """A config that was resolved before (as `to_dict` gives it), with some keys set anew.

    A run's folder may come from anyone. Raises `UserError` where its config names code that is not
    attnexp's, unless the user trusts it (`--trust-code`): composing imports that code.
    """
    if (found := foreign_code(tree)) and not trust_code:
        raise UserError(
            f"This run's model is not attnexp's alone: loading it would run {', '.join(found)}. If "
            f"you trust this code, add --trust-code. Tables and verdicts need no model."
        )
    return _typed(_set(tree, [setting_of(word) for word in words]))


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
    settings = [setting for file in files for setting in _experiment(str(file))]
    for key, value in words:
        place = re.sub(r"\.(name|kind)$", "", key)
        if f"{place}.{CHOSEN_BY.get(place, 'kind')}" in dict(settings):
            raise UserError(f"{key}={value} would do nothing: the experiment names its {place}.")
    tree = _set({}, [*settings, *(word for word in words if word[0] != "experiment")])
    return tree | {group: _filled(group, tree[group]) for group in CHOSEN_BY}


def _experiment(option: str) -> Settings:
    """Choices of an experiment's file, then its values."""
    tree = read("experiment", option)
    try:
        defaults = [one for one in tree.get("defaults", []) if one != "_self_"]
        choices = [(str(key), name) for one in defaults for key, name in one.items()]
    except (AttributeError, TypeError) as error:
        raise UserError(
            f"experiment={option} must hold keys and, if any, a list of defaults such as 'override "
            f"/position: rotary'. Several experiments are several words."
        ) from error
    values = flatten({key: value for key, value in tree.items() if key != "defaults"})
    return [*((re.sub("^(override )?/?", "", key), name) for key, name in choices), *values.items()]


def _section(group: str, given: Any) -> dict[str, Any]:
    return given if isinstance(given, dict) else {CHOSEN_BY.get(group, "kind"): given}


def _set(tree: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """The tree with settings put in by their keys; choices first, then the settings within them."""
    tree = copy.deepcopy(tree)
    for key, value in sorted(settings, key=lambda setting: setting[0].count(".")):
        *sections, name = key.split(".")
        branch = tree
        for section in sections:
            branch[section] = _section(section, branch.get(section, {}))
            branch = branch[section]
        branch[name] = value
    return tree


def _filled(group: str, given: Any) -> dict[str, Any]:
    """A section over the file of the option that it chooses."""
    chosen_by, section = CHOSEN_BY.get(group, "kind"), _section(group, given)
    own = {key: value for key, value in section.items() if key != chosen_by}
    return _set(read(group, str(section.get(chosen_by))), flatten(own).items())


def _typed(tree: dict[str, Any]) -> RunConfig:
    """Checked config of a composed tree. A network is built once, so that its errors show here."""
    found = {place: _piece(tree.get(place), place, seams) for place, seams in PLACES.items()}
    config: RunConfig = _made(RunConfig, tree | found)
    _refuse_idle(config)
    data = config.data
    if data.name in ("files", "hub") and data.path is None:
        raise UserError(f"data={data.name} needs data.path: a folder, a file or a name on the hub.")
    for code in filter(None, {data.tokenizer, config.train.loss} - {*TOKENIZERS}):
        pieces.load(code)
    if config.is_network:
        pieces.load("attnexp.network.build:try_to_build")(config)
    for section, name in ((data, "path"), (config.model, "vectors")):
        if (path := getattr(section, name, None)) and (name, data.name) != ("path", "hub"):
            setattr(section, name, os.path.abspath(os.path.expanduser(path)))  # links stay
    return config


def _piece(given: Any, key: str, seams: Any, option: str | None = None) -> Piece:
    """The piece chosen at `key`, with its settings. option: the choice where none is given."""
    given = {"kind": option} | _section(key, given or option)
    if given["kind"] is not None and not CLASS.fullmatch(str(given["kind"])):
        given = {"kind": None} | _filled(key, given)
    kind = given["kind"]
    if (frame := _frame(kind, seams)) is None:
        wanted = ", ".join(filter(None, seams))
        raise UserError(f"{key}={kind}: wanted a subclass of one of attnexp.model.seams: {wanted}.")
    spec = pieces.spec(kind, frame)
    for f in [f for f in fields(spec) if "seam" in f.metadata]:
        default = f.metadata["option"]
        within = {f.metadata["seam"]: Piece} | ({} if default else {None: Piece})
        given[f.name] = _piece(given.get(f.name), f"{key}.{f.name}", within, default)
    piece: Piece = _made(spec, given, f"{key}.")
    return piece


def _frame(kind: str | None, seams: Any) -> Any:
    """What comes with a class by the seam that it fills; None where it fills none of these."""
    names = pieces.lineage(kind) if kind else [None]
    return next((seams[name] for name in names if name in seams), None)


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
                spec = pieces.spec(kind, _frame(kind, PLACES.get(group, {})) or Piece)
                for f in fields(spec):
                    owners.setdefault(f"{group}.{f.name}", []).append(f"{group}={option}")
    if key in owners:
        return UserError(f"'{key}' belongs to {', '.join(owners[key])}, which is not chosen.")
    known = dict.fromkeys([*keys, *(name for name, _, _ in walk(RunConfig())), *owners, *groups()])
    known.pop(key, None)
    return UserError(
        f"There is no key '{key}'.{did_you_mean(key, known)} `attnexp config` lists the keys of "
        f"what is chosen, `attnexp config --groups` all there is to choose."
    )


def _refuse_idle(config: Any, prefix: str = "") -> None:
    """Raise `UserError` for a setting that has no effect and another value than its default."""
    for key, section, f in walk(config, prefix):
        default = f.default if f.default_factory is MISSING else f.default_factory()
        if not acts(f, config) and getattr(section, f.name) != default:
            raise UserError(f"{key} would do nothing: it is for {f.metadata['when'].description}.")
