"""Atomic writes, and messages for writes that fail."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from attnexp.base import progress
from attnexp.base.errors import UserError


@contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """Write beside `path` and rename over it, so a reader never sees half a file, not even after
    the power has gone.

    Two processes may write at once: each has a file of its own, and the later rename wins. An
    `OSError` names `path`.
    """
    part = path.parent / f".{path.name}.{os.getpid()}"
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)
        raise


def find_files(
    root: Path, *names: str, left_out: Callable[[str], object] = progress.note
) -> list[Path]:
    """Files of these names in and under a folder, sorted. A folder that is renamed or removed
    meanwhile is passed over.

    left_out: called with a message for each folder that cannot be read.
    """

    def failed(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            left_out(f"{error.filename} cannot be read: {error.strerror}.")

    tree = os.walk(root, onerror=failed)
    return sorted(Path(folder, name) for folder, _, held in tree for name in names if name in held)


@contextmanager
def writing(path: Path, setting: str = "out=DIR") -> Iterator[None]:
    """Turn an `OSError` into a `UserError` that names the file, or else `path`, and the setting
    that gives another place."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"Results cannot be written to {error.filename or path}: {error.strerror}. Give "
            f"another place with {setting}."
        ) from error
