"""User code at work: the files that it reads, its errors in one message, its random streams."""

import random
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
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
            return f" at {reads.short_name(frame.filename)}:{frame.lineno}"
    return ""


@contextmanager
def kept_streams() -> Iterator[None]:
    """Set the random streams of torch, numpy and `random` back at the end."""
    numpy_state = np.random.get_state()
    python_state = random.getstate()
    gpus = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(gpus):
        try:
            yield
        finally:
            np.random.set_state(numpy_state)
            random.setstate(python_state)


def seed_beside_torch(seed: int) -> None:
    """Seed numpy and `random`, from which user code may draw."""
    np.random.seed(seed % 2**32)
    random.seed(seed)
