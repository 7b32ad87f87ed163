"""Whether figures published elsewhere could be those of one more of our seeds.

A published run is one draw, ours are n. If both come from one law, the published figure lies in the
95 % prediction interval of one more seed in 95 % of cases. That is wider than the mean's confidence
interval, where a single run need not lie.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attnexp.statistics.paired import Mean

FEWEST = 3
"""Seeds. With two, the interval reaches fifteen standard deviations to either side."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Agreement:
    """A published figure among those of our seeds."""

    low: float
    high: float
    """The 95 % prediction interval of one more seed."""
    inside: bool
    distance: float
    """From our mean, in standard deviations of our seeds; below 0 where ours are larger."""


def agreement(published: float, ours: Mean) -> Agreement | None:
    """Hold a figure against mean ± t(0.975, n - 1) sd sqrt(1 + 1 / n), where n seeds gave ours.

    None with fewer than three seeds, or where these do not differ at all. Of 100,000 simulated
    studies each, in so many % one more draw of the same law was inside:

        n                           3     5    10
        normal                   95.0  95.1  94.9
        exponential              92.0  92.3  93.1
        lognormal                90.6  90.7  92.1

    `pytest -m slow -s tests/statistics/test_agreement.py` makes the table.
    """
    from scipy.special import stdtrit

    if ours.n < FEWEST or not ours.sd:
        return None
    half = float(stdtrit(ours.n - 1, 0.975)) * ours.sd * math.sqrt(1 + 1 / ours.n)
    low, high = ours.mean - half, ours.mean + half
    return Agreement(
        low=low,
        high=high,
        inside=low <= published <= high,
        distance=(published - ours.mean) / ours.sd,
    )


def leave_one_out(runs: Sequence[Sequence[float]]) -> list[int]:
    """How many figures of each run are inside, were it published and the others our seeds.

    The figures of one run move together, so the number of a run's figures that are inside spreads
    more than that of independent ones. This is its distribution where the law is certainly one.

    runs: (n, figures). Returns n numbers; empty where the others are fewer than three.
    """
    from scipy.special import stdtrit

    if len(runs) <= FEWEST:
        return []
    ours = np.array(runs) - np.mean(runs, axis=0)
    n = len(ours) - 1
    means = -ours / n  # of the others, as all sum to 0
    squares = (ours**2).sum(axis=0)
    variances = (squares - ours**2 - n * means**2) / (n - 1)
    differ = variances > 1e-12 * squares  # rounding leaves that much of others that are equal
    half = stdtrit(n - 1, 0.975) * np.sqrt((1 + 1 / n) * np.maximum(variances, 0))
    inside: list[int] = (differ & (np.abs(ours - means) <= half)).sum(axis=1).tolist()
    return inside
