"""A run is what it read: the files of user code and those that it opens, each with a digest.

A file has the digest of the moment at which it is first opened (Python's audit event `open`) or
imported: it is what ran, and not what was edited since. The process has one record, as of modules:
`importing` what a config names; then `begin_run`, `watching` user code, `read_files` at the end.
"""

import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import source_from_cache
from os.path import abspath, isfile
from pathlib import Path
from typing import Any

from attnexp.base.digests import change_since, digest_now, path_of, short_name

INSTALLED = {"site-packages", "dist-packages"}  # folders in a path
ATTNEXP = str(Path(__file__).parents[1])  # The id of a run has its code.
PYTHON = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib")]
SYSTEM = tuple(f"{path}{os.sep}" for path in (ATTNEXP, *PYTHON, "/proc", "/sys"))
"""No file in these is the user's, unless in code that a config names."""


@dataclass
class _Read:
    """A file as it was when this run read it first."""

    digest: str = ""  # empty if it could not be read
    source: bytes = b""  # content of a Python file
    at_import: bool = False  # whether it is a module, or was read while one was imported


_reads: dict[str, _Read] = {}  # by absolute path; to others a file is known by its short name
_written = set[str]()  # paths that this run opened to write, so that they are no inputs
_named_prefixes = set[str]()  # of paths of code that a config names: folders, or a module's file
_is_watching = False


@contextmanager
def watching() -> Iterator[None]:
    """Add the files that are opened within to those that were read."""
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
    """Add what a module reads while it is imported within, for this run and all later ones. From
    then on its whole package is the user's, wherever it is installed."""
    global _reads
    earlier = _reads
    _reads = _reads_at_import()  # What this run has read before is read anew.
    try:
        with watching():
            yield
        for read in _reads.values():
            read.at_import = True
        earlier |= _reads
        package = sys.modules[module.partition(".")[0]]
        file = getattr(package, "__file__", None)  # None for a built-in module
        if hasattr(package, "__path__"):
            _named_prefixes.update(f"{folder}{os.sep}" for folder in package.__path__)
        elif file:
            _named_prefixes.add(file)
    finally:
        _reads = earlier  # Of a failed import only modules stay that it has imported.
        _add_modules()


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
            add_file(path)


@cache  # once, since a hook cannot be removed
def _add_hook() -> None:
    sys.addaudithook(_on_event)


def begin_run() -> None:
    """Forget what an earlier run has read and written, but for what was read at an import."""
    global _reads
    _reads = _reads_at_import()
    _written.clear()


def _reads_at_import() -> dict[str, _Read]:
    return {path: read for path, read in _reads.items() if read.at_import and path not in _written}


def add_file(name: str, *, at_import: bool = False) -> None:
    """Add a file of the user, as it is now, to those that were read, unless it is there already."""
    path = abspath(name)
    if path.endswith(".pyc"):
        path = source_from_cache(path)
    if path not in _reads:
        if path in _written or not is_users_file(path):
            return
        _reads[path] = read = _Read()  # first, since to read the file calls this again
        read.digest = digest_now(path)
        if path.endswith(".py"):
            read.source = Path(path).read_bytes()
    _reads[path].at_import |= at_import


def _add_modules() -> None:
    """Add the files of all modules that this process has imported, but for its script."""
    for name, module in [*sys.modules.items()]:
        file = getattr(module, "__file__", None)
        if name in ("__main__", "__mp_main__") or not isinstance(file, str):
            continue
        with suppress(Exception):  # A module of any program may name a file that is none.
            add_file(file, at_import=True)


def is_users_file(path: str) -> bool:
    """Whether a path is a file of the user's: not installed, unless in code that a config names."""
    is_named = path.startswith(tuple(_named_prefixes))
    is_installed = path.startswith(SYSTEM) or not INSTALLED.isdisjoint(path.split(os.sep))
    return (is_named or not is_installed) and isfile(path)


def read_files(left_out: str | Path) -> dict[str, str]:
    """Digest of each file that this run has read, by short name, but for those in a folder."""
    _add_modules()
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


def change_since_import() -> str:
    """As `change_since`, of what this process read at imports and goes on to run as it was."""
    at_import = sorted(_reads_at_import().items())
    return change_since({short_name(path): read.digest for path, read in at_import if read.digest})


def first_that_differs(files: Mapping[str, str]) -> str:
    """The first of these files that this process read with other content; empty without any."""
    for name, digest_there in files.items():
        read = _reads.get(path_of(name))
        if read and read.digest != digest_there:
            return name
    return ""
