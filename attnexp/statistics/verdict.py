"""The verdict on a difference: what its interval allows to say, and nothing else.

It is about one metric at one endpoint that was declared before any run (say, final test accuracy).
No correction here allows for looking at several metrics and quoting the best.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from attnexp.statistics.intervals import MARGIN

FEWEST_SEEDS = 3
"""Fewest seeds for any verdict."""

HELPS, HURTS, EQUIVALENT, UNDECIDED = "helps", "hurts", "equivalent", "undecided"
ON_THESE_TEXTS = "equivalent on these texts"
TOO_FEW = "too few seeds"


@dataclass(frozen=True, kw_only=True)
class Metric:
    """How a metric is judged and shown."""

    name: str = "accuracy"
    is_share: bool = True
    """Whether values are shown in %, and differences in percentage points."""
    higher_is_better: bool = True
    margin: float = MARGIN
    """Smallest difference that matters, in the metric's own unit."""


def verdict(
    n: int, low: float, high: float, metric: Metric, texts: tuple[float, float] | None = None
) -> str:
    """A word for where the interval of n seeds lies.

        fewer than three seeds            too few seeds
        within ± margin                   equivalent
            but not so for other texts    equivalent on these texts
        beyond 0                          helps, hurts
        else                              undecided

    texts: the interval for other seeds and texts, where it is known.
    """
    if n < FEWEST_SEEDS:
        return TOO_FEW
    if is_within(low, high, metric.margin):
        return EQUIVALENT if texts is None or is_within(*texts, metric.margin) else ON_THESE_TEXTS
    if low <= 0 <= high:
        return UNDECIDED
    return HELPS if (low > 0) is metric.higher_is_better else HURTS


def is_within(low: float, high: float, margin: float) -> bool:
    """Whether the whole interval lies within ± margin."""
    return -margin < low and high < margin


def is_beyond(low: float, high: float, margin: float) -> bool:
    """Whether the whole interval lies beyond the margin, so that an effect is at least so large."""
    return low >= margin or high <= -margin


def is_at_chance(values: ArrayLike, chance: float, num_texts: int) -> bool:
    """Whether the mean accuracy of seeds (n,) is not above that of always guessing the largest
    class by more than its sampling error at 95 %, that of the texts and of the seeds."""
    seeds = np.asarray(values, dtype=float)
    of_seeds = seeds.var(ddof=1) / seeds.size if seeds.size > 1 else 0.0
    error = np.sqrt(chance * (1 - chance) / num_texts + of_seeds)
    return bool(seeds.mean() <= chance + 1.96 * error)
