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


def groups() -> dict[str, list[str]]:
    """Every group, such as `position` or `model.pooling`, with the names of its options."""
    return _groups(conf_dir(), *own_dirs, Path.cwd() / "conf")


@cache
def _groups(ours: Path, *folders: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for folder in (ours, *folders):
        for path in sorted(folder.glob("*/**/*.yaml")):
            group = ".".join(path.parent.relative_to(folder).parts)
            names = found.setdefault(group, []) if folder == ours else found.get(group, [])
            names += [path.stem] if path.stem not in names else []
    return found


def file(group: str, option: str) -> Path:
    """YAML file of an option. One of ours hides a user's of the same name, which is noted."""
    if option.endswith((".yaml", ".yml")):
        return Path(option).expanduser()
    name = Path(*group.split("."), f"{option}.yaml")
    places = [folder / name for folder in (conf_dir(), *own_dirs, Path.cwd() / "conf")]
    found = [path for path in places if path.is_file()]
    if len(found) > 1 and found[0] == places[0] and not found[0].samefile(found[1]):
        _note_hidden(found[1], f"{group}={option}")
    return found[0] if found else places[0]


@cache
def _note_hidden(path: Path, word: str) -> None:
    from attnexp.base.progress import note

    note(f"{path} is not read: attnexp has {word} itself. Give the file another name.")


def read(group: str, option: str) -> Any:
    """Content of an option's file, as plain text. Raises `UserError` if it cannot be read."""
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    path = file(group, option)
    try:
        return _read(path, path.stat().st_mtime_ns)
    except (OSError, YAMLError, OmegaConfBaseException) as error:
        said = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise UserError(f"{group}={option} cannot be read: {said}.") from error


@cache
def _read(path: Path, _changed: int) -> Any:
    from omegaconf import OmegaConf  # which TAB and `--help` need not wait for

    return OmegaConf.to_container(OmegaConf.load(path), resolve=False)


def describe() -> dict[str, dict[str, str]]:
    """Every group's options, with the first sentence of the comment in their files."""
    found: dict[str, dict[str, str]] = {}
    for group, option in [(group, one) for group, names in groups().items() for one in names]:
        lines = file(group, option).read_text("utf-8").splitlines()
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
