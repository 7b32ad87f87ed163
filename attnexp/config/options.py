"""Options of each group: the YAML files of `conf/`, ours and the user's.

The user's lie in `conf/` of the current folder, or in the folders of `--config-dir`.
"""

import re
from functools import cache
from pathlib import Path
from typing import Any

from attnexp.base.errors import UserError

own_dirs: list[Path] = []
"""Folders that `--config-dir` gave."""


@cache
def conf_dir() -> Path:
    """`conf/`: inside the package when installed, beside it in an editable install."""
    package = Path(__file__).parents[1]
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


def groups() -> dict[str, dict[str, Path]]:
    """Every group, such as `position` or `model.pooling`, with the files of its options by name."""
    return _groups(conf_dir(), *own_dirs, Path.cwd() / "conf")


@cache
def _groups(*folders: Path) -> dict[str, dict[str, Path]]:
    """The options of all folders in groups of the first, which win; differing others are noted."""
    from attnexp.base.progress import note

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
    """Content of an option's file, as plain text. Raises `UserError` if it cannot be read."""
    from yaml import YAMLError

    is_file = option.endswith((".yaml", ".yml"))
    path = Path(option).expanduser() if is_file else groups()[group][option]
    try:
        return _parsed(path.read_text("utf-8"))
    except (OSError, ValueError, YAMLError) as error:
        said = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise UserError(f"{group}={option} cannot be read: {said}.") from error


@cache
def _parsed(text: str) -> Any:
    import yaml  # which `--help` need not wait for

    return yaml.safe_load(text)


def describe() -> dict[str, dict[str, str]]:
    """Every group's options, with the first sentence of the comment in their files."""
    found: dict[str, dict[str, str]] = {}
    for group, options in groups().items():
        for option, path in options.items():
            lines = path.read_text("utf-8").splitlines()
            about = " ".join(one[2:] for one in lines if re.match("# (?!@package)", one))
            first = re.split(r"(?<!\bal)\. ", about)[0].rstrip(".")  # "et al." ends no sentence
            found.setdefault(group, {})[option] = first
    return found


@cache
def _names() -> dict[str, str]:
    """Name of each class of our options: that with the fewest settings, `window` of two alike."""
    ours = [(group, name) for group, names in _groups(conf_dir()).items() for name in names]
    trees = [(read(group, name), name) for group, name in ours]
    named = [(-len(tree), name, tree["kind"]) for tree, name in trees if tree and tree.get("kind")]
    return {kind: name for _, name, kind in sorted(named)}


def name_of(kind: str | None) -> str:
    """Name of a piece: the option with this class and fewest settings, else the class name."""
    return "none" if kind is None else _names().get(kind, kind.rpartition(":")[2])
