"""Agreement of a published run with our seeds: could its values be those of one more seed?

If the published run and our n runs have one distribution, a published value lies in the 95 %
prediction interval of one more seed in 95 % of cases. That interval is wider than the confidence
interval of the mean, in which a single run need not lie.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attnexp.statistics.paired import Mean

FEWEST = 3
"""Fewest seeds. With two, the interval reaches fifteen standard deviations to either side."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Agreement:
    """A published value compared with those of our seeds."""

    low: float
    high: float
    """The 95 % prediction interval of one more seed."""
    inside: bool
    distance: float
    """Published value minus our mean, in standard deviations of our seeds."""


def agreement(published: float, ours: Mean) -> Agreement | None:
    """Compare a value with mean ± t(0.975, n - 1) sd sqrt(1 + 1 / n) of our n seeds.

    None with fewer than three seeds, or where these do not differ at all. One more draw of the same
    law was inside in so many % of 100,000 simulated studies each:

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
    """Number of values of each run that are inside, as if it were published, by the other runs.

    The values of one run are correlated, so this number varies more than that of independent ones.
    The result is its distribution where all runs have one law.

    runs: (n, values). Returns n numbers; empty where the others are fewer than three.
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
