"""Options composed by Hydra, of which `conf/` is an ordinary config directory.

Search path: our `conf/`, the user's folders, then `_OwnOptions`. A program that knows only Hydra
composes the same from `conf/`: `compose("config", ["experiment=blog_pe", "model/pooling=max"])`.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import hydra
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.core.plugins import Plugins
from hydra.errors import HydraException, MissingConfigException
from hydra.plugins.config_source import ConfigResult, ConfigSource
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from attnexp.base.errors import UserError, on_one_line
from attnexp.config.options import Tree, conf_dir, folders, groups, is_file, no_such, read
from attnexp.config.pieces import CLASS
from attnexp.config.schema import PIECES, flatten
from attnexp.config.words import CHOICE_KEYS

# Groups in the defaults list of `conf/config.yaml`.
LISTED = ("data", "model", "position", "mask", "train")
FileTimes = tuple[tuple[Path, int], ...]  # files of the user, each with its last change


class _OwnOptions(ConfigSource):
    """Options that are in no folder: anyone's class, such as `position/decay:Decay`, which has
    nothing but its `kind`, and an experiment by its path, which needs no `@package`."""

    @staticmethod
    def scheme() -> str:
        return "attnexp"

    def available(self) -> bool:
        return True

    def is_group(self, config_path: str) -> bool:
        return False

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        return []

    def is_config(self, config_path: str) -> bool:
        group, _, name = config_path.partition("/")
        kind = name.rpartition("/")[2]
        is_class = group in PIECES and bool(CLASS.fullmatch(kind))
        return is_class or is_file(group, name)

    def load_config(self, config_path: str) -> ConfigResult:
        group, _, name = config_path.partition("/")
        if group == "experiment":
            package = "_global_"
            config = OmegaConf.create(read(group, name))
        else:
            path, _, kind = config_path.rpartition("/")
            package = path.replace("/", ".")
            config = OmegaConf.create({"kind": kind})
        return ConfigResult(self.provider, self.path, config, {"package": package})


def compose_options(choices: Mapping[str, str], experiments: Sequence[str]) -> Tree:
    """The tree of options by group, such as {"model.pooling": "max"}, and of experiments, one of
    which may be a run's stored config. Interpolations are left as they are. Raises `UserError` for
    an option that is not there, or one that an experiment's values would hide."""
    stored: Tree = {}
    names: list[str] = []
    for name in experiments:
        tree = read("experiment", name)
        if "hydra" in tree:
            why = "Hydra's own settings, below 'hydra', do nothing here."
            raise UserError(f"experiment={name}: {why}")
        names_pieces = "defaults" not in tree and groups_chosen_by_value(tree)
        is_run = Path(name).name == "config.yaml" or names_pieces
        # A run's stored config may come from anyone, so nothing in it is interpolated, and what it
        # holds of a section is all of it.
        if is_file("experiment", name) and is_run:
            stored |= escape(tree)
        else:
            names.append(name)
    for group in groups_chosen_by_value(stored):
        if group in choices:
            word = f"{group}={choices[group]}"
            raise UserError(f"{word} would do nothing: the experiment names its {group}.")
    tree = _compose_groups(choices, names)
    if "experiment" in tree:
        raise UserError(
            "An experiment's file begins with the line '# @package _global_', so that Hydra reads "
            "its keys as those of a run."
        )
    return tree | stored


def _compose_groups(choices: Mapping[str, str], experiments: Sequence[str]) -> Tree:
    """The tree of options and of experiments that are none of a run."""
    files = [Path(name).expanduser() for name in experiments if is_file("experiment", name)]
    for folder in folders()[1:]:
        files += folder.rglob("*.yaml")
    times = tuple((file.absolute(), file.stat().st_mtime_ns) for file in files)
    words = [f"experiment={_quoted(experiments)}"]
    unlisted = {**choices}
    for group in LISTED:
        if group in choices:
            option = unlisted.pop(group)
            words.append(f"{group}={_quoted(option)}")
    tree, chosen = _compose(tuple(words), times)
    for group, option in unlisted.items():
        path = group.replace(".", "/")
        # Hydra changes what is listed, and has "+" for what is not: a class, or an option of the
        # user's, may list no pieces of its own.
        sign = "" if path in chosen else "+"
        words.append(f"{sign}{path}={_quoted(option)}")
    if unlisted:
        tree, _ = _compose(tuple(words), times)
    return tree


def groups_chosen_by_value(tree: Tree) -> set[str]:
    """Groups whose choice a tree holds as a value: `model.kind: ...`."""
    keys = flatten(tree)
    choices = {CHOICE_KEYS.get(key, key.removesuffix(".kind")) for key in keys}
    return choices.intersection(groups()) - {*keys}


def escape(value: Any) -> Any:
    """The same value with `${` escaped for OmegaConf, so that it stays the text that it is."""
    if isinstance(value, dict):
        return {key: escape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [escape(inner) for inner in value]
    if isinstance(value, str):
        return re.sub(r"(\\*)\$\{", r"\1\1\\${", value)
    return value


def _quoted(option: str | Sequence[str]) -> str:
    """An option, or a list of them, in Hydra's grammar."""
    if isinstance(option, str):
        return QuotedString(text=option, quote=Quote.single).with_quotes()
    return f"[{','.join(map(_quoted, option))}]"


@lru_cache(maxsize=1000)  # by the times of the files, too
def _compose(words: tuple[str, ...], _times: FileTimes) -> tuple[Tree, Tree]:
    """What Hydra composes of words in its grammar, and the option that it chose in each group."""
    path = [*sys.path]
    sys.path[:] = [folder for folder in path if folder != os.getcwd()]
    try:  # Hydra looks for plugins, but not where the user's pieces are
        Plugins.instance().register(_OwnOptions)
    finally:
        sys.path[:] = path
    places = [f"file://{folder}" for folder in folders()[1:]]
    places.append(f"{_OwnOptions.scheme()}://")
    search_path = f"hydra.searchpath={_quoted(places)}"
    try:
        with hydra.initialize_config_dir(config_dir=str(conf_dir()), version_base="1.3"):
            config = hydra.compose("config", [search_path, *words], return_hydra_config=True)
    except MissingConfigException as error:
        missing = error.missing_cfg_file or ""
        group, _, option = missing.rpartition("/")
        raise no_such(group.replace("/", "."), option) from error
    except UserError:
        raise
    except (HydraException, OmegaConfBaseException, ValueError, TypeError, KeyError) as error:
        raise UserError(f"Hydra cannot compose this: {on_one_line(error)}") from error
    tree: Any = OmegaConf.to_container(config)
    hydras_own = tree.pop("hydra")
    return tree, hydras_own["runtime"]["choices"]
