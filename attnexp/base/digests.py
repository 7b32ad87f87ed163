"""Which file a short name stands for, and whether its content is still what it was."""

import ast
import hashlib
import os
import sys
from contextlib import suppress
from functools import cache
from os.path import abspath, isfile, join
from pathlib import Path


def short_name(path: str) -> str:
    """A Python file's path from the folder of `sys.path` that has it, another file's from the
    current folder, such as mine/decay.py; the whole path where `path_of` leads elsewhere."""
    for folder in _folders_of(path):
        name = path.removeprefix(f"{folder}{os.sep}")
        if name != path and path_of(name) == path:
            return name
    return path


def path_of(name: str) -> str:
    """Path of a file by its short name, which may be a whole path; empty if there is none."""
    paths = [join(folder, name) for folder in _folders_of(name)]
    return next(filter(isfile, paths), "")


def _folders_of(name: str) -> list[str]:
    """Where a file is looked for: Python's in `sys.path`, then any in the current folder."""
    folders = sys.path if name.endswith(".py") else []
    return [abspath(folder) for folder in [*folders, "."]]


def change_since(files: dict[str, str]) -> str:
    """`mine.py changed`: the first of these files that is not as it was; empty if all are."""
    for name, digest_before in files.items():
        path = path_of(name)
        if not path:
            return f"{name} is no longer there"
        if digest_now(path) != digest_before:
            return f"{name} changed"
    return ""


def digest(path: str | Path, content: bytes) -> str:
    """Sixteen hex digits, which for a Python file change with its code and docstrings, or with the
    version of Python, not with comments and layout."""
    if str(path).endswith(".py"):
        with suppress(SyntaxError, ValueError, RecursionError):
            content = ast.dump(ast.parse(content)).encode()
    return hashlib.sha256(content).hexdigest()[:16]


def digest_now(path: str) -> str:
    """Digest of a file as it is now."""
    status = os.stat(path)
    return _digest_cached(path, status.st_size, status.st_mtime_ns)


@cache  # A file is read again when its size or time has changed.
def _digest_cached(path: str, _size: int, _mtime: int) -> str:
    return digest(path, Path(path).read_bytes())
