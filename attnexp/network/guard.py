"""User code at work: the files that it reads, its errors in one message, its random streams."""

import random
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np
import torch

from attnexp.base import digests, reads
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
        frames = traceback.extract_tb(error.__traceback__)
        users_frames = [frame for frame in frames if reads.is_users_file(frame.filename)]
        if not users_frames and isinstance(error, OSError | SystemExit):
            raise  # A full disk or a closed pipe is not its fault.
        place = ""
        if users_frames:
            innermost = users_frames[-1]
            place = f" at {digests.short_name(innermost.filename)}:{innermost.lineno}"
        reason = f"{type(error).__name__}: {error}"
        raise UserError(f"{', '.join(kinds)} failed{place}: {reason}") from error


@contextmanager
def kept_streams() -> Iterator[None]:
    """Set the random streams back at the end; that of a GPU only where it was in use before."""
    gpus = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(gpus))
        stack.callback(np.random.set_state, np.random.get_state())
        stack.callback(random.setstate, random.getstate())
        yield


def seed_beside_torch(seed: int) -> None:
    """Seed numpy and `random`, from which user code may draw."""
    np.random.seed(seed % 2**32)
    random.seed(seed)
