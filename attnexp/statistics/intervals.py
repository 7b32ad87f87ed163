"""Intervals of the mean of paired differences, and the prediction interval of one more seed.

Runs of two variants with one seed start from the same shared weights and see the same batches, so a
comparison is one vector d_1 ... d_n, variant minus baseline, one number a seed. Differences are in
the units of the metric: an accuracy is a share, so 0.0025 is a quarter of a point.

Several variants compared with one baseline share the error rate (Bonferroni): with m comparisons
every interval has confidence 1 - alpha / m, so that all of them hold together with 1 - alpha.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit

from attnexp.statistics.defaults import ALPHA, G


class Interval(NamedTuple):
    """Mean of n differences with its confidence interval."""

    n: int
    mean: float
    sd: float  # sample standard deviation; NaN where n is 1
    low: float  # bounds are infinite where n is too small for any
    high: float


def t_interval(d: ArrayLike, *, m: int = 1, step: float = 0.0) -> Interval:
    """mean ± t(1 - alpha / 2m, n - 1) sd / sqrt(n), for a number of seeds fixed beforehand.

    d: (n,). m: comparisons with one baseline. step: smallest step of the metric, 1/n of an accuracy
    on n texts. Equal differences are not certain ones: numbers that lie on one of two neighbouring
    steps have a standard deviation of up to half a step, so at least that much is assumed.
    """
    return _around_mean(d, step, lambda n: t_factor(n, m))


def anytime_interval(d: ArrayLike, *, m: int = 1, step: float = 0.0, g: float = G) -> Interval:
    """Interval that holds after every seed at once, so that seeds may be added because of results.

    The t confidence sequence of Lai ("On Confidence Sequences", Annals of Statistics 4, 1976) in
    the form of Wang and Ramdas (arXiv 2310.03722). With G = 1 + n g and K = (G / alpha²)^(1/n),

        interval = m ± s / √n √((n - 1) (K - 1) / (1 - K / G)),  infinite where K ≥ G

    holds the true mean at all n together with probability 1 - alpha, if differences are normal. A
    larger g > 0 narrows the interval for few seeds and large effects, a smaller one for many. There
    is no maximum n and nothing is planned but g, alpha and the margin; who looked before, and why
    seeds were added, does not matter. `docs/statistics.md` has simulated error rates.

    d: (n,). m, step: as in `t_interval`; alpha is divided by m.
    """
    return _around_mean(d, step, lambda n: anytime_factor(n, m, g))


def smallest_step(values: ArrayLike) -> float:
    """Smallest difference between two values of a metric, where the number of texts is unknown; of
    equal values the value itself, or 1."""
    distinct = np.unique(round_to_scale(values, values))
    if len(distinct) > 1:
        return float(np.diff(distinct).min())
    return abs(float(distinct[0])) or 1.0


def round_to_scale(numbers: ArrayLike, values: ArrayLike) -> NDArray[np.float64]:
    """Numbers rounded twelve digits below the largest absolute value of those from which they were
    computed, so that equal differences stay equal despite rounding errors."""
    largest = float(np.abs(np.asarray(values, dtype=float)).max(initial=0.0))
    exponent = math.ceil(math.log10(largest)) if largest else 0
    decimals = min(12 - exponent, 300)  # 10^309 is no float
    return np.round(np.asarray(numbers, dtype=float), decimals)


def t_factor(n: int, m: int = 1) -> float:
    """Half-width of the t interval in standard errors; infinite where n is 1."""
    return float(stdtrit(n - 1, 1 - ALPHA / (2 * m))) if n > 1 else math.inf


def anytime_factor(n: int, m: int = 1, g: float = G) -> float:
    """Half-width of the anytime-valid interval in standard errors; infinite for too few seeds."""
    scale = 1 + n * g
    k = (scale / (ALPHA / m) ** 2) ** (1 / n)
    return math.sqrt((n - 1) * (k - 1) / (1 - k / scale)) if k < scale else math.inf


def assumed_sd(sd: float, step: float) -> float:
    """Standard deviation that intervals use: at least half a step of the metric."""
    return max(sd, step / 2)


def p_value(d: ArrayLike, *, m: int = 1, step: float = 0.0) -> float:
    """p-value of the two-sided paired t test of no difference, times m; NaN where n is 1.

    It is at most alpha where 0 is outside `t_interval`, and only there.
    """
    values = np.asarray(d, dtype=float)
    n = values.size
    if n == 1:
        return math.nan
    mean = float(values.mean())
    error = assumed_sd(float(values.std(ddof=1)), step) / math.sqrt(n)
    if error == 0:
        return float(mean == 0)
    one_sided = float(stdtr(n - 1, -abs(mean) / error))
    return min(1.0, 2 * m * one_sided)


def prediction_interval(values: ArrayLike) -> tuple[float, float]:
    """The 95 % interval of one more seed: mean ± t(0.975, n - 1) sd sqrt(1 + 1 / n).

    It is wider than the interval of the mean, in which a single run need not lie. NaN with fewer
    than three seeds. One more draw of a normal law was inside in 94.9 to 95.1 % of 100,000
    simulated studies of 3, 5 and 10 seeds, of an exponential law in 92.0 to 93.1 %.
    """
    seeds = np.asarray(values, dtype=float)
    n = seeds.size
    if n < 3:
        return math.nan, math.nan
    mean = float(seeds.mean())
    half = t_factor(n) * float(seeds.std(ddof=1)) * math.sqrt(1 + 1 / n)
    return mean - half, mean + half


def inside_by_the_others(runs: NDArray[np.float64]) -> list[int]:
    """Number of values of each run that lie in the prediction intervals of all other runs.

    runs: (n, values), four runs or more. The values of one run are correlated, so these counts vary
    more than those of independent values would.
    """
    counts = []
    for index, run in enumerate(runs):
        others = np.delete(runs, index, axis=0)
        bounds = np.array([prediction_interval(column) for column in others.T])
        is_inside = (bounds[:, 0] <= run) & (run <= bounds[:, 1])
        counts.append(int(is_inside.sum()))
    return counts


def _around_mean(d: ArrayLike, step: float, factor: Callable[[int], float]) -> Interval:
    """Interval of the mean of d whose half-width is factor(n) standard errors."""
    values = np.sort(np.asarray(d, dtype=float))  # so that sums do not depend on the order of seeds
    n = values.size
    mean = float(values.mean())
    sd = float(values.std(ddof=1)) if n > 1 else math.nan
    half = factor(n)
    if math.isfinite(half):
        half *= assumed_sd(sd, step) / math.sqrt(n)
    return Interval(n, mean, sd, mean - half, mean + half)
