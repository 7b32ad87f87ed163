"""A run is what it read: the files of user code and those that it opens, each with a digest.

Opened files come from Python's audit event `open`, modules from `sys.modules`. A digest is taken
when a run reads a file first, or a module is imported, so that it says what ran and not what was
edited since. All state is the process's, as its modules are, and `begin_run` begins it anew.
"""

import ast
import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import source_from_cache
from pathlib import Path
from typing import Any

INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
ATTNEXP = str(Path(__file__).parents[1])  # The id of a run has its code.
PYTHON = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib")]
NEVER_COUNTED = tuple(f"{path}{os.sep}" for path in (ATTNEXP, *PYTHON, "/proc", "/sys", "/dev"))
"""Folders whose files count in no run, unless `_packages` has them."""

# Files are known by their absolute paths here; `short_name` is what others see.
_digests: dict[str, str] = {}  # of each file that this run read, as it was then; "" if it could not
_sources: dict[str, bytes] = {}  # content of the Python files among them
_of_imports = set[str]()  # modules, and what they read when imported: they count in all later runs
_written = set[str]()  # files that this process opened to write; none of them counts
_packages = set[str]()  # folders of packages, and files of modules, that count although installed
_is_watching = False


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
def importing(module: str) -> Iterator[None]:
    """Note what the import of a module within reads. It counts in all later runs."""
    before = set(_digests)
    with watching():
        yield
    _of_imports.update(_digests.keys() - before)  # data files, too, which `count_modules` misses
    _count_package(module)
    count_modules()  # Those of an installed package did not count while they were imported.


@cache
def _add_hook() -> None:
    sys.addaudithook(_note_open)


def _note_open(event: str, args: tuple[Any, ...]) -> None:
    if event != "open" or not _is_watching:
        return
    path, _, flags = args
    with suppress(Exception):  # The path may be a file's number, or lead to no file.
        name = os.fsdecode(path)
        if flags & (os.O_WRONLY | os.O_RDWR):
            _written.add(os.path.abspath(name))
        else:
            count_file(name)


def begin_run() -> None:
    """Forget what an earlier run has read, but for what was imported."""
    for path in _digests.keys() - _of_imports:
        del _digests[path]


def count_file(name: str) -> None:
    """Count a file, as it is now, among what this run has read."""
    path = os.path.abspath(name)
    if path.endswith(".pyc"):
        path = source_from_cache(path)
    if path in _digests or path in _written or not is_users(path):
        return
    _digests[path] = ""  # The next line opens the file, which calls this again: it returns above.
    _digests[path] = _digest_of(path)
    if path.endswith(".py"):
        _sources[path] = Path(path).read_bytes()


def count_modules() -> None:
    """Count the files of all modules that this process has imported, but for its script."""
    for name, module in [*sys.modules.items()]:
        file = getattr(module, "__file__", None)
        if name in ("__main__", "__mp_main__") or not isinstance(file, str):
            continue
        with suppress(Exception):  # A module of any program may name a file that is none.
            count_file(file)
            path = os.path.abspath(file)
            if path in _digests:
                _of_imports.add(path)


def _count_package(name: str) -> None:
    """Let the package of an imported module count, wherever it is installed."""
    package = sys.modules[name.partition(".")[0]]
    file = getattr(package, "__file__", None)
    folders = [f"{folder}{os.sep}" for folder in getattr(package, "__path__", ())]
    _packages.update(folders or filter(None, [file]))


def is_users(path: str) -> bool:
    """Whether a path is a regular file of the user's: neither attnexp's nor installed, unless in a
    package that the user names."""
    if path.startswith(NEVER_COUNTED) or any(part in path for part in INSTALLED):
        return path.startswith(tuple(_packages)) and os.path.isfile(path)
    return os.path.isfile(path)


def read_files(left_out: str | Path) -> dict[str, str]:
    """Digest of each file that this run has read, by name: of a Python file from the folder of
    `sys.path` that has it, of others from the current folder. left_out: a folder not counted."""
    count_modules()
    folder = f"{os.path.abspath(left_out)}{os.sep}"
    files = {}
    for path, digest_then in sorted(_digests.items()):
        if digest_then and path not in _written and not path.startswith(folder):
            files[short_name(path)] = digest_then
    return files


def sources(names: Iterable[str]) -> dict[str, bytes]:
    """Content of the Python files among these, by name, as it was when they were read."""
    read = {short_name(path): content for path, content in _sources.items()}
    return {name: read[name] for name in names if name in read}


def short_name(path: str) -> str:
    """The name that `find` turns back into this path, such as mine/decay.py; the path itself if
    none does."""
    for folder in _folders_of(path):
        name = path.removeprefix(f"{folder}{os.sep}")
        if name != path and find(name) == path:
            return name
    return path


def find(name: str) -> str:
    """Path of a file by its name in `read_files`, which may be absolute; empty if there is none."""
    paths = [os.path.join(folder, name) for folder in _folders_of(name)]
    return next(filter(os.path.isfile, paths), "")


def _folders_of(name: str) -> list[str]:
    """Where a file is looked for: Python's in `sys.path`, then any in the current folder."""
    folders = sys.path if name.endswith(".py") else []
    return [os.path.abspath(folder) for folder in [*folders, "."]]


def describe_change(files: Mapping[str, str]) -> str:
    """`mine.py changed`: the first of these files that is not as it was; empty if all are."""
    for name, digest_before in files.items():
        path = find(name)
        if not path:
            return f"{name} is no longer there"
        if _digest_of(path) != digest_before:
            return f"{name} changed"
    return ""


def describe_stale() -> str:
    """As `describe_change`, of what this process has imported; it would go on with the old code."""
    return describe_change({short_name(path): _digests[path] for path in sorted(_of_imports)})


def differing_file(files: Mapping[str, str]) -> str:
    """The first of these files that this process read with other content; empty without any."""
    for name, digest_there in files.items():
        path = find(name)
        if path in _digests and _digests[path] != digest_there:
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
