"""Options of each group: the YAML files of `conf/`, ours and the user's.

The user's lie in `conf/` of the current folder, or in the folders of `--config-dir`.
"""

import difflib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from attnexp.base.errors import UserError
from attnexp.base.progress import note

own_dirs: list[Path] = []
"""Folders that `--config-dir` gave."""


@cache
def conf_dir() -> Path:
    """`conf/`: inside the package when installed, beside it in an editable install."""
    places = [parent / "conf" for parent in Path(__file__).parents[1:3]]
    return next(place for place in places if place.is_dir())


def groups() -> dict[str, dict[str, Path]]:
    """Every group, such as `position` or `model.pooling`, with the files of its options by name."""
    return _groups(conf_dir(), *own_dirs, Path.cwd() / "conf")


@cache
def _groups(*folders: Path) -> dict[str, dict[str, Path]]:
    """Options of the first folder's groups, of all folders. The first of a name wins, noted."""
    found: dict[str, dict[str, Path]] = {}
    for folder in folders:
        for path in sorted(folder.glob("*/**/*.yaml")):
            group = ".".join(path.parent.relative_to(folder).parts)
            if folder == folders[0] or group in found:
                first = found.setdefault(group, {}).setdefault(path.stem, path)
                if first.read_bytes() != path.read_bytes():
                    note(f"{path} is not read, since {first} is. Give the file another name.")
    return found


def read(group: str, option: str) -> Any:
    """Content of an option's file, as plain text. Raises `UserError` for one that is not there."""
    from yaml import YAMLError

    options = groups().get(group, {})
    is_file = group in ("experiment", "study") and option.endswith((".yaml", ".yml"))
    if not is_file and option not in options:
        raise UserError(
            f"{group}={option}: there is no such {group}.{did_you_mean(option, options)} Choose "
            f"one of: {', '.join(options)}. Your own are module:Class for a piece of the model, "
            f"FILE.yaml for an experiment or a study."
        )
    path = Path(option).expanduser() if is_file else options[option]
    try:
        if isinstance(tree := _parsed(path.read_text("utf-8")), dict):
            return tree
        raise ValueError("it must hold keys")
    except (OSError, ValueError, YAMLError) as error:
        said = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise UserError(f"{group}={option} cannot be read: {said}.") from error


@cache
def _parsed(text: str) -> Any:
    import yaml  # which `--help` need not wait for

    return yaml.safe_load(text)


def describe() -> dict[str, dict[str, str]]:
    """Every group's options, with the comment in the first line of their files."""

    def about(path: Path) -> str:
        return path.read_text("utf-8").partition("\n")[0].lstrip("# ").rstrip(".")

    return {g: {name: about(path) for name, path in of.items()} for g, of in groups().items()}


@cache
def _names() -> dict[str, str]:
    """Name of each class of our options: that with the fewest settings, the last of equal ones."""
    trees = [(read(g, name), name) for g, names in _groups(conf_dir()).items() for name in names]
    named = sorted((-len(tree), name, str(tree.get("kind"))) for tree, name in trees)
    return {kind: name for _, name, kind in named}


def name_of(kind: str | None) -> str:
    """Name of a piece: the option with this class and fewest settings, else the class name."""
    return "none" if kind is None else _names().get(kind, kind.rpartition(":")[2])


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'?`: names that end in what was given, else the nearest; or nothing."""
    names = [*known]
    ending = [name for name in names if name.endswith(f".{given}")]
    near = (ending or difflib.get_close_matches(given, names, n=1, cutoff=0.6))[:2]
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
