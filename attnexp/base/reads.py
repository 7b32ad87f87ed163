"""A run is what it read: the files of user code and those that it opens, each with a digest.

To count a file is to note it as an input of the run, with the digest that it has when it is opened
first (Python's audit event `open`) or imported: what ran, and not what was edited since. All state
is the process's, as its modules are; `begin_run` drops it, but for what imports have read.
"""

import ast
import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import source_from_cache
from os.path import abspath, isfile, join
from pathlib import Path
from typing import Any

INSTALLED = {"site-packages", "dist-packages"}  # folders in a path
ATTNEXP = str(Path(__file__).parents[1])  # The id of a run has its code.
PYTHON = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib")]
SYSTEM = tuple(f"{path}{os.sep}" for path in (ATTNEXP, *PYTHON, "/proc", "/sys", "/dev"))
"""No file in these counts, nor an installed one, but for code that a config names."""


@dataclass
class _Read:
    """A file as it was when this run read it first."""

    digest: str = ""  # empty if it could not be read
    source: bytes = b""  # content of a Python file


_reads: dict[str, _Read] = {}  # by absolute path; to others a file is known by its short name
_imported = set[str]()  # paths of modules, and of what these read at their import
_written = set[str]()  # paths that this run opened to write; none of them counts
_counted_prefixes = set[str]()
"""Path prefixes of code that a config names: a package's folders, or the file of one module."""
_is_watching = False


@contextmanager
def watching() -> Iterator[None]:
    """Count the files that are opened within."""
    global _is_watching
    _add_hook()
    was_watching = _is_watching
    _is_watching = True
    try:
        yield
    finally:
        _is_watching = was_watching


@contextmanager
def importing(module: str) -> Iterator[None]:
    """Count what a module reads while it is imported within, for this run and all later ones. From
    then on its whole package counts, wherever it is installed."""
    before = set(_reads)
    with watching():
        yield
    _imported.update(_reads.keys() - before)
    package = sys.modules[module.partition(".")[0]]
    file = getattr(package, "__file__", None)  # None for a built-in module
    if hasattr(package, "__path__"):
        _counted_prefixes.update(f"{folder}{os.sep}" for folder in package.__path__)
    elif file:
        _counted_prefixes.add(file)
    count_modules()


@cache
def _add_hook() -> None:
    sys.addaudithook(_on_event)


def _on_event(event: str, args: tuple[Any, ...]) -> None:
    if event != "open" or not _is_watching:
        return
    path, _, flags = args
    with suppress(Exception):  # The path may be a file's number, or lead to no file.
        path = abspath(os.fsdecode(path))
        if flags & (os.O_WRONLY | os.O_RDWR):
            _written.add(path)
            _reads.pop(path, None)
        else:
            count_file(path)


def begin_run() -> None:
    """Forget what an earlier run has read and written, but for what was imported."""
    _written.clear()
    for path in _reads.keys() - _imported:
        del _reads[path]


def count_file(name: str) -> None:
    """Count a file, as it is now, among what this run has read."""
    path = abspath(name)
    if path.endswith(".pyc"):
        path = source_from_cache(path)
    if path in _reads or path in _written or not is_users_file(path):
        return
    read = _reads.setdefault(path, _Read())  # Opening the file calls this again: it returns above.
    read.digest = _digest_of(path)
    if path.endswith(".py"):
        read.source = Path(path).read_bytes()


def count_modules() -> None:
    """Count the files of all modules that this process has imported, but for its script."""
    for name, module in [*sys.modules.items()]:
        file = getattr(module, "__file__", None)
        if name in ("__main__", "__mp_main__") or not isinstance(file, str):
            continue
        with suppress(Exception):  # A module of any program may name a file that is none.
            count_file(file)
            _imported.add(abspath(file))


def is_users_file(path: str) -> bool:
    """Whether a path is a regular file of the user's: neither attnexp's nor installed, unless in a
    package that the user names."""
    is_named = path.startswith(tuple(_counted_prefixes))
    is_installed = path.startswith(SYSTEM) or not INSTALLED.isdisjoint(path.split(os.sep))
    return (is_named or not is_installed) and isfile(path)


def read_files(left_out: str | Path) -> dict[str, str]:
    """Digest of each file that this run has read, by short name. left_out: a folder not counted."""
    count_modules()
    folder = f"{abspath(left_out)}{os.sep}"
    files = {}
    for path, read in sorted(_reads.items()):
        if read.digest and not path.startswith(folder):
            files[short_name(path)] = read.digest
    return files


def sources(names: Iterable[str]) -> dict[str, bytes]:
    """Content of the Python files among these, by short name, as it was when they were read."""
    python = {short_name(path): _reads[path].source for path in _reads if path.endswith(".py")}
    return {name: python[name] for name in names if name in python}


def short_name(path: str) -> str:
    """A Python file's path from the folder of `sys.path` that has it, another file's from the
    current folder, such as mine/decay.py; the whole path where `find` would not lead back to it."""
    for folder in _folders_of(path):
        name = path.removeprefix(f"{folder}{os.sep}")
        if name != path and find(name) == path:
            return name
    return path


def find(name: str) -> str:
    """Path of a file by its short name, which may be a whole path; empty if there is none."""
    paths = [join(folder, name) for folder in _folders_of(name)]
    return next(filter(isfile, paths), "")


def _folders_of(name: str) -> list[str]:
    """Where a file is looked for: Python's in `sys.path`, then any in the current folder."""
    folders = sys.path if name.endswith(".py") else []
    return [abspath(folder) for folder in [*folders, "."]]


def change_since(files: Mapping[str, str]) -> str:
    """`mine.py changed`: the first of these files that is not as it was; empty if all are."""
    for name, digest_before in files.items():
        path = find(name)
        if not path:
            return f"{name} is no longer there"
        if _digest_of(path) != digest_before:
            return f"{name} changed"
    return ""


def change_since_import() -> str:
    """As `change_since`, of what this process has imported and goes on to run as it was."""
    imported = sorted(_imported & _reads.keys())
    return change_since({short_name(path): _reads[path].digest for path in imported})


def read_otherwise(files: Mapping[str, str]) -> str:
    """The first of these files that this process read with other content; empty without any."""
    for name, digest_there in files.items():
        read = _reads.get(find(name))
        if read and read.digest != digest_there:
            return name
    return ""


def digest(path: str | Path, content: bytes) -> str:
    """Sixteen hex digits, which for a Python file change with its code and docstrings, not with
    comments and layout."""
    if str(path).endswith(".py"):
        with suppress(SyntaxError, ValueError, RecursionError):
            content = ast.dump(ast.parse(content)).encode()
    return hashlib.sha256(content).hexdigest()[:16]


def _digest_of(path: str) -> str:
    """Digest of a file as it is now."""
    status = os.stat(path)
    return _digest_at(path, status.st_size, status.st_mtime_ns)


@cache  # A file is read again when its size or time has changed.
def _digest_at(path: str, _size: int, _mtime: int) -> str:
    return digest(path, Path(path).read_bytes())
