"""Options of each group: the YAML files of `conf/`, ours and the user's, found, listed and named.

The user's lie in `conf/` of the current folder, or in the folders of `--config-dir`."""

import json
import re
import shlex
from functools import cache, lru_cache
from pathlib import Path

import yaml

from attnexp.base.errors import UserError, did_you_mean, on_one_line
from attnexp.base.progress import note
from attnexp.config.settings import Tree

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
    return _groups_with(tuple(users_files))


@cache
def _groups_with(users_files: tuple[tuple[Path, Path], ...]) -> Groups:
    """Our groups, with our options and the user's. Of two with one name the first counts."""
    ours = [(conf_dir(), path) for path in sorted(conf_dir().glob("*/**/*.yaml"))]
    options: Groups = {}
    for folder, path in [*ours, *users_files]:
        group = ".".join(path.parent.relative_to(folder).parts)
        if folder != conf_dir() and group not in options:
            continue
        files = options.setdefault(group, {})
        first = files.setdefault(path.stem, path)
        if first != path and first.read_bytes() != path.read_bytes():
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


def _complexity(option: tuple[str, Tree]) -> tuple[int, int, str]:
    name, settings = option
    return len(settings), len(name), name


@cache
def names_of_kinds() -> dict[str, str]:
    """Name of each class of ours: its option with the fewest settings, of several the shortest, so
    that `SinusoidalPosition` is sinusoidal rather than shuffled."""
    options = []
    for group, names in _groups_with(()).items():  # ours alone
        for name in names:
            options.append((name, read(group, name)))
    options.sort(key=_complexity)
    name_by_kind: dict[str, str] = {}
    for name, tree in options:
        kind = str(tree.get("kind"))
        if ":" in kind:  # a class, rather than an executor
            name_by_kind.setdefault(kind, name)
    return name_by_kind


def name_of(kind: str | None) -> str:
    """Name of a piece with this class: an option of ours, such as rotary, or the class's own."""
    if kind is None:
        return "none"
    return names_of_kinds().get(kind, kind.rpartition(":")[2])
