"""A run is what it read: the files that user code consists of and opens, each with a digest.

Files come from Python's audit event `open`, noted while user code may run, and from `sys.modules`.
What is installed and attnexp's own reading (of data, vectors, configs) are left out. A digest is
taken when a file is read first, so that it says what ran and not what was edited since.
"""

import ast
import hashlib
import os
import stat
import sys
import sysconfig
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import source_from_cache
from pathlib import Path
from typing import Any

LEFT_OUT = tuple(
    f"{folder}{os.sep}"
    for folder in (
        Path(__file__).parents[1],  # attnexp
        *("/proc", "/sys", "/dev"),
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib")),
    )
)
MAIN = ("__main__", "__mp_main__")  # the script that calls attnexp

_digests: dict[str, str] = {}  # of files by path, as they were when they were read first
_sources: dict[str, bytes] = {}  # content of the Python files among them
_written = set[str]()
_is_watching = False
_hook = threading.local()


@contextmanager
def watching(is_on: bool = True) -> Iterator[None]:
    """Note the files that are opened within, or, where `is_on` is false, do not."""
    global _is_watching
    _add_hook()
    was_watching, _is_watching = _is_watching, is_on
    try:
        yield
    finally:
        _is_watching = was_watching


@cache
def _add_hook() -> None:
    sys.addaudithook(_note_open)


def _note_open(event: str, args: tuple[Any, ...]) -> None:
    if event != "open" or not _is_watching or getattr(_hook, "is_busy", False):
        return
    _hook.is_busy = True  # for it opens files, too
    with suppress(Exception):  # a number of a file, or one that is not there
        path, mode, flags = args
        if flags & (os.O_WRONLY | os.O_RDWR) or set(mode or "") & set("wax+"):
            _written.add(os.path.abspath(os.fsdecode(path)))
        else:
            _note(os.fsdecode(path))
    _hook.is_busy = False


def _note(name: str) -> None:
    path = os.path.abspath(name)
    if path.endswith(".pyc"):
        path = source_from_cache(path)
    if path in _digests or path in _written or not is_users(path):
        return
    content = Path(path).read_bytes()
    _digests[path] = digest(path, content)
    if path.endswith(".py"):
        _sources[path] = content


def is_users(path: str) -> bool:
    """Whether it is a file that is neither installed nor attnexp's."""
    is_installed = "site-packages" in path or "dist-packages" in path
    return is_file(path) and not is_installed and not path.startswith(LEFT_OUT)


def is_file(path: str) -> bool:
    """Whether it is a regular file: a pipe would be emptied."""
    return os.path.exists(path) and stat.S_ISREG(os.stat(path).st_mode)


def digest(path: str | Path, content: bytes) -> str:
    """Sixteen hex digits, which for a Python file change with its code and docstrings, not with
    comments and layout."""
    if str(path).endswith(".py"):
        with suppress(SyntaxError, ValueError):
            content = ast.dump(ast.parse(content)).encode()
    return hashlib.sha256(content).hexdigest()[:16]


def read_files(left_out: str | Path) -> dict[str, str]:
    """Digest of each file that this process has read, by its path, which is relative to the current
    folder if below it. left_out: folder whose files do not count."""
    _note_modules()
    outside = f"{Path(left_out).absolute()}{os.sep}"
    paths = [path for path in sorted(_digests) if not path.startswith(outside)]
    return {shorten(path): _digests[path] for path in paths}


def python_files(names: Mapping[str, str]) -> dict[str, bytes]:
    """Content of the Python files among these, by name, as it was when they were read."""
    paths = {name: os.path.abspath(name) for name in names}
    return {name: _sources[path] for name, path in paths.items() if path in _sources}


def _note_modules() -> None:
    for name, module in [*sys.modules.items()]:
        file = getattr(module, "__file__", None)
        if name not in MAIN and isinstance(file, str):
            with suppress(Exception):
                _note(file)


def shorten(path: str) -> str:
    """A path relative to the current folder, if below it."""
    return path.removeprefix(f"{os.getcwd()}{os.sep}")


def changed_file(files: Mapping[str, str]) -> str:
    """The first of these files that is not as it was; empty if all are."""
    for name, known in files.items():
        if not is_file(name) or digest(name, Path(name).read_bytes()) != known:
            return name
    return ""


def differing_file(files: Mapping[str, str]) -> str:
    """The first of these files that this process read with other content, such as before an edit."""
    for name, known in files.items():
        if _digests.get(os.path.abspath(name), known) != known:
            return name
    return ""


def stale_file() -> str:
    """A file that changed since this process read it, which goes on with what it read; or empty."""
    _note_modules()
    return shorten(changed_file({path: _digests[path] for path in _sources}))
