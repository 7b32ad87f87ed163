"""Memory of this machine, and a check before it is used."""

import os
import sys
from pathlib import Path

from attnexp.base.errors import UserError

CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
"""File with the memory limit of a container; it holds `max` if there is none."""


def of_machine() -> int:
    """Bytes that this process could have; without a limit where the system does not say."""
    try:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError):  # Windows
        physical = sys.maxsize
    try:
        return min(physical, int(CGROUP_LIMIT.read_bytes()))
    except (OSError, ValueError):
        return physical


def check(needed: int, what: str, *, available: int | None = None) -> None:
    """Raise `UserError` where `what` needs more bytes than there are, in all of this machine."""
    available = available or of_machine()
    if needed > available:
        raise UserError(
            f"{what} would take {needed / 1e9:,.1f} GB of memory or more, and there are "
            f"{available / 1e9:,.1f} GB. Give less, or a larger machine."
        )
