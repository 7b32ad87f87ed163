"""User code at work: the files that it reads, and its errors in one message."""

import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from attnexp.base import reads
from attnexp.base.errors import RunFailed, UserError


@contextmanager
def guard(kinds: Sequence[str]) -> Iterator[None]:
    """Note the files that user code reads within, and turn its error into a `UserError` that names
    the class, the file and the line. kinds: that code, as `module:name`; maybe none."""
    if not kinds:
        yield
        return
    try:
        with reads.watching():
            yield
    except (UserError, RunFailed, MemoryError, torch.OutOfMemoryError):
        raise  # These say enough, or no piece is to blame.
    except (Exception, SystemExit) as error:  # User code may raise anything.
        place = place_of(error)
        if not place and isinstance(error, OSError):  # such as a full disk
            raise
        reason = f"{type(error).__name__}: {error}"
        raise UserError(f"{', '.join(kinds)} failed{place}: {reason}") from error


def place_of(error: BaseException) -> str:
    """` at mine/decay.py:14`: the innermost line of a user's file; nothing without any."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if reads.is_users(frame.filename):
            return f" at {reads.name_of(frame.filename)}:{frame.lineno}"
    return ""
