"""Signs that differences are not normal, so that the t interval misses more often than it says."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnexp.statistics.intervals import assumed_sd

LARGEST_SKEW = 1.0  # largest absolute skewness that passes for that of a normal law
FEWEST_FOR_SKEW = 6  # seeds; the skewness of three or four says little
FARTHEST_SEED = 3.0  # largest distance from the median, in robust standard deviations
MAD_TO_SD = 1.4826  # standard deviation of a normal law whose median absolute deviation is 1


def is_skewed(d: ArrayLike, *, step: float = 0.0) -> bool:
    """Whether differences d (n,) are skewed, with six seeds or more, or one seed lies far from the
    median. step: as in `t_interval`. `docs/statistics.md` has the rates of error behind it."""
    values = np.asarray(d, dtype=float)
    skew = abs(skewness(values))
    if skew > LARGEST_SKEW and values.size >= FEWEST_FOR_SKEW:
        return True
    distances = np.abs(values - np.median(values))
    median_distance = float(np.median(distances))
    robust_sd = assumed_sd(MAD_TO_SD * median_distance, step)
    return bool(distances.max() > FARTHEST_SEED * robust_sd)


def skewness(values: NDArray[np.floating]) -> float:
    """Third central moment over the cube of the standard deviation; 0 of equal values."""
    deviations = values - values.mean()
    variance = float(np.mean(deviations**2))
    if variance == 0:
        return 0.0
    return float(np.mean(deviations**3) / variance**1.5)
