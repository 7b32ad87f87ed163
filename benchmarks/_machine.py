"""Name of the processor, and how much of it other processes use (Linux)."""

import ctypes
import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36  # of <linux/prctl.h>


def cpu() -> str:
    """Name of the processor."""
    named = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return named[1] if named else "unknown"


class Others:
    """CPU time that other processes take on some cores, from construction on.

    The load average counts our own processes too. Own processes are this one and all that it has
    started, which must have ended, and have run on these cores alone.
    """

    def __init__(self, cores: Sequence[int]) -> None:
        # so that a server of processes, which its own parent does not wait for, counts as ours
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
        self.names = {f"cpu{core}" for core in cores}
        self.load = os.getloadavg()[0]
        self.started = self._seconds()

    def cores_taken(self) -> float:
        """Mean number of cores that others used; 1.0 is one whole core."""
        wall, taken = (now - then for now, then in zip(self._seconds(), self.started, strict=True))
        return max(0.0, taken / wall)

    def _seconds(self) -> tuple[float, float]:
        """Wall-clock seconds, and CPU seconds of others on these cores."""
        with suppress(ChildProcessError):  # no child is left
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        lines = (line.split() for line in Path("/proc/stat").read_text().splitlines())
        busy = sum(
            sum(int(ticks) for ticks in (*fields[1:4], *fields[6:9]))  # all but idle, iowait, guest
            for fields in lines
            if fields[0] in self.names
        )
        return time.monotonic(), busy / os.sysconf("SC_CLK_TCK") - sum(os.times()[:4])
