"""Options composed by Hydra: the listed groups and the experiments by name; all else is laid over.

In Python: `compose(*words)`, or `compose("seed=3", ["experiment=blog_pe", "model/pooling=max"])`.
"""

import copy
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import hydra
from hydra.errors import HydraException, MissingConfigException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from attnexp.base.errors import UserError, on_one_line
from attnexp.config.options import Tree, conf_dir, folders, groups, is_file, no_such, read
from attnexp.config.pieces import CLASS
from attnexp.config.schema import flatten
from attnexp.config.words import CHOICE_KEYS

LISTED = ("data", "model", "position", "mask", "train", "executor")
"""Groups in the defaults list of `conf/config.yaml`, and that of a sweep."""


def compose_options(choices: Mapping[str, str], experiments: Sequence[str]) -> Tree:
    """The tree of options by group, such as {"model.pooling": "max"}, and of experiments: names
    of `conf/experiment/`, or a run's stored config. Raises `UserError` for what is not there."""
    names = [name for name in experiments if not is_file("experiment", name)]
    words = [f"experiment=[{','.join(names)}]"] if names else []
    laid: Tree = {}  # classes, and pieces within pieces, which `choose_piece` reads
    for group, option in choices.items():
        if CLASS.fullmatch(option):
            laid[group] = {"kind": option}
        elif group not in LISTED:
            laid[group] = option
        else:
            words.append(f"{'+' * (group == 'executor')}{group}={option}")
    tree = copy.deepcopy(_compose(tuple(words), tuple(folders()[1:])))
    for name in set(experiments) - set(names):
        chosen = {group: read(group, option) for group, option in choices.items() if group in LISTED}
        tree = tree | read("experiment", name) | chosen
    for group, choice in laid.items():
        *parents, last = group.split(".")
        branch = tree
        for parent in parents:
            branch = branch[parent]
        branch[last] = choice
    return tree


@lru_cache(maxsize=1000)
def _compose(words: tuple[str, ...], users: tuple[Path, ...]) -> Any:
    """What Hydra composes of words in its grammar and of the user's folders."""
    search = ",".join(f"'file://{folder}'" for folder in users)
    try:
        with hydra.initialize_config_dir(config_dir=str(conf_dir()), version_base="1.3"):
            config = hydra.compose("config", [f"hydra.searchpath=[{search}]", *words])
    except MissingConfigException as error:
        group, _, option = (error.missing_cfg_file or "").rpartition("/")
        raise no_such(group.replace("/", "."), option) from error
    except (HydraException, OmegaConfBaseException, ValueError, TypeError, KeyError) as error:
        raise UserError(f"Hydra cannot compose this: {on_one_line(error)}") from error
    return OmegaConf.to_container(config)


def groups_chosen_by_value(tree: Tree) -> set[str]:
    """Groups whose choice a tree holds as a value: `model.kind: ...`."""
    keys = flatten(tree)
    choices = {CHOICE_KEYS.get(key, key.removesuffix(".kind")) for key in keys}
    return choices.intersection(groups()) - {*keys}


def escape(value: Any) -> Any:
    return value
