"""Interval of a difference for other seeds and other texts: both are random, and crossed.

Every seed of two variants answers the same texts. D[seed, text] is 1 where only the variant is
right, -1 where only the baseline is, else 0: a mean, plus a random effect of the seed, of the text,
and of both together. With S seeds and E texts the mean of D has the variance

    σ²_seed / S + σ²_text / E + σ²_rest / (S E)

An interval over seeds alone holds the texts fixed: it speaks of this test set.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from attnexp.statistics.intervals import ALPHA, Interval


class Crossed(NamedTuple):
    """The mean of D for other seeds and texts."""

    low: float
    high: float
    se: float  # standard error of the mean
    df: float  # Satterthwaite's degrees of freedom


def crossed(d: NDArray[np.floating], *, m: int = 1) -> Crossed | None:
    """The t interval of the mean of D (S, E) at confidence 1 - alpha / m; None below two seeds or
    texts, and where nothing varies.

    Components of variance are those of a two-way analysis of variance, at least 0. With the mean
    squares MS their sum is (MS_seed + MS_text - MS_rest) / (S E), whose degrees of freedom are
    Satterthwaite's ("An Approximate Distribution of Estimates of Variance Components", Biometrics
    Bulletin 2, 1946). `docs/statistics.md` has its simulated coverage.
    """
    s, e = d.shape
    if min(s, e) < 2:
        return None
    mean = float(d.mean())
    of_seeds = e * float(((d.mean(1) - mean) ** 2).sum())
    of_texts = s * float(((d.mean(0) - mean) ** 2).sum())
    rest = max(float((d**2).sum()) - s * e * mean**2 - of_seeds - of_texts, 0.0)
    degrees = np.array([s - 1, e - 1, (s - 1) * (e - 1)], dtype=float)
    ms = np.array([of_seeds, of_texts, rest]) / degrees
    terms = np.array([ms[0] > ms[2], ms[1] > ms[2], 0.0])  # components above 0
    terms[2] = 1 - terms[:2].sum()
    variance = float((terms * ms).sum())
    if not variance:
        return None
    df = variance**2 / float(((terms * ms) ** 2 / degrees).sum())
    se = math.sqrt(variance / (s * e))
    half = float(stdtrit(df, 1 - ALPHA / (2 * m))) * se
    return Crossed(mean - half, mean + half, se, df)


def widen(texts: Crossed, seeds: Interval) -> tuple[float, float]:
    """Bounds for other seeds and texts, never narrower than those for other seeds alone."""
    return min(texts.low, seeds.low), max(texts.high, seeds.high)
