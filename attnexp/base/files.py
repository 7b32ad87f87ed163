"""Atomic writes, and one message for what cannot be read or written."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from attnexp.base.errors import UserError, on_one_line


@contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """Write beside `path` and rename over it, so that a reader never sees half a file. Of two
    processes that write at once the later one wins."""
    part = path.parent / f".{path.name}.{os.getpid()}"
    try:
        with part.open("wb") as file:
            yield file
        part.replace(path)
    finally:
        with suppress(OSError):  # It is there only if this has failed.
            part.unlink()


@contextmanager
def reading(file: Path, advice: str) -> Iterator[None]:
    """Turn whatever a damaged file raises into a `UserError` that names it. advice: what to do."""
    try:
        yield
    except UserError:
        raise
    except OSError as error:  # The content may be all right.
        raise UserError(f"{file} cannot be read: {error.strerror or error}.") from error
    except Exception as error:
        reason = on_one_line(f"{type(error).__name__}: {error}")
        raise UserError(f"{file} cannot be read ({reason[:200]}). {advice}") from error


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an `OSError` into a `UserError` that names the file, or else `path`."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"Results cannot be written to {error.filename or path}: {error.strerror or error}. "
            "Give another place with out=DIR."
        ) from error
