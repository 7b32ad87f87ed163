"""Interval of a difference for other seeds and other texts: both are random, and crossed.

Every seed of two variants answers the same texts. D[seed, text] is 1 where only the variant is
right, -1 where only the baseline is, else 0: a mean, plus a random effect of the seed, of the text,
and of both together. With S seeds and E texts the mean of D has the variance

    σ²_seed / S + σ²_text / E + σ²_rest / (S E)

An interval over seeds alone holds the texts fixed: it speaks of this test set.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, kw_only=True, slots=True)
class Crossed:
    """The mean of D for other seeds and texts, and where its uncertainty comes from."""

    low: float
    high: float
    """The 95 % interval of the mean."""
    se: float
    """Standard error of the mean."""
    se_seeds: float
    se_texts: float
    """Parts of it: by seeds alone and by texts alone."""
    df: float
    """Satterthwaite's degrees of freedom."""
    num_texts: int


@dataclass(kw_only=True, slots=True)
class Sums:
    """What is kept of D, row by row, so that it is never held as a whole."""

    by_seed: list[float] = field(default_factory=list)
    """Sum of D over the texts, of each seed."""
    by_text: NDArray[np.int64] | int = 0
    """Sum of D over the seeds, (E,)."""
    squares: float = 0.0
    """Sum of D²."""

    def add(self, variant_right: ArrayLike, baseline_right: ArrayLike) -> None:
        """Add a seed: which texts (E,) both have right."""
        d = np.asarray(variant_right, dtype=np.int8) - np.asarray(baseline_right, dtype=np.int8)
        self.by_seed.append(float(d.sum(dtype=np.int64)))
        self.by_text = self.by_text + d.astype(np.int64)
        self.squares += float(np.count_nonzero(d))


def crossed(by_seed: ArrayLike, by_text: ArrayLike, squares: float) -> Crossed | None:
    """The t interval of the mean of D, from the sums of `Sums`; None below two seeds or texts,
    and where nothing varies.

    Components of variance are those of a two-way analysis of variance, at least 0. With the mean
    squares MS their sum is (MS_seed + MS_text - MS_rest) / (S E), whose degrees of freedom are
    Satterthwaite's ("An Approximate Distribution of Estimates of Variance Components", Biometrics
    Bulletin 2, 1946). `docs/statistics.md` has its simulated coverage.
    """
    from scipy.special import stdtrit

    rows, columns = np.asarray(by_seed, dtype=float), np.asarray(by_text, dtype=float)
    s, e = rows.size, columns.size
    if min(s, e) < 2:
        return None
    mean = rows.sum() / (s * e)
    ms, degrees = _mean_squares(rows, columns, squares)
    terms = np.array([ms[0] > ms[2], ms[1] > ms[2], 0.0])  # components above 0
    terms[2] = 1 - terms[:2].sum()
    variance = float((terms * ms).sum())
    if not variance:
        return None
    df = variance**2 / float(((terms * ms) ** 2 / degrees).sum())
    se = math.sqrt(variance / (s * e))
    half = float(stdtrit(df, 0.975)) * se
    components = np.maximum(ms[:2] - ms[2], 0) / (s * e)
    return Crossed(
        low=float(mean - half),
        high=float(mean + half),
        se=se,
        se_seeds=math.sqrt(components[0]),
        se_texts=math.sqrt(components[1]),
        df=df,
        num_texts=e,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Spread:
    """A standard deviation with its 95 % interval."""

    sd: float
    low: float
    high: float


def spread(y: ArrayLike) -> Spread:
    """Standard deviation of one source of chance while all others are fixed.

    y: (points, values): a metric at several points, which fix all other sources, each crossed with
    the same values of this source; two of both or more. The interval is by chi², with
    Satterthwaite's degrees of freedom.
    """
    from scipy.special import chdtri

    table = np.asarray(y, dtype=float)
    table = table - table.mean()
    ms, degrees = _mean_squares(table.sum(1), table.sum(0), float((table**2).sum()))
    parts = np.array([0, 1, len(table) - 1]) / len(table) * ms
    variance = float(parts.sum())
    if not variance:
        return Spread(sd=0.0, low=0.0, high=0.0)
    df = variance**2 / float((parts**2 / degrees).sum())
    low, high = (math.sqrt(df * variance / float(chdtri(df, tail))) for tail in (0.025, 0.975))
    return Spread(sd=math.sqrt(variance), low=low, high=high)


def _mean_squares(
    rows: NDArray[np.float64], columns: NDArray[np.float64], squares: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean squares of rows, columns and the rest of a matrix, and their degrees of freedom, from
    its sums and its sum of squares."""
    s, e = rows.size, columns.size
    mean = rows.sum() / (s * e)
    of_rows = ((rows / e - mean) ** 2).sum() * e
    of_columns = ((columns / s - mean) ** 2).sum() * s
    rest = max(squares - s * e * mean**2 - of_rows - of_columns, 0.0)
    degrees = np.array([s - 1, e - 1, (s - 1) * (e - 1)], dtype=float)
    return np.array([of_rows, of_columns, rest]) / degrees, degrees
