"""From words on the command line to a checked `RunConfig`.

Hydra composes the options of the groups in the defaults list of `conf/config.yaml`, and experiments
by name. Classes, options of groups within the model, and values are laid over what it composed, as
Hydra lays `++key=value`; interpolations are resolved last. `choose` then checks all values; it is
imported where it is needed, since it imports torch.
"""

import copy
import re
import shlex
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
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
from attnexp.config.schema import PIECES, ExecutorConfig, RunConfig, flatten
from attnexp.config.words import group_of, setting_of

LISTED = ("data", "model", "position", "mask", "train")
"""Groups in the defaults list of `conf/config.yaml`."""
OF_SWEEPS = re.compile(r"\+*(study|name|executor|tune)[.=]")


@dataclass(frozen=True)
class Settings:
    """What words or a file set: an option or a class by group, and values by key."""

    choices: dict[str, str]
    values: Tree

    def then(self, later: "Settings") -> "Settings":
        """These with later ones over them. A choice that is made again takes its settings along."""
        made_again = later.choices.keys() & self.choices.keys()
        choices = {**self.choices}
        values = {**self.values}
        for key in _below(choices, made_again):
            del choices[key]
        for key in _below(values, made_again):
            del values[key]
        return Settings(choices | later.choices, values | later.values)


def _below(keys: Iterable[str], groups: Iterable[str]) -> list[str]:
    """Keys of these groups, and of what is in them."""
    starts = tuple(f"{group}." for group in groups)
    return [key for key in keys if f"{key}.".startswith(starts)]


def compose(*words: str | Sequence[str]) -> RunConfig:
    """The config of one run, from words such as `seed=3`, or lists of them. Raises `UserError` for
    wrong words."""
    from attnexp.config.choose import check_run

    flat: list[str] = []
    for part in words:
        flat += [part] if isinstance(part, str) else part
    typed: list[tuple[str, Any]] = []
    experiments: list[str] = []
    for word in flat:
        if OF_SWEEPS.match(word):
            raise UserError(f"{word} is for many runs: attnexp sweep {shlex.join(flat)}")
        key, value = setting_of(word)
        if key == "experiment":
            names = value if isinstance(value, list) else [value]
            experiments += [str(name) for name in names if name is not None]
        else:
            typed.append((key, value))
    settings = Settings({}, {})
    for name in filter(is_file, experiments):
        settings = settings.then(_read_experiment(name))
    by_name = [name for name in experiments if not is_file(name)]
    tree = _compose_tree(settings.then(_split(typed)), by_name)
    return check_run(_resolve(tree))


def compose_executor(words: Sequence[str]) -> ExecutorConfig:
    """Executor settings of a sweep, from words such as `executor=ray executor.gpu=0.5`."""
    from attnexp.config.choose import refuse_idle, validate

    settings = _split(map(setting_of, words))
    option = settings.choices.get("executor", "local")
    tree = _lay_over({"executor": read("executor", option)}, settings.values)
    config: ExecutorConfig = validate(ExecutorConfig, tree["executor"], "executor.")
    refuse_idle(config, "executor.")
    return config


def overlay(tree: Tree, words: Sequence[str], *, trust_code: bool = False) -> RunConfig:
    """A config that was resolved before (as `to_dict` gives it), with some keys set anew. Raises
    `UserError` where it names code that is not attnexp's, unless the user trusts it: a run's folder
    may come from anyone, and composing imports that code."""
    from attnexp.config.choose import check_run

    settings = _split(map(setting_of, words))
    laid = _lay_over(tree, settings.choices | settings.values)
    with nullcontext() if trust_code else pieces.refusing_foreign_code():
        return check_run(laid)


def _read_experiment(path: str) -> Settings:
    """Settings of an experiment by its path, such as a run's stored config."""
    tree = read("experiment", path)
    if "defaults" in tree:
        raise UserError(
            f"experiment={path}: Hydra reads a defaults list in conf/experiment/ alone. Put the "
            f"file there, and choose it by name: experiment={Path(path).stem}"
        )
    return _split(tree.items())


def _split(pairs: Iterable[tuple[str, Any]]) -> Settings:
    """Settings of pairs of keys and values, of which some are sections."""
    settings = Settings({}, {})
    for section, content in pairs:
        for key, value in flatten({section: content}).items():
            group = group_of(key)
            if group in groups():
                settings.choices[group] = "none" if value is None else str(value)
            else:
                settings.values[key] = value
    return settings


def _compose_tree(settings: Settings, experiments: Sequence[str]) -> Tree:
    """The plain tree of settings, and of experiments by name."""
    words = [f"experiment=[{','.join(experiments)}]"]
    laid: list[str] = []
    for group, option in settings.choices.items():
        if group in LISTED and option in groups()[group]:
            words.append(f"{group}={option}")
        elif group.partition(".")[0] in PIECES:
            laid.append(group)
        else:
            raise no_such(group, option)
    tree = _compose_listed(*words)
    if "experiment" in tree:
        raise UserError(
            "An experiment's file begins with '# @package _global_', so that its keys are a run's."
        )
    for group in sorted(laid):
        tree = _lay_over(tree, {group: {"kind": settings.choices[group]}})
    for name in experiments:  # Their values are for what is chosen, too.
        values = flatten(read("experiment", name))
        tree = _lay_over(tree, {key: values[key] for key in _below(values, laid)})
    return _lay_over(tree, settings.values)


def _compose_listed(*words: str) -> Tree:
    """What Hydra composes of words in its grammar and of all folders of options."""
    users = folders()[1:]
    if users:
        return _call_hydra(words, users)
    return copy.deepcopy(_call_hydra_once(words))


def _call_hydra(words: Sequence[str], users: Sequence[Path] = ()) -> Tree:
    """What Hydra composes of words, with the user's folders beside `conf/`."""
    places = [QuotedString(f"file://{folder}", Quote.single).with_quotes() for folder in users]
    search_path = f"hydra.searchpath=[{','.join(places)}]"
    try:
        with hydra.initialize_config_dir(config_dir=str(conf_dir()), version_base="1.3"):
            config = hydra.compose("config", [search_path, *words])
    except MissingConfigException as error:
        group, _, option = (error.missing_cfg_file or "").rpartition("/")
        raise no_such(group.replace("/", "."), option) from error
    except (HydraException, OmegaConfBaseException, ValueError, TypeError, KeyError) as error:
        raise UserError(f"Hydra cannot compose this: {on_one_line(error)}") from error
    tree: Any = OmegaConf.to_container(config)
    return dict(tree)


_call_hydra_once = lru_cache(maxsize=1000)(_call_hydra)  # Our own files do not change.


def _lay_over(tree: Tree, values: Tree) -> Tree:
    """A copy of a tree with values put in by their keys, those of a section before those in it."""
    tree = copy.deepcopy(tree)
    for key in sorted(values, key=lambda key: key.count(".")):
        *sections, name = key.split(".")
        branch = tree
        for section in sections:
            inner = branch.get(section, {})
            if not isinstance(inner, dict):  # an option, as in `before: cnn`
                inner = {"kind": inner}
            branch[section] = inner
            branch = inner
        branch[name] = values[key]
    return tree


def _resolve(tree: Tree) -> Tree:
    """The tree with its interpolations resolved."""
    if "${" not in str(tree):
        return tree
    try:
        known = OmegaConf.merge(asdict(RunConfig()), tree)  # Most files name few of the keys.
        resolved: Any = OmegaConf.to_container(known, resolve=True)
    except OmegaConfBaseException as error:
        raise UserError(f"This cannot be interpolated: {on_one_line(error)}") from error
    return dict(resolved)
