"""Interval of a difference for other seeds and other texts: both are random, and crossed.

Every seed of two variants answers the same texts. D[seed, text] is 1 where only the variant is
right, -1 where only the baseline is, else 0: a mean, plus random effects of the seed, of the text
and of both together. With S seeds and E texts the mean of D has the variance σ²_seed / S +
σ²_text / E + σ²_rest / (S E). An interval over seeds alone speaks of this test set."""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from attnexp.statistics.defaults import ALPHA
from attnexp.statistics.intervals import Bounds, Floats, Interval


class Crossed(NamedTuple):
    """The mean of D for other seeds and texts."""

    low: float
    high: float
    se: float  # standard error of the mean
    df: float  # Satterthwaite's degrees of freedom


def crossed(d: Floats, *, m: int = 1) -> Crossed | None:
    """The t interval of the mean of D (S, E) at confidence 1 - alpha / m; None below two seeds or
    texts, and where nothing varies.

    Components of variance are those of a two-way analysis of variance, at least 0. With its mean
    squares MS the variance of the mean is (MS_seed + MS_text - MS_rest) / (S E) where none is 0.
    The degrees of freedom are Satterthwaite's ("An Approximate Distribution of Estimates of
    Variance Components", Biometrics Bulletin 2, 1946). `docs/statistics.md` has simulated coverage.
    """
    s, e = d.shape
    if min(s, e) < 2:
        return None
    mean = float(d.mean())
    ms_seed = e * d.mean(axis=1).var(ddof=1)
    ms_text = s * d.mean(axis=0).var(ddof=1)
    df = np.array([s - 1, e - 1, (s - 1) * (e - 1)])
    total = np.sum(d**2) - d.size * mean**2
    ms_rest = max(total - ms_seed * df[0] - ms_text * df[1], 0.0) / df[2]
    # S E times the variance: MS_rest + max(MS_seed - MS_rest, 0) + max(MS_text - MS_rest, 0)
    varies_by_seed = int(ms_seed > ms_rest)
    varies_by_text = int(ms_text > ms_rest)
    weights = np.array([varies_by_seed, varies_by_text, 1 - varies_by_seed - varies_by_text])
    terms = weights * [ms_seed, ms_text, ms_rest]
    variance = float(terms.sum())
    if variance == 0:
        return None
    satterthwaite_df = variance**2 / float(np.sum(terms**2 / df))
    se = math.sqrt(variance / d.size)
    t = float(stdtrit(satterthwaite_df, 1 - ALPHA / (2 * m)))
    half = t * se
    return Crossed(mean - half, mean + half, se, satterthwaite_df)


def widen(texts: Crossed, seeds: Interval) -> Bounds:
    """Bounds for other seeds and texts, never narrower than those for other seeds alone."""
    return min(texts.low, seeds.low), max(texts.high, seeds.high)
