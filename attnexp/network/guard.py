"""Errors of the user's code, told in one message with the class, the file and the line."""

import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from attnexp.base import reads
from attnexp.base.errors import RunFailed, UserError
from attnexp.model import seams

# Exceptions that say enough, or that no piece is to blame for.
OURS = (UserError, RunFailed, MemoryError, torch.OutOfMemoryError)


@contextmanager
def guard(kinds: Sequence[str]) -> Iterator[None]:
    """Turn an error of the user's code into a `UserError`. kinds: that code, as `module:name`."""
    try:
        yield
    except OURS:
        raise
    except (Exception, SystemExit) as error:  # whatever anyone's code may do
        place = place_of(error)
        is_ours = not place and isinstance(error, (OSError, SystemExit))  # such as a full disk
        if not kinds or is_ours:
            raise
        raise UserError(
            f"{', '.join(kinds)} failed{place}: {type(error).__name__}: {error}"
        ) from error


def place_of(error: BaseException) -> str:
    """` at mine/decay.py:14`: the innermost line of a user's file; nothing without any."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if reads.is_users(frame.filename):
            return f" at {reads.shorten(frame.filename)}:{frame.lineno}"
    return ""


def name_piece(piece: object) -> str:
    """`mine.decay:Decay (ScoreBias)`; a layer within fills no seam itself."""
    cls = type(piece)
    names = [base.__name__ for base in cls.__mro__ if base.__module__ == seams.__name__]
    seam = names[0] if names else "Layers"
    return f"{cls.__module__}:{cls.__qualname__} ({seam})"
