"""The user's code: the files that a module of the user's needs, found without running any of it.

They are the module's own file, or all of its package, and every module that these import, directly
or not, and that lies below the same folder or another one that the user put on Python's path; and
every file whose name stands in these as a text, as of a table that a piece reads.
"""

import ast
import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterable
from functools import cache
from importlib.machinery import all_suffixes
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import NamedTuple

from attnexp.base.errors import UserError

_packages = cache(packages_distributions)

PREFIX = "code/"
"""Prefix of the user's files among those that computed a run, and the folder that keeps them."""


class Sources(NamedTuple):
    """The files that a module needs, by names such as `code/mine/decay.py`, and what their code is:
    digests of the files, and versions of the installed packages that they import."""

    files: dict[str, Path]
    code: dict[str, str]


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
        place = file.relative_to(root)
        files = {f"{PREFIX}{place.as_posix()}": file}
        return Sources(files, digest_files(files) | _versions([name]))
    package = root / name
    files_within = [*package.rglob("*.py")] if package.is_dir() else [file]
    return _follow_imports(root, files_within)


def _follow_imports(root: Path, waiting: list[Path]) -> Sources:
    """The sources of files below a folder."""
    # Of Python's path the folders that hold neither Python, nor installed packages, nor attnexp.
    on_path = [Path(folder).absolute() for folder in sys.path]
    ours = Path(__file__).parents[2]
    users = [folder for folder in on_path if folder != ours and not _is_installed(folder)]
    folders = [root, *users]
    files: dict[str, Path] = {}
    outside: set[str] = set()
    while waiting:
        path = waiting.pop()
        homes = (folder for folder in folders if path.is_relative_to(folder))
        place = path.relative_to(next(homes, path.parent))
        name = f"{PREFIX}{place.as_posix()}"
        if name in files:
            continue
        files[name] = path
        waiting += _files_named_in(path)
        for imported in _imports_of(path, place.parent.parts, path.stat().st_mtime_ns):
            top = imported.partition(".")[0]
            if top == "attnexp":  # ours, whatever lies in the user's folder under its name
                continue
            for home in folders:
                needed = _files_of(home, imported)
                if needed:
                    waiting += needed
                    break
            else:
                outside.add(top)
    return Sources(files, digest_files(files) | _versions(outside))


@cache
def _imports_of(path: Path, package: tuple[str, ...], _changed: int) -> set[str]:
    """Dotted names that a file imports; of `from a import b` it is `a.b`, a module or not."""
    names: set[str] = set()
    if path.suffix != ".py":
        return names
    for node in ast.walk(ast.parse(path.read_bytes())):
        match node:
            case ast.Import():
                names.update(alias.name for alias in node.names)
            case ast.ImportFrom():
                parents = package[: len(package) + 1 - node.level] if node.level else ()
                for alias in node.names:
                    parts = [*parents, node.module, alias.name]
                    names.add(".".join(filter(None, parts)))
            case ast.Call(  # such as `import_module("a.b")`, or of f"a.{name}" all modules of a
                func=ast.Name(id=function) | ast.Attribute(attr=function), args=[name, *_]
            ) if function in ("import_module", "__import__"):
                end = "" if isinstance(name, ast.Constant) else ".*"
                names.update(f"{text.strip('.')}{end}" for text in _texts_in(name))
    return names


def _texts_in(tree: ast.AST) -> set[str]:
    """The texts of a syntax tree that may be names, but for those of what it writes."""
    texts: set[str] = set()
    written: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if 0 < len(text.strip(".")) < 256:
                texts.add(text)
            case ast.Call(func=ast.Name(id=function) | ast.Attribute(attr=function)):
                inner = {
                    str(part.value) for part in ast.walk(node) if isinstance(part, ast.Constant)
                }
                if inner & {"w", "a", "x", "wb", "ab"} or function.startswith(("save", "write")):
                    written |= inner
    return texts - written


@cache
def _texts_of(path: Path, _changed: int) -> set[str]:
    if path.suffix != ".py":
        return set()
    tree = ast.parse(path.read_bytes())
    return _texts_in(tree)


def _files_named_in(path: Path) -> list[Path]:
    """The files that a module names by a text, from its own folder or the current one."""
    texts = _texts_of(path, path.stat().st_mtime_ns)
    files: list[Path] = []
    for text in texts:
        for folder in (path.parent, os.getcwd()):
            file = os.path.join(folder, text)
            if os.path.isfile(file):
                file = os.path.normpath(file)
                files.append(Path(file))
    return files


def _files_of(folder: Path, name: str) -> list[Path]:
    """Files of the packages and the module of a dotted name below a folder, none if it is not
    there."""
    files: list[Path] = []
    for part in name.split("."):
        if part == "*":
            files += folder.rglob("*.py")
        folder /= part
        candidates = [folder / "__init__.py"]
        candidates += [folder.with_name(f"{part}{suffix}") for suffix in all_suffixes()]
        files += filter(Path.is_file, candidates)
    return files


def _is_installed(folder: Path) -> bool:
    """Whether a folder holds Python's own modules or installed packages."""
    holds_packages = "site-packages" in folder.parts or "dist-packages" in folder.parts
    return holds_packages or folder.is_relative_to(sysconfig.get_path("stdlib"))


def _versions(modules: Iterable[str]) -> dict[str, str]:
    """Versions of the installed packages that hold modules of these names."""
    versions: dict[str, str] = {}
    for module in sorted(modules):
        for package in _packages().get(module, []):
            versions[package] = version(package).partition("+")[0]  # for the CPU or a GPU
    return versions


def digest_files(files: dict[str, Path]) -> dict[str, str]:
    """Sixteen hex digits for each file, by its name, which change with its code and docstrings, not
    with comments and layout."""
    digests = {}
    for name, path in sorted(files.items()):
        digests[name] = _digest(path, path.stat().st_mtime_ns)
    return digests


@cache
def _digest(path: Path, _changed: int) -> str:
    content = path.read_bytes()
    if path.suffix == ".py":
        content = ast.dump(ast.parse(content)).encode()
    return hashlib.sha256(content).hexdigest()[:16]
