"""Intervals of the mean of paired differences, and the prediction interval of one more seed.

A comparison is one vector d_1 ... d_n, variant minus baseline, one number a seed. With m of them
judged together every interval has confidence 1 - alpha / m (Bonferroni), so that all hold together
with 1 - alpha. Units are those of the metric: an accuracy is a share, 0.0025 a quarter of a point.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit

from attnexp.statistics.defaults import ALPHA, G

Floats = NDArray[np.float64]
Bounds = tuple[float, float]  # ends of an interval, the lower one first


class Interval(NamedTuple):
    """Mean of n differences with its confidence interval."""

    n: int
    mean: float
    sd: float  # sample standard deviation; NaN where n is 1
    low: float  # bounds are infinite where n is too small for any
    high: float

    @property
    def bounds(self) -> Bounds:
        """The ends of the interval."""
        return self.low, self.high


def assumed_sd(sd: float, step: float) -> float:
    """Standard deviation that intervals use: at least half a step of the metric. Equal differences
    are not certain ones, for numbers on two neighbouring steps deviate by up to half a step."""
    return max(sd, step / 2)


def _around_mean(d: ArrayLike, step: float, factor: float) -> Interval:
    """Interval of the mean of d whose half-width is factor standard errors."""
    values = np.sort(d)  # so that sums do not depend on the order of seeds
    n = values.size
    mean = float(values.mean())
    sd = float(values.std(ddof=1)) if n > 1 else math.nan
    half = math.inf
    if math.isfinite(factor):  # Infinity times an error of 0 would be NaN.
        error = assumed_sd(sd, step) / math.sqrt(n)
        half = factor * error
    return Interval(n, mean, sd, mean - half, mean + half)


def t_factor(n: int, m: int = 1) -> float:
    """Half-width of the t interval in standard errors; infinite where n is 1."""
    if n == 1:
        return math.inf
    return float(stdtrit(n - 1, 1 - ALPHA / (2 * m)))


def t_interval(d: ArrayLike, *, m: int = 1, step: float = 0.0) -> Interval:
    """mean ± t(1 - alpha / 2m, n - 1) sd / sqrt(n), for a number of seeds fixed beforehand.

    d: (n,). m: comparisons judged together. step: smallest step of the metric, 1/n of an accuracy
    on n texts, for `assumed_sd`."""
    return _around_mean(d, step, t_factor(np.size(d), m))


def anytime_factor(n: int, m: int = 1) -> float:
    """Half-width of the anytime-valid interval in standard errors; infinite for too few seeds."""
    alpha = ALPHA / m
    scale = 1 + n * G
    k = (scale / alpha**2) ** (1 / n)
    if k >= scale:
        return math.inf
    return math.sqrt((n - 1) * (k - 1) / (1 - k / scale))


def anytime_interval(d: ArrayLike, *, m: int = 1, step: float = 0.0) -> Interval:
    """Interval that holds after every seed at once, so that seeds may be added because of results.

    The t confidence sequence of Lai ("On Confidence Sequences", Annals of Statistics 4, 1976) in
    the form of Wang and Ramdas (arXiv 2310.03722). With scale = 1 + n G, alpha = 0.05 / m and
    k = (scale / alpha²)^(1/n) the interval

        mean ± √((n - 1) (k - 1) / (1 - k / scale)) · sd / √n,  infinite where k ≥ scale

    holds the true mean at all n together with probability 1 - alpha, if differences are normal;
    `docs/statistics.md` has simulated error rates. A larger G > 0 narrows it for few seeds and
    large effects. d, m, step: as in `t_interval`."""
    return _around_mean(d, step, anytime_factor(np.size(d), m))


def p_value(d: ArrayLike, *, m: int = 1, step: float = 0.0) -> float:
    """p-value of the two-sided paired t test of no difference, times m; NaN where n is 1. It is at
    most alpha where 0 is outside `t_interval`, and only there. d, m, step: as there."""
    values = np.asarray(d, dtype=float)
    n = values.size
    if n == 1:
        return math.nan
    mean = values.mean()
    error = assumed_sd(values.std(ddof=1), step) / math.sqrt(n)
    if error == 0:
        return float(mean == 0)
    t = abs(mean) / error
    one_sided = float(stdtr(n - 1, -t))
    return min(1.0, 2 * m * one_sided)


def prediction_intervals(runs: ArrayLike) -> tuple[Floats, Floats]:
    """The 95 % interval of one more seed for each of the values of runs (n, values): mean ±
    t(0.975, n - 1) sd sqrt(1 + 1 / n). In 100,000 simulated studies of 3, 5 or 10 seeds one more
    draw was inside in 94.9 to 95.1 % of a normal law, in 92.0 to 93.1 % of an exponential one."""
    seeds = np.asarray(runs, dtype=float)
    n = len(seeds)
    mean = seeds.mean(axis=0)
    half = t_factor(n) * seeds.std(axis=0, ddof=1) * math.sqrt(1 + 1 / n)
    return mean - half, mean + half


def count_inside(values: Floats, runs: Floats) -> int:
    """How many values (values,) lie in the prediction intervals of other runs (n, values)."""
    low, high = prediction_intervals(runs)
    is_inside = (low <= values) & (values <= high)
    return int(is_inside.sum())


def smallest_step(values: ArrayLike, is_share: bool = False) -> float:
    """Smallest difference between two values of a metric, its step where the number of texts is
    unknown; of equal values their size, or 1 if that is 0. is_share: 1 counts as a value, too."""
    numbers = np.asarray(values, dtype=float)
    distinct = np.unique(round_to_scale(numbers, numbers))
    if is_share:
        distinct = np.union1d(distinct, 1.0)
    if len(distinct) == 1:
        return abs(float(distinct[0])) or 1.0
    return float(np.diff(distinct).min())


def round_to_scale(numbers: Floats, values: Floats) -> Floats:
    """Numbers rounded to twelve digits of the largest of the values from which they were computed,
    so that equal differences stay equal despite rounding errors."""
    largest = np.abs(values).max(initial=0.0)
    exponent = math.ceil(math.log10(largest)) if largest else 0
    decimals = min(12 - exponent, 300)  # 10^309 is no float
    return numbers.round(decimals)
