"""Files of the user that a run has read, with digests: it is made again if one of them changes.

A file has the digest of the moment at which it is first opened (Python's audit event `open`) or
imported: it is what ran, and not what was edited since. As modules stay from run to run, so do the
files of imports. In order: `importing` what a config names; then for each run `begin_run`,
`watching` its user code, and `read_files` at the end."""

import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec, source_from_cache
from os.path import abspath, isfile
from pathlib import Path
from typing import Any, NamedTuple

from attnexp.base.digests import change_since, digest_now, path_of, short_name

INSTALLED = {"site-packages", "dist-packages"}  # folders of packages, anywhere in a path
ATTNEXP = str(Path(__file__).parents[1])  # The id of a run has its code.
PYTHON = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib")]
SYSTEM = tuple(f"{path}{os.sep}" for path in (ATTNEXP, *PYTHON, "/proc", "/sys"))


class _File(NamedTuple):
    """A file as it was when it was read first."""

    digest: str = ""  # empty while it is being read, and if it cannot be
    source: bytes = b""  # content of a Python file


_Files = dict[str, _File]  # by absolute path
_imported: _Files = {}  # modules, and what was read while one was imported
_of_run: _Files = {}  # what else this run has read
_written = set[str]()  # paths that this run opened to write
_destination: _Files | None = None  # where files go that are opened now; None: nowhere
_named_prefixes = set[str]()  # of paths of code that a config names: folders, or a module's file


@contextmanager
def importing(module: str) -> Iterator[None]:
    """Add what a module reads while it is imported within, for this run and all later ones. From
    now on its whole package is the user's, wherever it is installed."""
    with suppress(ValueError):  # `__main__` may have no spec.
        package = find_spec(module.partition(".")[0])
        folders = package.submodule_search_locations if package else None
        if folders:
            _named_prefixes.update(f"{folder}{os.sep}" for folder in folders)
        elif package and package.origin:
            _named_prefixes.add(package.origin)
    opened: _Files = {}
    try:
        with _adding_opened(opened):
            yield
    finally:
        _add_modules()  # A failed import may have imported others, which stay.
    _imported.update(opened)  # not after a failed import, which may be tried again


def begin_run() -> None:
    """Forget what an earlier run has read and written, but for what was read at an import."""
    _of_run.clear()
    _written.clear()


@contextmanager
def watching() -> Iterator[None]:
    """Add the files that are opened within to those that this run has read."""
    with _adding_opened(_of_run):
        yield


def add_file(name: str) -> None:
    """Add a file of the user, as it is now, to those that this run has read."""
    _add(abspath(name), _of_run)


def read_files(left_out: str | Path) -> dict[str, str]:
    """Digest of each file that this run has read, by short name, but for those in a folder."""
    _add_modules()
    folder = f"{abspath(left_out)}{os.sep}"
    files = sorted(_all_files().items())
    return {short_name(path): f.digest for path, f in files if not path.startswith(folder)}


def sources(names: Iterable[str]) -> dict[str, bytes]:
    """Content of the Python files among these, by short name, as it was when they were read."""
    files = _all_files()
    python = {short_name(path): files[path].source for path in files if path.endswith(".py")}
    return {name: python[name] for name in names if name in python}


def change_since_import() -> str:
    """As `change_since`, of what this process read at imports and goes on to run as it was."""
    files = sorted(_imported.items())
    return change_since({short_name(path): file.digest for path, file in files if file.digest})


def first_that_differs(files: Mapping[str, str]) -> str:
    """The first of these files that this process read with other content; empty without any."""
    read_here = _all_files()
    for name, digest_there in files.items():
        file = read_here.get(path_of(name))
        if file and file.digest != digest_there:
            return name
    return ""


def is_users_file(path: str) -> bool:
    """Whether a path is a file of the user's: not installed, unless in code that a config names."""
    is_named = path.startswith(tuple(_named_prefixes))
    is_installed = path.startswith(SYSTEM) or not INSTALLED.isdisjoint(path.split(os.sep))
    return (is_named or not is_installed) and isfile(path)


def _all_files() -> _Files:
    """All files that could be read, of imports and of this run."""
    files = _of_run | _imported
    return {path: file for path, file in files.items() if file.digest}


@contextmanager
def _adding_opened(files: _Files) -> Iterator[None]:
    """Add the files that are opened within to these."""
    global _destination
    _add_hook()
    outer = _destination
    _destination = files
    try:
        yield
    finally:
        _destination = outer


@cache  # once, since a hook cannot be removed
def _add_hook() -> None:
    sys.addaudithook(_on_event)


def _on_event(event: str, args: tuple[Any, ...]) -> None:
    if event != "open" or _destination is None:
        return
    path, _, flags = args
    with suppress(Exception):  # The path may be a file's number, or lead to no file.
        path = abspath(os.fsdecode(path))
        if flags & (os.O_WRONLY | os.O_RDWR):  # What a run itself changes is none of its inputs.
            _written.add(path)
            for files in (_destination, _of_run, _imported):  # The first may be that of an import.
                files.pop(path, None)
        else:
            _add(path, _destination)


def _add(path: str, files: _Files) -> None:
    """Add a file as it is now, if it is the user's and was neither read nor written before."""
    if path.endswith(".pyc"):
        path = source_from_cache(path)
    if path in files or path in _imported or path in _written or not is_users_file(path):
        return
    files[path] = _File()  # first, since to read the file calls this again
    source = Path(path).read_bytes() if path.endswith(".py") else b""
    files[path] = _File(digest_now(path), source)


def _add_modules() -> None:
    """Add the files of all modules that this process has imported, but for its script."""
    for name, module in [*sys.modules.items()]:
        file = getattr(module, "__file__", None)
        if name in ("__main__", "__mp_main__") or not isinstance(file, str):
            continue
        with suppress(Exception):  # A module of any program may name a file that is none.
            path = abspath(file)
            if path in _of_run:  # It was read before, when user code imported it.
                _imported.setdefault(path, _of_run[path])
            _add(path, _imported)
