"""The user's code: the files that a module of the user's needs, found without running any of it.

They are the module's own file, or all of its package, and every module that these import, directly
or not, and that lies below the same folder or another one that the user put on Python's path.
"""

import ast
import hashlib
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.machinery import all_suffixes
from importlib.metadata import packages_distributions, version
from pathlib import Path

from attnexp.base.errors import UserError

PREFIX = "code/"
"""Prefix of the user's files among those that computed a run, and the folder that keeps them."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The files that a module needs, by their names from the user's folder, and the versions of the
    packages that they import, by the name under which each was installed."""

    files: dict[str, Path] = field(default_factory=dict)
    packages: dict[str, str] = field(default_factory=dict)


def find_sources(module: str) -> Sources:
    """The sources of an imported module. Raises `UserError` where it comes from no file."""
    origin = getattr(sys.modules[module], "__file__", None)
    if module == "__main__" or origin is None:
        raise UserError(
            f"{module} is no file that a run could be traced to. Put the class or function into a "
            f"module, such as pieces.py, and name it as pieces:NAME."
        )
    file = Path(origin)
    depth = module.count(".")
    if file.stem == "__init__":
        depth += 1
    root = file.parents[depth]
    name = module.partition(".")[0]
    if _is_installed(root):
        return Sources({file.relative_to(root).as_posix(): file}, _versions([name]))
    package = root / name
    waiting = [*package.rglob("*.py")] if package.is_dir() else [file]
    return _follow_imports(root, waiting)


def _follow_imports(root: Path, waiting: list[Path]) -> Sources:
    """The sources of files below a folder."""
    folders = [root, *_user_folders()]
    root_of = dict.fromkeys(waiting, root)
    files: dict[str, Path] = {}
    outside: set[str] = set()
    while root_of:
        path, folder = root_of.popitem()
        name = path.relative_to(folder).as_posix()
        if name in files:
            continue
        files[name] = path
        for imported in _imports_of(path, folder, path.stat().st_mtime_ns):
            top = imported.partition(".")[0]
            home = next((home for home in folders if _candidates(home / top)), None)
            if top == "attnexp":  # ours, whatever lies in the user's folder under its name
                continue
            if home is None:
                outside.add(top)
                continue
            for needed in _modules_on_the_way(home, imported):
                root_of[needed] = home
    return Sources(files, _versions(outside))


@cache
def _imports_of(path: Path, root: Path, _changed: int) -> set[str]:
    """Dotted names that a file imports; of `from a import b` it is `a.b`, a module or not."""
    if path.suffix != ".py":
        return set()
    package = path.relative_to(root).parent.parts
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else ()
            prefix = ".".join([*base, *filter(None, [node.module])])
            names.update(f"{prefix}.{alias.name}".lstrip(".") for alias in node.names)
        elif isinstance(node, ast.Call):
            names |= _names_by_text(node)
    return names


def _names_by_text(call: ast.Call) -> set[str]:
    """The name that a call such as `import_module("a.b")` imports."""
    function = getattr(call.func, "attr", getattr(call.func, "id", None))
    if function not in ("import_module", "__import__") or not call.args:
        return set()
    name = getattr(call.args[0], "value", None)
    return {name.lstrip(".")} if isinstance(name, str) else set()


def _modules_on_the_way(root: Path, name: str) -> Iterator[Path]:
    """Files of the packages and the module of a dotted name below a folder."""
    place = root
    for part in name.split("."):
        place /= part
        yield from (path for path in _candidates(place) if path.is_file())


def _candidates(place: Path) -> list[Path]:
    """What is there for a module at a place without suffix: its files, or its folder."""
    files = [place.with_name(f"{place.name}{suffix}") for suffix in all_suffixes()]
    return [path for path in (place / "__init__.py", place, *files) if path.exists()]


def _user_folders() -> list[Path]:
    """Folders of Python's path that hold neither Python, nor installed packages, nor attnexp."""
    ours = Path(__file__).parents[2]
    folders = [Path(folder).absolute() for folder in sys.path]
    return [folder for folder in folders if folder != ours and not _is_installed(folder)]


def _is_installed(folder: Path) -> bool:
    """Whether a folder holds Python's own modules or installed packages."""
    paths = sysconfig.get_paths()
    is_of_packages = {"site-packages", "dist-packages"} & {*folder.parts}
    return bool(is_of_packages) or folder.is_relative_to(paths["stdlib"])


def _versions(names: Iterable[str]) -> dict[str, str]:
    """Versions of the installed packages that hold modules of these names."""
    distributions = _distributions()
    return {
        package: version(package).partition("+")[0]  # as torch is built for the CPU or a GPU
        for name in sorted(names)
        for package in distributions.get(name, [])
    }


@cache
def _distributions() -> dict[str, list[str]]:
    return {name: [*packages] for name, packages in packages_distributions().items()}


def digest_files(files: dict[str, Path]) -> dict[str, str]:
    """Sixteen hex digits for each file, by its name, which change with its code and docstrings, not
    with comments and layout."""
    return {name: _digest(files[name], files[name].stat().st_mtime_ns) for name in sorted(files)}


@cache
def _digest(path: Path, _changed: int) -> str:
    content = path.read_bytes()
    if path.suffix == ".py":
        content = ast.dump(ast.parse(content)).encode()
    return hashlib.sha256(content).hexdigest()[:16]
