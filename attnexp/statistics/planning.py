"""Numbers of seeds that are likely to settle an undecided difference: one if it is as large as
measured, one whatever it is. `docs/statistics.md` has simulated rates."""

import math
from bisect import bisect_left
from collections.abc import Callable

import numpy as np
from scipy.special import nctdtr

from attnexp.statistics.defaults import FEWEST_SEEDS
from attnexp.statistics.intervals import anytime_factor, t_factor

POWER = 0.8  # share of studies in which `seeds_if_as_measured` seeds find the difference
Z_90 = 1.28  # 90 % quantile of the normal distribution: 80 % of its values lie within ± 1.28
MOST_SEEDS = 10_000  # largest number of seeds that is proposed


def seeds_if_as_measured(
    mean: float, sd: float, m: int = 1, *, sequential: bool = False
) -> int | None:
    """Fewest seeds whose interval leaves out 0 in four of five studies, if the true difference and
    its standard deviation are as measured; None above 10,000, or where sd is 0 or NaN. m:
    comparisons judged together. sequential: for the anytime-valid interval."""
    if math.isnan(sd) or sd == 0:
        return None
    factor = anytime_factor if sequential else t_factor
    effect = abs(mean) / sd

    def is_enough(n: int) -> bool:
        # The mean in standard errors follows the noncentral t distribution.
        share_missed = nctdtr(n - 1, effect * math.sqrt(n), factor(n, m))
        # scipy returns NaN for some shares below 1e-60.
        return bool(np.nan_to_num(share_missed) <= 1 - POWER)

    return _fewest_seeds(is_enough)


def seeds_at_most(sd: float, margin: float, m: int = 1, *, sequential: bool = False) -> int | None:
    """Fewest seeds with (factor + 1.28) sd ≤ margin √n; None above 10,000, or where sd is NaN. With
    so many seeds a true difference of 0 is found equivalent in four of five studies, and one of a
    margin gets some verdict more often than that. factor: of n and m, as in intervals.py."""
    factor = anytime_factor if sequential else t_factor

    def is_enough(n: int) -> bool:
        half = (factor(n, m) + Z_90) * sd
        return half <= margin * math.sqrt(n)

    return _fewest_seeds(is_enough)


def describe_seeds(n: int, if_as_measured: int | None, at_most: int | None) -> str:
    """`6 to 120 seeds`, `5 or more seeds`, `at most 73 seeds` for a difference that is undecided
    after n seeds; empty where n seeds should have been enough."""
    if at_most is None:
        if if_as_measured is None:
            return f"more than {MOST_SEEDS:,} seeds"
        return f"{if_as_measured:,} or more seeds"
    if at_most <= n:
        return ""
    if if_as_measured is None or if_as_measured >= at_most:
        return f"at most {at_most:,} seeds"
    return f"{if_as_measured:,} to {at_most:,} seeds"


def _fewest_seeds(is_enough: Callable[[int], bool]) -> int | None:
    """Smallest number from three to 10,000 that is enough, where every larger one is as well."""
    fewest = bisect_left(range(MOST_SEEDS + 1), True, lo=FEWEST_SEEDS, key=is_enough)
    return fewest if fewest <= MOST_SEEDS else None
