"""Options of each group: the YAML files of `conf/`, ours and the user's, found, listed and named.

The user's lie in `conf/` of the current folder, or in the folders of `--config-dir`.
"""

import copy
import difflib
import json
import re
import shlex
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import yaml

from attnexp.base.errors import UserError, on_one_line
from attnexp.base.progress import note

Tree = dict[str, Any]  # settings by name, those of a section in a tree of their own, as in YAML
Flat = dict[str, Any]  # settings by whole key, such as `model.heads`
Groups = dict[str, dict[str, Path]]  # files by group, such as `model.pooling`, and by option

own_dirs: list[Path] = []  # folders that `--config-dir` gave
_parse_yaml = lru_cache(yaml.safe_load)  # The runs of a sweep read the same texts.


@cache
def conf_dir() -> Path:
    """`conf/`: inside the package when installed, beside it in an editable install."""
    package = Path(__file__).parents[1]
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


def folders() -> list[Path]:
    """Folders of options: ours, then the user's."""
    places = [*own_dirs, Path.cwd() / "conf"]
    users = [folder.absolute() for folder in places if folder.is_dir()]
    return list(dict.fromkeys([conf_dir(), *users]))


def groups() -> Groups:
    """Every group, with its options. The user's files are listed anew each time."""
    users_files = []
    for folder in folders()[1:]:
        users_files += [(folder, path) for path in sorted(folder.glob("*/**/*.yaml"))]
    return _groups(*users_files)


@cache
def _groups(*users_files: tuple[Path, Path]) -> Groups:
    """Our groups, with our options and the user's, each given as folder and file. Of two with one
    name the first counts, and the other is noted if it differs."""
    ours = [(conf_dir(), path) for path in sorted(conf_dir().glob("*/**/*.yaml"))]
    options: Groups = {}
    for folder, path in [*ours, *users_files]:
        group = ".".join(path.parent.relative_to(folder).parts)
        if folder != conf_dir() and group not in options:
            continue
        files = options.setdefault(group, {})
        first = files.setdefault(path.stem, path)
        if first.read_bytes() != path.read_bytes():
            note(f"{path} is not read, since {first} is. Give the file another name.")
    return options


def is_file(option: str) -> bool:
    """Whether an experiment or a study is chosen by its path, rather than by name."""
    return option.endswith((".yaml", ".yml", ".json"))


def no_such(group: str, option: str) -> UserError:
    """Error for an option that is not there."""
    options = groups().get(group, {})
    message = f"{group}={option}: there is no such {group}.{did_you_mean(option, options)}"
    if options:  # A piece within a user's piece has none.
        folder = f"conf/{group.replace('.', '/')}"
        message += f" Choose one of: {', '.join(options)}; or put your own into {folder}/NAME.yaml."
    if group == "data":
        message += f" Files of your own are data=files data.path={shlex.quote(option)}."
    elif group in ("experiment", "study"):
        message += f" A file of your own is {group}=FILE.yaml."
    elif group not in ("train", "executor"):
        message += f" A class of your own is {group}=module:Class."
    return UserError(message)


def read(group: str, option: str) -> Tree:
    """Content of an option's file, not interpolated; others share it. Raises `UserError`."""
    options = groups().get(group, {})
    if group in ("experiment", "study") and is_file(option):
        path = Path(option).expanduser()
    elif option in options:
        path = options[option]
    else:
        raise no_such(group, option)
    try:
        text = path.read_text("utf-8")
        tree = json.loads(text) if path.suffix == ".json" else _parse_yaml(text)
        if not isinstance(tree, dict):
            raise ValueError("it must hold keys")
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UserError(f"{group}={option} cannot be read: {on_one_line(error)}.") from error
    return tree


def describe() -> dict[str, dict[str, str]]:
    """Every group's options, with the first comment of their files."""
    descriptions: dict[str, dict[str, str]] = {}
    for group, options in groups().items():
        descriptions[group] = {}
        for name, path in options.items():
            # A line such as `# @package _global_` is a directive of Hydra's.
            comment = re.search(r"^# (?!@)(.*?)\.?$", path.read_text("utf-8"), re.M)
            descriptions[group][name] = comment[1] if comment else ""
    return descriptions


@cache
def names_of_kinds() -> dict[str, str]:
    """Name of each class of ours: its option with the fewest settings, of several the shortest, so
    that `SinusoidalPosition` is sinusoidal rather than shuffled."""
    trees = [(read(group, name), name) for group, names in _groups().items() for name in names]
    trees.sort(key=lambda pair: (len(pair[0]), len(pair[1]), pair[1]))
    name_by_kind: dict[str, str] = {}
    for tree, name in trees:
        if ":" in str(tree.get("kind")):  # a class, rather than an executor
            name_by_kind.setdefault(tree["kind"], name)
    return name_by_kind


def name_of(kind: str | None) -> str:
    """Name of a piece with this class: an option of ours, such as rotary, or the class's own."""
    if kind is None:
        return "none"
    return names_of_kinds().get(kind, kind.rpartition(":")[2])


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """` Did you mean 'x'?`: up to two names that end in `.NAME`, else the nearest; or nothing."""
    names = [*dict.fromkeys(names)]
    ending_in_it = [key for key in names if key.endswith(f".{name}")]
    near = ending_in_it or difflib.get_close_matches(name, names, n=1)
    if not near:
        return ""
    in_quotes = " or ".join(map(repr, near[:2]))
    return f" Did you mean {in_quotes}?"


def flatten(tree: Tree, prefix: str = "") -> Flat:
    """`{"a": {"b": 1}}` as `{"a.b": 1}`: the keys a user writes on the command line."""
    flat: Flat = {}
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict):
            flat |= flatten(value, f"{key}.")
        else:
            flat[key] = value
    return flat


def set_keys(tree: Tree, values: Flat) -> Tree:
    """A copy of a tree with values put in by their keys. `model.before` goes in before
    `model.before.kernel`, so that `before: cnn` becomes `before: {kind: cnn, kernel: 5}`."""
    tree = copy.deepcopy(tree)
    for key in sorted(values, key=lambda key: key.count(".")):
        *sections, name = key.split(".")
        branch = tree
        for section in sections:
            if not isinstance(branch.setdefault(section, {}), dict):
                branch[section] = {"kind": branch[section]}
            branch = branch[section]
        branch[name] = values[key]
    return tree
