"""Signals that wait for the end of a step, where training can be put down and taken up again."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)

_asked = threading.Event()
"""Signals are the process's, and so is this."""


class Stopped(KeyboardInterrupt):
    """Raised between two steps: everything is whole."""


@contextmanager
def deferred() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM wait for the next `check`; a second one stops at once.

    A signal that the process ignores stays ignored, and outside of the main thread, where Python
    handles none, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, _ask)
    try:
        yield
        check()  # asked for during what came after the last step
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _asked.clear()


def check() -> None:
    """Raise `Stopped` if a signal has come since."""
    if _asked.is_set():
        raise Stopped


def _ask(number: int, frame: FrameType | None) -> None:
    if _asked.is_set():
        raise KeyboardInterrupt
    _asked.set()
