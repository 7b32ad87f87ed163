"""A run is what it read: the files of user code and those that it opens, each with a digest.

Opened files come from Python's audit event `open`, modules from `sys.modules`. A digest is taken
when a run reads a file first, or a module is imported, so that it says what ran and not what was
edited since.
"""

import ast
import hashlib
import os
import stat
import sys
import sysconfig
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import source_from_cache
from pathlib import Path
from typing import Any

INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
NEVER_COUNTED = tuple(
    f"{folder}{os.sep}"
    for folder in (
        Path(__file__).parents[1],  # attnexp, whose code is in the id of a run
        *("/proc", "/sys", "/dev"),
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib")),
    )
)
"""Folders whose files no run counts."""


@dataclass(frozen=True, slots=True)
class FileRead:
    """A file as it was when it was read."""

    digest: str
    source: bytes = b""  # of a Python file


_files: dict[str, FileRead] = {}  # by absolute path
_of_run = set[str]()  # those that were read since the run began
_of_imports = set[str]()  # modules, and what they read when they were imported
_written = set[str]()  # those that this process opened to write
_packages = set[str]()  # folders of packages, and files of modules, that count although installed
_is_watching = False
_thread = threading.local()


@contextmanager
def watching() -> Iterator[None]:
    """Note the files that are opened within."""
    global _is_watching
    _add_hook()
    was_watching = _is_watching
    _is_watching = True
    try:
        yield
    finally:
        _is_watching = was_watching


@contextmanager
def importing() -> Iterator[None]:
    """Note what an import within reads: it counts in all runs of this process."""
    before = _of_run.copy()
    with watching():
        yield
    _of_imports.update(_of_run - before)
    note_modules()


@cache
def _add_hook() -> None:
    sys.addaudithook(_note_open)


def _note_open(event: str, args: tuple[Any, ...]) -> None:
    if event != "open" or not _is_watching or getattr(_thread, "is_noting", False):
        return
    path, _, flags = args
    _thread.is_noting = True  # `note` opens files itself
    try:
        with suppress(Exception):  # The path may be a file's number, or lead to no file.
            if flags & (os.O_WRONLY | os.O_RDWR):
                _written.add(os.path.abspath(os.fsdecode(path)))
            else:
                note(os.fsdecode(path))
    finally:
        _thread.is_noting = False


def begin_run() -> None:
    """Forget what an earlier run has read, but for what was imported."""
    _of_run.clear()


def note(name: str) -> None:
    """Count a file, as it is now, among what this run has read."""
    path = os.path.abspath(name)
    if path.endswith(".pyc"):
        path = source_from_cache(path)
    is_noted = path in _of_run or path in _of_imports or path in _written
    if is_noted or not is_users(path):
        return
    source = Path(path).read_bytes() if path.endswith(".py") else b""
    _files[path] = FileRead(_digest_of(path), source)
    _of_run.add(path)


def note_modules() -> None:
    """Count the files of all modules that this process has imported, but for its script."""
    for name, module in [*sys.modules.items()]:
        file = getattr(module, "__file__", None)
        if name not in ("__main__", "__mp_main__") and isinstance(file, str):
            with suppress(Exception):  # A module of any program may name a file that is none.
                note(file)
                _of_imports.update(_of_run & {os.path.abspath(file)})


def count_package(name: str) -> None:
    """Let the package of an imported module count, wherever it is installed."""
    package = sys.modules[name.partition(".")[0]]
    file = getattr(package, "__file__", None)
    folders = [f"{folder}{os.sep}" for folder in getattr(package, "__path__", ())]
    _packages.update(folders or filter(None, [file]))


def is_users(path: str) -> bool:
    """Whether a path is a regular file of the user's, neither installed nor attnexp's."""
    is_left_out = path.startswith(NEVER_COUNTED) or any(part in path for part in INSTALLED)
    return is_file(path) and (not is_left_out or path.startswith(tuple(_packages)))


def is_file(path: str) -> bool:
    """Whether a path is a regular file. To read a pipe would empty it."""
    return os.path.exists(path) and stat.S_ISREG(os.stat(path).st_mode)


def read_files(left_out: str | Path) -> dict[str, str]:
    """Digest of each file that this run has read, by name: of a Python file from the folder of
    `sys.path` in which it is found, of others from the current folder. left_out: folder whose files
    do not count."""
    note_modules()
    outside = f"{os.path.abspath(left_out)}{os.sep}"
    paths = sorted((_of_run | _of_imports) - _written)
    return {name_of(path): _files[path].digest for path in paths if not path.startswith(outside)}


def sources(names: Iterable[str]) -> dict[str, bytes]:
    """Content of the Python files among these, by name, as it was when they were read."""
    read = {name_of(path): file.source for path, file in _files.items() if path.endswith(".py")}
    return {name: read[name] for name in names if name in read}


def name_of(path: str) -> str:
    """The shortest name by which `find` gives a path."""
    for folder in _folders_of(path):
        name = path.removeprefix(f"{folder}{os.sep}")
        if name != path and find(name) == path:
            return name
    return path


def find(name: str) -> str:
    """Path of a file by its name in `read_files`, or nothing where there is no such file."""
    paths = [os.path.join(folder, name) for folder in _folders_of(name)]
    return next(filter(is_file, paths), "")


def _folders_of(name: str) -> list[str]:
    """Folders in which a file is looked for."""
    folders = sys.path if name.endswith(".py") else []
    return [os.path.abspath(folder) for folder in [*folders, "."]]


def describe_change(files: Mapping[str, str]) -> str:
    """`mine.py changed`: the first of these files that is not as it was; empty if all are."""
    for name, known in files.items():
        path = find(name)
        if not path:
            return f"{name} is no longer there"
        if _digest_of(path) != known:
            return f"{name} changed"
    return ""


def stale_file() -> str:
    """A file that changed since this process, which goes on with the old code, imported it; or
    nothing."""
    known = {name_of(path): _files[path].digest for path in _of_imports}
    return next((name for name in known if describe_change({name: known[name]})), "")


def differing_file(files: Mapping[str, str]) -> str:
    """The first of these files that this process read with other content; empty without any."""
    known = {name_of(path): file.digest for path, file in _files.items()}
    return next((name for name in files if known.get(name, files[name]) != files[name]), "")


def digest(path: str | Path, content: bytes) -> str:
    """Sixteen hex digits, which for a Python file change with its code and docstrings, not with
    comments and layout."""
    if str(path).endswith(".py"):
        with suppress(SyntaxError, ValueError, RecursionError):
            content = ast.dump(ast.parse(content)).encode()
    return hashlib.sha256(content).hexdigest()[:16]


def _digest_of(path: str) -> str:
    """Digest of a file as it is now, computed once for each size and time of it."""
    status = os.stat(path)
    return _digest_at(path, status.st_size, status.st_mtime_ns)


@cache
def _digest_at(path: str, _size: int, _mtime: int) -> str:
    return digest(path, Path(path).read_bytes())
