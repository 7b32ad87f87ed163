"""A cache on disk of what takes long to compute. Losing it costs time and nothing else."""

import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, TypeVar

from attnexp.base import progress
from attnexp.base.files import atomic_write
from attnexp.config import pieces

T = TypeVar("T")

DAMAGED = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)
"""Exceptions that reading a damaged file raises."""


def cache_dir() -> Path:
    """`$ATTNEXP_CACHE`, or `attnexp` in the user's cache folder."""
    if given := os.environ.get("ATTNEXP_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "attnexp"


def code_digests(kind: str = "") -> dict[str, str]:
    """Digests of the code in `data`, and of that of the user's tokenizer `kind`, by file.

    What is cached is keyed by the code that made it, so edited code makes it anew.
    """
    folder = Path(__file__).parent
    found = pieces.syntax(folder, folder.glob("*.py"))
    is_ours = not kind or kind.startswith("attnexp.")
    return found if is_ours else found | pieces.code_of(kind)


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
