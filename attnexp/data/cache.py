"""A cache on disk of what takes long to compute. Losing it costs time and nothing else."""

import hashlib
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, TypeVar

from attnexp.base import modules, progress
from attnexp.base.files import atomic_write

T = TypeVar("T")

DAMAGED = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)
"""Exceptions that reading a damaged file raises."""


def cache_dir() -> Path:
    """`$ATTNEXP_CACHE`, or `attnexp` in the user's cache folder."""
    if given := os.environ.get("ATTNEXP_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "attnexp"


def code_digests(*names: str) -> dict[str, str]:
    """Digests, by module, of the code in `data` and of the user that these modules lead to.

    What is cached is keyed by the code that made it, so edited code makes it anew.
    """
    files = [Path(spec.origin) for name in names if (spec := modules.find(name)) and spec.origin]
    files += sorted(Path(__file__).parent.glob("*.py"))
    return {file.stem: hashlib.sha256(file.read_bytes()).hexdigest()[:16] for file in files}


def load_or_compute(
    path: Path,
    *,
    read: Callable[[Path], T],
    make: Callable[[], T],
    write: Callable[[IO[bytes], T], None],
) -> T:
    """Read `path`; or, where nothing whole is there, compute and write it.

    A file that is damaged, or cannot be written, costs a line and not the run.
    """
    try:
        return read(path)
    except FileNotFoundError:
        pass
    except DAMAGED as error:
        progress.note(f"The cache file {path} is damaged ({error}); making it again.")
    made = make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as file:
            write(file, made)
    except OSError as error:  # a full or read-only disk
        progress.note(f"Could not write {path}: {error.strerror}. The run continues without it.")
    return made
