"""Intervals of the mean of paired differences, and the prediction interval of one more seed.

Runs of two variants with one seed start from the same shared weights and see the same batches, so a
comparison is one vector d_1 ... d_n, variant minus baseline, one number a seed. Differences are in
the units of the metric: an accuracy is a share, so 0.0025 is a quarter of a point.

Several variants compared with one baseline share the error rate (Bonferroni): with m comparisons
every interval has confidence 1 - alpha / m, so that all of them hold together with 1 - alpha.
"""

import math
from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit

ALPHA = 0.05
"""Share of studies in which some interval misses its true difference."""

MARGIN = 0.0025
"""Smallest difference of accuracy that matters, unless the caller says otherwise."""

G = 0.25
"""Parameter of the anytime-valid interval, the same for all studies."""

MOST_SEEDS = 10_000
"""Largest number of seeds that is proposed."""


class Interval(NamedTuple):
    """Mean of n differences with its confidence interval."""

    n: int
    mean: float
    sd: float
    """Sample standard deviation; NaN where n is 1."""
    low: float
    high: float
    """Bounds; infinite where n is too small for any."""


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
    found = np.unique(np.round(np.asarray(values, dtype=float), 12))
    return float(np.diff(found).min()) if len(found) > 1 else abs(float(found[0])) or 1.0


def t_factor(n: int, m: int = 1) -> float:
    """Half-width of the t interval in standard errors; infinite where n is 1."""
    return float(stdtrit(n - 1, 1 - ALPHA / (2 * m))) if n > 1 else math.inf


def anytime_factor(n: int, m: int = 1, g: float = G) -> float:
    """Half-width of the anytime-valid interval in standard errors; infinite for too few seeds."""
    scale = 1 + n * g
    k = (scale / (ALPHA / m) ** 2) ** (1 / n)
    return math.sqrt((n - 1) * (k - 1) / (1 - k / scale)) if k < scale else math.inf


def _around_mean(d: ArrayLike, step: float, factor: Callable[[int], float]) -> Interval:
    values = np.sort(np.asarray(d, dtype=float))  # so that sums do not depend on the order of seeds
    n, mean = values.size, float(values.mean())
    sd = float(values.std(ddof=1)) if n > 1 else math.nan
    width = factor(n)
    half = width * max(sd, step / 2) / math.sqrt(n) if math.isfinite(width) else math.inf
    return Interval(n, mean, sd, mean - half, mean + half)


def p_value(d: ArrayLike, *, m: int = 1, step: float = 0.0) -> float:
    """p-value of the two-sided paired t test of no difference, times m; NaN where n is 1.

    It is at most alpha where 0 is outside `t_interval`, and only there.
    """
    values = np.asarray(d, dtype=float)
    n = values.size
    if n == 1:
        return math.nan
    error = max(float(values.std(ddof=1)), step / 2) / math.sqrt(n)
    if error == 0:
        return float(values.mean() == 0)
    return min(1.0, 2 * m * float(stdtr(n - 1, -abs(float(values.mean())) / error)))


def seeds_wanted(sd: float, margin: float, m: int = 1, *, anytime: bool = False) -> float:
    """Fewest seeds, three or more, whose interval is at most ± margin wide; NaN above 10,000.

    Planned from the spread alone: an observed difference that was singled out for being large is
    probably smaller, so it is not planned with.
    """
    factor = anytime_factor if anytime else t_factor

    def is_enough(n: int) -> bool:
        return factor(n, m) * sd <= margin * math.sqrt(n)

    found = bisect_left(range(MOST_SEEDS + 1), True, lo=3, key=is_enough)
    return found if found <= MOST_SEEDS else math.nan


def prediction_interval(values: ArrayLike) -> tuple[float, float]:
    """The 95 % interval of one more seed: mean ± t(0.975, n - 1) sd sqrt(1 + 1 / n).

    It is wider than the interval of the mean, in which a single run need not lie. NaN with fewer
    than three seeds. One more draw of a normal law was inside in 94.9 to 95.1 % of 100,000
    simulated studies of 3, 5 and 10 seeds, of an exponential law in 92.0 to 93.1 %.
    """
    ours = np.asarray(values, dtype=float)
    if ours.size < 3:
        return math.nan, math.nan
    half = t_factor(ours.size) * float(ours.std(ddof=1)) * math.sqrt(1 + 1 / ours.size)
    return float(ours.mean()) - half, float(ours.mean()) + half


def inside_by_the_others(runs: NDArray[np.float64]) -> list[int]:
    """Number of values of each run that lie in the prediction intervals of all other runs.

    runs: (n, values), four runs or more. The values of one run are correlated, so these counts vary
    more than those of independent values would.
    """
    counts = []
    for i, own in enumerate(runs):
        bounds = [prediction_interval(column) for column in np.delete(runs, i, axis=0).T]
        counts.append(sum(low <= x <= high for x, (low, high) in zip(own, bounds, strict=True)))
    return counts
