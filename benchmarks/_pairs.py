"""Two things measured side by side, A B A B …, and the ratio within each pair.

Seconds drift, on a busy machine by a factor of two within minutes. Both halves of a pair meet about
the same machine, so their ratio holds where seconds do not.
"""

import os
import statistics
import sys
from collections.abc import Callable, Mapping

Measure = Callable[[], Mapping[str, float]]
"""Does the work once and says how many seconds each part took."""


class Table:
    """Prints a row as soon as it is measured; a ratio above 1 means that ours is faster."""

    def __init__(self, title: str, ours: str) -> None:
        """ours: what stands under the bar of every ratio."""
        cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()
        load = os.getloadavg()[0]
        print(f"{title}\n{cores} cores, load {load:.1f} at the start")
        print(f"\n{'seconds / seconds of ' + ours:42s} part       pairs   min  median    max")

    def add(self, name: str, ours: Measure, peer: Measure, pairs: int) -> None:
        """Measure `pairs` pairs, after one turn of each that is not counted."""
        ours(), peer()
        turns = [(ours(), peer()) for _ in range(pairs)]
        for part in turns[0][0]:
            ratios = [b[part] / a[part] for a, b in turns]
            low, middle, high = min(ratios), statistics.median(ratios), max(ratios)
            print(
                f"{name:42s} {part:10s} {pairs:5d} {low:5.2f} {middle:7.2f} {high:6.2f}", flush=True
            )
            name = ""

    def skip(self, name: str, reason: str) -> None:
        """Say why a row is missing."""
        print(f"{name:42s} skipped: {reason}")
