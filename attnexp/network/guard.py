"""Errors of the user's code, told in one message with the class, the file and the line."""

import inspect
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import torch

from attnexp.base.errors import RunFailed, UserError
from attnexp.config import pieces
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
        explanation = explain(error, kinds)
        if explanation is None:
            raise
        raise explanation from error


def explain(error: BaseException, kinds: Sequence[str]) -> UserError | None:
    """The same error with the class, file and line that it comes from. In torch's backward pass
    there is no such line, and the classes stand for it. None where the user's code has no part."""
    message = f"{type(error).__name__}: {error}"
    for kind in kinds:
        frames = _frames_within(error, kind)
        if not frames:
            continue
        name = kind
        for frame, _ in frames:
            owner = frame.f_locals.get("self")
            if isinstance(owner, torch.nn.Module | seams.Mask):
                name = name_piece(owner)
                break
        return UserError(f"{name} failed at {place_of(error, kind)}: {message}")
    if not kinds or isinstance(error, (OSError, SystemExit, *OURS)):  # such as a full disk
        return None
    places = [f"{kind} ({place_of(error, kind)})" for kind in kinds]
    return UserError(f"A run with {', '.join(places)} failed: {message}")


def place_of(error: BaseException, kind: str) -> str:
    """`mine/decay.py:14`: where a user's class or function failed, or else where it begins."""
    for frame, line in _frames_within(error, kind):
        return f"{frame.f_code.co_filename}:{line}"
    loaded = pieces.load(kind)
    try:
        _, line = inspect.getsourcelines(loaded)
        return f"{inspect.getsourcefile(loaded)}:{line}"
    except (OSError, TypeError):
        return "compiled code"


def _frames_within(error: BaseException, kind: str) -> list[tuple[FrameType, int]]:
    """Frames of a traceback in the files of a user's code, each with its line, innermost first."""
    files = {str(file) for file in pieces.sources_of(kind).files.values()}
    frames: list[tuple[FrameType, int]] = []
    for frame, line in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename in files:
            frames.append((frame, line))
    return frames[::-1]


def name_piece(piece: object) -> str:
    """`mine.decay:Decay (ScoreBias)`; a layer within fills no seam itself."""
    cls = type(piece)
    names = [base.__name__ for base in cls.__mro__ if base.__module__ == seams.__name__]
    seam = names[0] if names else "Layers"
    return f"{cls.__module__}:{cls.__qualname__} ({seam})"
