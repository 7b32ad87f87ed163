"""From words on the command line to a checked `RunConfig`, in four steps:

1. Words, over experiments that are given by path, become settings by key, such as `model.heads`.
2. Hydra composes a tree of options of the listed groups, and of experiments by name over it, since
   their files have defaults lists. `options.read` reads all other YAML, which has none.
3. All other settings are laid over this tree by their keys, and interpolations are resolved.
4. `choose` checks the tree. It is imported where it is needed, since it imports torch.
"""

import copy
import re
import shlex
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
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
from attnexp.config import pieces
from attnexp.config.options import Tree, conf_dir, folders, groups, is_file, no_such, read
from attnexp.config.schema import PIECES, ExecutorConfig, RunConfig, flatten, refuse_idle
from attnexp.config.words import group_of, setting_of

LISTED = ("data", "model", "position", "mask", "train")  # in the defaults of `conf/config.yaml`
OF_SWEEPS = re.compile(r"\+*(study|name|executor|tune)[.=]")  # words that no single run takes


def compose(*words: str | Sequence[str]) -> RunConfig:
    """The config of one run, from words such as `seed=3`, or lists of them. Raises `UserError`."""
    from attnexp.config.choose import check_run

    flat: list[str] = []
    for part in words:
        flat += [part] if isinstance(part, str) else part
    pairs = []
    experiments = []
    for word in flat:
        if OF_SWEEPS.match(word):
            raise UserError(f"{word} is for many runs: attnexp sweep {shlex.join(flat)}")
        key, value = setting_of(word)
        if key == "experiment":
            names = value if isinstance(value, list) else [value]
            experiments += [str(name) for name in names if name is not None]
        else:
            pairs.append((key, value))
    settings = _by_key(pairs)
    # The last file first: position=alibi over [position: rotary, position.layout: split] drops that
    # file's layout, but not what an earlier file says of any position: [position.shuffled: true].
    for path in filter(is_file, reversed(experiments)):
        settings = _override(_by_key(read("experiment", path).items()), settings)
    tree = _compose_tree(settings, [name for name in experiments if not is_file(name)])
    if "${" in str(tree):
        tree = _interpolate(tree)
    return check_run(tree)


def compose_executor(words: Sequence[str]) -> ExecutorConfig:
    """Executor settings of a sweep, from words such as `executor=ray executor.gpu=0.5`."""
    from attnexp.config.choose import validate

    settings = _by_key(map(setting_of, words))
    option = str(settings.pop("executor", "local"))
    tree = _set_values({"executor": read("executor", option)}, settings)
    config: ExecutorConfig = validate(ExecutorConfig, tree["executor"], "executor.")
    refuse_idle(config, "executor.")
    return config


def overlay(tree: Tree, words: Sequence[str], *, trust_code: bool = False) -> RunConfig:
    """A config that `to_dict` gave, with some settings changed. Words may choose another piece, but
    no other data or train, which the tree spells out. Checking it imports the code that it names,
    and a run may come from anyone: without `trust_code`, foreign code raises `UserError`."""
    from attnexp.config.choose import check_run

    laid = _set_values(tree, _by_key(map(setting_of, words)))
    with nullcontext() if trust_code else pieces.refusing_foreign_code():
        return check_run(laid)


def _by_key(pairs: Iterable[tuple[str, Any]]) -> Tree:
    """Settings by full key, and choices by the keys of their groups: `data` for `data.name`."""
    settings: Tree = {}
    for section, content in pairs:
        for key, value in flatten({section: content}).items():
            settings[group_of(key)] = value
    return settings


def _override(settings: Tree, later: Tree) -> Tree:
    """A file's settings with later ones over them; those of a choice that is made again go."""
    chosen_again = tuple(f"{key}." for key in later if key in settings and key in groups())
    kept = {key: settings[key] for key in settings if not key.startswith(chosen_again)}
    return kept | later


def _compose_tree(settings: Tree, experiments: Sequence[str]) -> Tree:
    """The plain tree of settings by key, and of experiments by name."""
    options = groups()
    values = dict(settings)  # below, without the choices
    hydra_words = [f"experiment=[{','.join(experiments)}]"]
    chosen = [key for key in settings if key in options and key.startswith(LISTED)]
    for group in chosen:
        choice = values.pop(group)
        option = "none" if choice is None else str(choice)
        if group in LISTED and option in options[group]:  # Hydra reads it, in its order.
            hydra_words.append(f"{group}={option}")
        elif group.startswith(PIECES):  # a class, or an option within the model: `choose` reads it.
            values[f"{group}.kind"] = option
            if group in LISTED:
                hydra_words.append(f"~{group}")  # A class takes the place of Hydra's default.
        else:
            raise no_such(group, option)
    users_folders = tuple(folders()[1:])
    call = _call_hydra if users_folders else _call_hydra_once
    return _set_values(call(tuple(hydra_words), users_folders), values)


def _call_hydra(words: tuple[str, ...], users_folders: tuple[Path, ...]) -> Tree:
    """What Hydra composes of words, with the user's folders of options beside `conf/`."""
    places = [f"file://{folder}" for folder in users_folders]
    quoted = [QuotedString(place, Quote.single).with_quotes() for place in places]
    search_path = f"hydra.searchpath=[{','.join(quoted)}]"
    try:
        with hydra.initialize_config_dir(config_dir=str(conf_dir()), version_base="1.3"):
            config = hydra.compose("config", [search_path, *words])
    except MissingConfigException as error:
        group, _, option = (error.missing_cfg_file or "").rpartition("/")
        raise no_such(group.replace("/", "."), option) from error
    except (HydraException, OmegaConfBaseException, ValueError, TypeError, KeyError) as error:
        raise UserError(f"Hydra cannot compose this: {on_one_line(error)}") from error
    tree: Any = OmegaConf.to_container(config)
    if "experiment" in tree:
        raise UserError(
            "An experiment's file begins with '# @package _global_', so that its keys are a run's."
        )
    return dict(tree)


_call_hydra_once = lru_cache(maxsize=1000)(_call_hydra)  # Our own files do not change.


def _set_values(tree: Tree, values: Tree) -> Tree:
    """A copy of a tree with values put in by their keys, a section before what is in it."""
    tree = copy.deepcopy(tree)
    for key in sorted(values, key=lambda key: key.count(".")):
        *sections, name = key.split(".")
        branch = tree
        for section in sections:
            if not isinstance(branch.setdefault(section, {}), dict):
                branch[section] = {"kind": branch[section]}  # an option, as in `before: cnn`
            branch = branch[section]
        branch[name] = values[key]
    return tree


def _interpolate(tree: Tree) -> Tree:
    """The tree with interpolations such as `${seed}` replaced by what they stand for."""
    try:
        known = OmegaConf.merge(asdict(RunConfig()), tree)  # Most files name few of the keys.
        resolved: Any = OmegaConf.to_container(known, resolve=True)
    except OmegaConfBaseException as error:
        raise UserError(f"This cannot be interpolated: {on_one_line(error)}") from error
    return dict(resolved)
