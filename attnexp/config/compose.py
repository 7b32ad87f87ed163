"""From words on the command line to a checked `RunConfig`.

Hydra composes the options that words choose (`hydra_options`). Values are laid over them as Hydra
lays `++key=value`, and interpolations resolved, but for those of a stored config. Then `choose`,
imported where it is needed since it imports torch, checks all values.
"""

import copy
import re
import shlex
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import InterpolationKeyError, OmegaConfBaseException

from attnexp.base.errors import UserError, on_one_line
from attnexp.config import pieces
from attnexp.config.hydra_options import compose_options, escape
from attnexp.config.options import Tree, groups
from attnexp.config.schema import ExecutorConfig, RunConfig, flatten
from attnexp.config.words import habit, setting_of

Values = list[tuple[str, Any]]
"""Keys of settings, with what they shall be."""
OF_SWEEPS = re.compile(r"\+*(study|name|executor|tune)[.=]")


def compose(*words: str | Sequence[str]) -> RunConfig:
    """The config of one run, from words such as `seed=3`, or lists of them. Raises `UserError` for
    wrong words."""
    from attnexp.config.choose import check_run

    flat: list[str] = []
    for part in words:
        flat += [part] if isinstance(part, str) else part
    for word in flat:
        if OF_SWEEPS.match(word):
            raise UserError(f"{word} is for many runs: attnexp sweep {shlex.join(flat)}")
    return check_run(_compose_tree(flat, {}))


def compose_executor(words: Sequence[str]) -> ExecutorConfig:
    """Executor settings of a sweep, from words such as `executor=ray executor.gpu=0.5`."""
    from attnexp.config.choose import refuse_idle, validate

    tree = _compose_tree(words, {"executor": "local"})
    config: ExecutorConfig = validate(ExecutorConfig, tree["executor"], "executor.")
    refuse_idle(config, "executor.")
    return config


def overlay(tree: Tree, words: Sequence[str], *, trust_code: bool = False) -> RunConfig:
    """A config that was resolved before (as `to_dict` gives it), with some keys set anew. Raises
    `UserError` where it names code that is not attnexp's, unless the user trusts it: a run's folder
    may come from anyone, and composing imports that code."""
    from attnexp.config.choose import check_run

    values = [setting_of(word) for word in words]
    laid = _lay_over(escape(tree), values)
    with nullcontext() if trust_code else pieces.refusing_foreign_code():
        return check_run(_resolve(laid))


def _compose_tree(words: Sequence[str], choices: dict[str, str]) -> Tree:
    """The plain tree of what words choose, with their values. choices: what is chosen besides."""
    choices = {**choices}
    experiments: list[str] = []
    values: Values = []
    known_groups = groups()
    for key, value in map(setting_of, words):
        if key == "experiment":
            names = value if isinstance(value, list) else [value]
            experiments += [str(name) for name in names if name is not None]
        elif key in known_groups and isinstance(value, str | list | None):
            choices[key] = str(value)
        elif key in known_groups and isinstance(value, dict) and "kind" in value:
            settings = {**value}
            choices[key] = str(settings.pop("kind"))
            values.append((key, settings))
        else:
            values.append((key, value))
    for key, name in choices.items():
        # `parse` has looked at whole words, and not into quotes or at the kind of a section
        instead = habit(f"{key}={name}")
        if instead:
            raise UserError(instead)
    tree = compose_options(choices, experiments)
    return _resolve(_lay_over(tree, values))


def _lay_over(tree: Tree, values: Values) -> Tree:
    """A copy of a tree with values put in by their keys, those of a section before those in it."""
    tree = copy.deepcopy(tree)
    leaves: Values = []
    for key, value in values:
        leaves += flatten({key: value}).items()
    leaves.sort(key=lambda leaf: leaf[0].count("."))
    for key, value in leaves:
        *sections, name = key.split(".")
        branch = tree
        for section in sections:
            inner = branch.get(section, {})
            if not isinstance(inner, dict):
                inner = {"kind": inner}
            branch[section] = inner
            branch = inner
        branch[name] = value
    return tree


def _resolve(tree: Tree) -> Tree:
    """The tree with its interpolations resolved."""
    if "${" not in str(tree):
        return tree
    try:  # keys that no file names have their defaults
        known = OmegaConf.merge(escape(asdict(RunConfig())), tree)
        resolved: Any = OmegaConf.to_container(known, resolve=True)
        return dict(resolved)
    except OmegaConfBaseException as error:
        raise UserError(f"This cannot be interpolated: {on_one_line(error)}") from error
