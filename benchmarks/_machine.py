"""The machine under a measurement, and who else wanted it (Linux)."""

import os
import re
import time
from collections.abc import Sequence
from pathlib import Path


def cpu() -> str:
    """The processor's name."""
    named = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return named[1] if named else "unknown"


class Others:
    """How much of these cores processes other than ours have taken since this was made.

    The load average cannot say: it counts ours too. Ours are this process and those it waited for,
    which must have run on these cores alone.
    """

    def __init__(self, cores: Sequence[int]) -> None:
        self.names = {f"cpu{core}" for core in cores}
        self.load = os.getloadavg()[0]
        self.started = self._seconds()

    def cores_taken(self) -> float:
        """1.0 for the whole of one core."""
        wall, taken = (now - then for now, then in zip(self._seconds(), self.started, strict=True))
        return max(0.0, taken / wall)

    def _seconds(self) -> tuple[float, float]:
        """By the clock, and of work on these cores that is not ours."""
        lines = (line.split() for line in Path("/proc/stat").read_text().splitlines())
        busy = sum(
            sum(int(ticks) for ticks in (*fields[1:4], *fields[6:9]))  # all but idle, iowait, guest
            for fields in lines
            if fields[0] in self.names
        )
        return time.monotonic(), busy / os.sysconf("SC_CLK_TCK") - sum(os.times()[:4])
