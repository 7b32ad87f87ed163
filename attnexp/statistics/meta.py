"""One difference measured on several data sets: its mean over data sets, and the next data set's.

Random effects: data set i has a true difference θ_i ~ N(µ, τ²), and a measured one y_i ~ N(θ_i,
se_i²). τ² by Paule and Mandel ("Consensus Values and Weighting Factors", Journal of Research of the
NBS 87, 1982). The interval of µ is Hartung's and Knapp's, and Sidik's and Jonkman's: k - 1 degrees
of freedom, and the standard error times the root of Q / (k - 1), which is 1 by the definition of
that τ², and not let below 1 where τ² is 0 (Röver, Knapp and Friede, BMC Medical Research
Methodology 15:99, 2015). The prediction interval has k - 2 degrees of freedom (Higgins, Thompson
and Spiegelhalter, Journal of the Royal Statistical Society A 172, 2009).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from attnexp.statistics.intervals import t_factor


class Meta(NamedTuple):
    """The difference over data sets."""

    mean: float
    low: float  # of the interval of the mean over data sets like these
    high: float
    next_low: float  # of the prediction interval of the next true difference; NaN below three
    next_high: float
    tau: float  # standard deviation of the true differences between data sets


def random_effects(differences: ArrayLike, errors: ArrayLike, m: int = 1) -> Meta:
    """Combine the difference of each data set with its standard error; two data sets or more. m:
    comparisons that are judged together. Data sets without a verdict should be left out: their
    differences say nothing of the effect."""
    y = np.asarray(differences, dtype=float)
    variances = np.asarray(errors, dtype=float) ** 2
    variances = np.maximum(variances, 1e-18)  # the error of equal differences may be 0
    k = len(y)

    def excess(tau2: float) -> float:
        """Weighted squares about the weighted mean, less the k - 1 that are expected."""
        weights = 1 / (variances + tau2)
        mean = np.average(y, weights=weights)
        squares = weights * (y - mean) ** 2
        return float(squares.sum()) - (k - 1)

    tau2 = 0.0
    if excess(0.0) > 0:
        largest = k * float(np.ptp(y)) ** 2
        tau2 = float(brentq(excess, 0.0, largest))
    weights = 1 / (variances + tau2)
    mean = float(np.average(y, weights=weights))
    se = 1 / math.sqrt(float(weights.sum()))
    half = t_factor(k, m) * se
    next_half = math.nan
    if k > 2:
        next_se = math.sqrt(tau2 + se**2)
        next_half = t_factor(k - 1, m) * next_se
    return Meta(
        mean=mean,
        low=mean - half,
        high=mean + half,
        next_low=mean - next_half,
        next_high=mean + next_half,
        tau=math.sqrt(tau2),
    )
