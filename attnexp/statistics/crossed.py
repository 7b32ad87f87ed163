"""Interval of a difference for other seeds and other texts: both are random, and crossed.

Every seed of two variants answers the same texts. D[seed, text] is 1 where only the variant is
right, -1 where only the baseline is, else 0: a mean, plus random effects of the seed, of the text
and of both together. With S seeds and E texts the mean of D has the variance σ²_seed / S +
σ²_text / E + σ²_rest / (S E). An interval over seeds alone speaks of this test set.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from attnexp.statistics.defaults import ALPHA
from attnexp.statistics.intervals import Interval


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
    seed_effects = d.mean(axis=1) - mean
    text_effects = d.mean(axis=0) - mean
    # sums of squares, and from them mean squares
    squares_seed = e * np.sum(seed_effects**2)
    squares_text = s * np.sum(text_effects**2)
    squares_all = np.sum(d**2) - s * e * mean**2
    squares_rest = max(squares_all - squares_seed - squares_text, 0.0)
    df_seed = s - 1
    df_text = e - 1
    df_rest = df_seed * df_text
    ms_seed = squares_seed / df_seed
    ms_text = squares_text / df_text
    ms_rest = squares_rest / df_rest

    # MS_seed + MS_text - MS_rest; the part of an effect that would be negative is taken to be 0
    terms = []
    rest_weight = 1
    for mean_square, df in ((ms_seed, df_seed), (ms_text, df_text)):
        if mean_square > ms_rest:
            terms.append((mean_square, df))
            rest_weight -= 1
    terms.append((rest_weight * ms_rest, df_rest))
    variance = sum(term for term, _ in terms)
    if variance == 0:
        return None
    satterthwaite_df = variance**2 / sum(term**2 / df for term, df in terms)

    se = math.sqrt(variance / (s * e))
    quantile = float(stdtrit(satterthwaite_df, 1 - ALPHA / (2 * m)))
    half = quantile * se
    return Crossed(mean - half, mean + half, se, satterthwaite_df)


def widen(texts: Crossed, seeds: Interval) -> tuple[float, float]:
    """Bounds for other seeds and texts, never narrower than those for other seeds alone."""
    return min(texts.low, seeds.low), max(texts.high, seeds.high)
