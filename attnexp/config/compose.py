"""From words on the command line to a checked `RunConfig`, in four steps:

1. Words, over experiments that are given by path, become settings by key, such as `model.heads`.
2. Hydra composes options of the groups in `conf/config.yaml`, and experiments by name over them.
3. All other settings are laid over this tree by their keys, and interpolations are resolved.
4. `choose` reads other options: of a piece within a piece, or in a `kind`. It checks everything."""

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import hydra
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.errors import HydraException, MissingConfigException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from attnexp.base.errors import UserError, on_one_line
from attnexp.config import options
from attnexp.config.choose import check_run, validate
from attnexp.config.pieces import trusting
from attnexp.config.schema import ExecutorConfig, RunConfig, refuse_idle
from attnexp.config.settings import (
    CHOICE_IN,
    OF_SWEEPS,
    PIECES,
    Flat,
    Tree,
    by_key,
    set_keys,
    setting_of,
)


def compose(*words: str | Sequence[str]) -> RunConfig:
    """The config of one run, from words such as `seed=3`, or lists of them. Raises `UserError`."""
    all_words: list[str] = []
    for part in words:
        all_words += [part] if isinstance(part, str) else part
    settings: Flat = {}
    chosen: list[Any] = []
    for word in all_words:
        if OF_SWEEPS.match(word):
            raise UserError(f"{word} is for many runs: attnexp sweep {shlex.join(all_words)}")
        key, value = setting_of(word)
        if key == "experiment":
            chosen += value if isinstance(value, list) else [value]
        else:
            settings |= by_key([(key, value)])
    experiments = [str(option) for option in chosen if option is not None]
    names = [experiment for experiment in experiments if not options.is_file(experiment)]
    paths = filter(options.is_file, experiments)
    for path in reversed(list(paths)):  # Each lies below those after it.
        settings = _override(by_key(options.read("experiment", path).items()), settings)
    tree = _compose_tree(settings, names)
    if "${" in str(tree):
        tree = _interpolate(tree)
    return check_run(tree)


def compose_executor(words: Sequence[str]) -> ExecutorConfig:
    """Executor settings of a sweep, from words such as `executor=ray executor.gpu=0.5`."""
    settings = by_key(map(setting_of, words))
    option = str(settings.pop("executor", "local"))
    tree = set_keys({"executor": options.read("executor", option)}, settings)
    config: ExecutorConfig = validate(ExecutorConfig, tree["executor"], "executor.")
    refuse_idle(config, "executor.")
    return config


def overlay(tree: Tree, words: Sequence[str], *, trust_code: bool = False) -> RunConfig:
    """A config that `to_dict` gave, with some settings changed. Words may choose another piece, but
    no other data or train, which the tree spells out. Checking it imports the code that it names,
    and a run may come from anyone: without `trust_code`, foreign code raises `UserError`."""
    laid = set_keys(tree, by_key(map(setting_of, words)))
    with trusting(all_code=trust_code):
        return check_run(laid)


def _override(of_file: Flat, later: Flat) -> Flat:
    """Later settings over those of a file. Where both choose an option of a group, the file's other
    settings of that group go: position=alibi drops the file's rotary and its position.layout. By
    Hydra's rule, which holds for experiments by name, they would stay."""
    chosen_twice = of_file.keys() & later.keys() & options.groups().keys()
    dropped = tuple(f"{group}." for group in chosen_twice)
    return {key: of_file[key] for key in of_file if not key.startswith(dropped)} | later


def _compose_tree(settings: Flat, experiments: Sequence[str]) -> Tree:
    """The plain tree of settings by key, over experiments by name. Hydra composes options of its
    groups, which may have defaults lists; all other settings, and the choices themselves, which an
    experiment by name would replace, are laid over its tree."""
    groups = options.groups()
    hydra_words = [f"experiment=[{','.join(experiments)}]"]
    laid_over: Flat = {}
    for key, value in settings.items():
        option = "none" if value is None else str(value)  # position=null is position=none
        if key not in groups:
            laid_over[key] = value
        elif key not in CHOICE_IN:  # a piece within a piece, or a file's executor, refused later
            laid_over[f"{key}.kind"] = option
        elif option in groups[key]:
            hydra_words.append(f"{key}={option}")
            content = options.read(key, option)
            name = CHOICE_IN[key]
            if name in content or (key in PIECES and "defaults" not in content):
                laid_over[f"{key}.{name}"] = content.get(name)
        elif key in PIECES:  # a class; settings of Hydra's default must not stay
            hydra_words.append(f"~{key}")
            laid_over[f"{key}.kind"] = option
        else:
            raise options.no_such(key, option)
    users_folders = tuple(options.folders()[1:])
    call = _call_hydra if users_folders else _call_hydra_cached
    return set_keys(call(tuple(hydra_words), users_folders), laid_over)


def _call_hydra(words: tuple[str, ...], users_folders: tuple[Path, ...]) -> Tree:
    """What Hydra composes of words, with the user's folders of options beside `conf/`."""
    quoted = [QuotedString(f"file://{path}", Quote.single).with_quotes() for path in users_folders]
    search_path = f"hydra.searchpath=[{','.join(quoted)}]"
    try:
        with hydra.initialize_config_dir(config_dir=str(options.conf_dir()), version_base="1.3"):
            config = hydra.compose("config", [search_path, *words])
    except MissingConfigException as error:
        group, _, option = (error.missing_cfg_file or "").rpartition("/")
        raise options.no_such(group.replace("/", "."), option) from error
    except (HydraException, OmegaConfBaseException, ValueError, TypeError, KeyError) as error:
        raise UserError(f"Hydra cannot compose this: {on_one_line(error)}") from error
    tree: Any = OmegaConf.to_container(config)
    for group in ("data", "train"):
        if not isinstance(tree[group], dict):
            choice = f"[override /{group}: {tree[group]}]"
            raise UserError(f"An experiment's file chooses it by defaults: {choice}.")
    return dict(tree)


_call_hydra_cached = lru_cache(maxsize=1000)(_call_hydra)  # Our own files do not change.


def _interpolate(tree: Tree) -> Tree:
    """The tree with interpolations such as `${seed}` replaced by what they stand for."""
    try:
        defaults = {key: value for key, value in asdict(RunConfig()).items() if key not in PIECES}
        known = OmegaConf.merge(defaults, tree)  # `${train.lr}` may have its default.
        resolved: Any = OmegaConf.to_container(known, resolve=True)
    except OmegaConfBaseException as error:
        reason = f"{on_one_line(error)}. Settings of a piece are known here only if given"
        raise UserError(f"This cannot be interpolated: {reason}.") from error
    return dict(resolved)
