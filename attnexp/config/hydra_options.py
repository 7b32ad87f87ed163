"""Options composed by Hydra, of which `conf/` is an ordinary config directory.

Search path: our `conf/`, the user's folders, then `OwnOptions`. A program that knows only Hydra
composes the same from `conf/`: `compose("config", ["experiment=blog_pe", "model/pooling=max"])`.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import hydra
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.core.plugins import Plugins
from hydra.errors import HydraException, MissingConfigException
from hydra.plugins.config_source import ConfigResult, ConfigSource
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from attnexp.base.errors import UserError
from attnexp.config.options import conf_dir, folders, groups, is_file, no_such, read
from attnexp.config.pieces import CLASS
from attnexp.config.schema import PIECES, flatten
from attnexp.config.words import CHOICE_KEYS

LISTED = ("data", "model", "position", "mask", "train", "experiment")
"""Groups in the defaults list of `conf/config.yaml`."""

FileTimes = tuple[tuple[Path, int], ...]
"""Files of the user, each with the time of its last change."""


class Composed(NamedTuple):
    """What Hydra composed."""

    tree: dict[str, Any]
    chosen: dict[str, Any]
    """The option chosen in each group, such as `model/pooling`."""


class OwnOptions(ConfigSource):
    """Options that are in no folder: anyone's class in a group, and an experiment by its path."""

    @staticmethod
    def scheme() -> str:
        """The beginning of its place on the search path."""
        return "attnexp"

    def available(self) -> bool:
        """Always."""
        return True

    def is_group(self, config_path: str) -> bool:
        """It adds options to groups, and no group."""
        return False

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """They cannot be listed."""
        return []

    def is_config(self, config_path: str) -> bool:
        """config_path: such as `position/decay:Decay` or `experiment/../mine.yaml`."""
        if is_file(*_first_group(config_path)):
            return True
        group, _, name = config_path.rpartition("/")
        return group != "" and CLASS.fullmatch(name) is not None

    def load_config(self, config_path: str) -> ConfigResult:
        """A class is an option with nothing but its `kind`; an experiment is what its file holds,
        and needs no `@package`."""
        group, _, name = config_path.rpartition("/")
        if CLASS.fullmatch(name):
            tree = {"kind": name}
            package = group.replace("/", ".")
        else:
            _, path = _first_group(config_path)
            tree = read_experiment(path)
            package = "_global_"
        header: dict[str, str | None] = {"package": package}
        config = OmegaConf.create(tree)
        return ConfigResult(self.provider, self.path, config, header)


def _first_group(config_path: str) -> tuple[str, str]:
    """`experiment` and the path of `experiment/../mine.yaml`."""
    group, _, path = config_path.partition("/")
    return group, path


def read_experiment(path: str) -> dict[str, Any]:
    """What an experiment's file holds. A run's stored config may come from anyone, so in a file
    that is called like one, or names its pieces like one, nothing is interpolated."""
    tree = read("experiment", path)
    if Path(path).name == "config.yaml" or chosen_by_value(tree):
        tree = escape(tree)
    return tree


def chosen_by_value(tree: Mapping[str, Any]) -> list[str]:
    """Groups whose choice a tree holds as a value, as stored configs do: `model.kind: ...`."""
    chosen = []
    for key in flatten(dict(tree)):
        group = CHOICE_KEYS.get(key, key.removesuffix(".kind"))
        if group != key and group in groups():
            chosen.append(group)
    return chosen


def escape(value: Any) -> Any:
    """The same value with `${` escaped for OmegaConf, so that it stays the text that it is."""
    if isinstance(value, dict):
        return {key: escape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [escape(inner) for inner in value]
    if isinstance(value, str):
        return re.sub(r"(\\*)\$\{", r"\1\1\\${", value)
    return value


def compose_options(choices: Mapping[str, Any]) -> dict[str, Any]:
    """Compose the options of these choices. Interpolations are left as they are.

    choices: options by group, such as {"model.pooling": "max"}; a list of experiments. Raises
    `UserError` for an option that is not there, or one that an experiment's values would hide.
    """
    fixed = _check_choices(choices)
    # What a stored config holds of a section is all of it: no option lies below.
    words = [f"~{group}" for group in fixed if group in LISTED]
    inner_groups = []
    for group, option in choices.items():
        if group in LISTED:
            words.append(f"{group}={_quoted(option)}")
        else:
            inner_groups.append(group)
    times = file_times(choices.get("experiment", []))
    composed = _compose(tuple(words), times)
    for group in inner_groups:
        path = group.replace(".", "/")
        # A class, or an option of the user's, may list no pieces of its own.
        sign = "" if path in composed.chosen else "+"
        words.append(f"{sign}{path}={_quoted(choices[group])}")
    if inner_groups:
        composed = _compose(tuple(words), times)
    if "experiment" in composed.tree:
        raise UserError(
            "An experiment's file begins with the line '# @package _global_', so that Hydra reads "
            "its keys as those of a run."
        )
    return composed.tree


def _check_choices(choices: Mapping[str, Any]) -> list[str]:
    """Groups whose choice an experiment holds as a value. Raises `UserError` for wrong choices."""
    fixed: list[str] = []
    for name in choices.get("experiment", []):
        fixed += _check_experiment(name)
    for group, option in choices.items():
        if group in fixed:
            raise UserError(f"{group}={option} would do nothing: the experiment names its {group}.")
        if group != "experiment":
            _check_option(group, option)
    return fixed


def _check_experiment(name: str) -> list[str]:
    """Groups whose choice an experiment given by its path holds as a value."""
    if not is_file("experiment", name):
        _check_option("experiment", name)
        return []
    tree = read("experiment", name)
    if "hydra" in tree:
        raise UserError(f"experiment={name}: Hydra's own settings, below 'hydra', do nothing here.")
    return chosen_by_value(tree)


def _check_option(group: str, option: Any) -> None:
    name = "null" if option is None else str(option)
    is_class = group.partition(".")[0] in PIECES and CLASS.fullmatch(name)
    if not is_class and name not in groups().get(group, {}):
        raise no_such(group, name)


def _quoted(option: str | Sequence[str]) -> str:
    """An option, or a list of them, in Hydra's grammar."""
    if isinstance(option, str):
        return QuotedString(text=option, quote=Quote.single).with_quotes()
    options = ",".join(_quoted(each) for each in option)
    return f"[{options}]"


def file_times(experiments: Sequence[str]) -> FileTimes:
    """Files of the user that composing may read, each with the time of its last change."""
    files: list[Path] = []
    for name in experiments:
        path = Path(name).expanduser()
        if is_file("experiment", name) and path.is_file():
            files.append(path.absolute())
    for folder in folders()[1:]:
        files += folder.rglob("*.yaml")
    return tuple((path, path.stat().st_mtime_ns) for path in files)


def _register_own_options() -> None:
    """Have Hydra look for plugins, but not where the user's pieces are, and add ours to them."""
    path = [*sys.path]
    sys.path[:] = [folder for folder in path if folder != os.getcwd()]
    try:
        Plugins.instance().register(OwnOptions)
    finally:
        sys.path[:] = path


@lru_cache(maxsize=1000)
def _compose(words: tuple[str, ...], _times: FileTimes) -> Composed:
    """What Hydra composes of words in its grammar."""
    _register_own_options()
    places = [f"file://{folder}" for folder in folders()[1:]]
    places.append(f"{OwnOptions.scheme()}://")
    search_path = f"hydra.searchpath={_quoted(places)}"
    try:
        with hydra.initialize_config_dir(config_dir=str(conf_dir()), version_base="1.3"):
            config = hydra.compose("config", [search_path, *words], return_hydra_config=True)
    except MissingConfigException as error:
        group, _, option = (error.missing_cfg_file or "").rpartition("/")
        raise no_such(group.replace("/", "."), option) from error
    except UserError:
        raise
    except (HydraException, OmegaConfBaseException, ValueError, TypeError, KeyError) as error:
        raise UserError(f"Hydra cannot compose this: {' '.join(str(error).split())}") from error
    tree: Any = OmegaConf.to_container(config)
    hydras_own = tree.pop("hydra")
    return Composed(tree, hydras_own["runtime"]["choices"])
