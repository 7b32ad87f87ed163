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
from scipy.special import stdtrit


class Meta(NamedTuple):
    """The difference over data sets."""

    mean: float
    low: float
    high: float
    """The 95 % interval of the mean over data sets like these."""
    next_low: float
    next_high: float
    """The 95 % prediction interval of the next data set's true difference; NaN below three."""
    tau: float
    """Standard deviation of the true differences between data sets."""


def random_effects(differences: ArrayLike, errors: ArrayLike) -> Meta:
    """Combine the difference of each data set with its standard error; two data sets or more."""
    y, variances = np.asarray(differences, dtype=float), np.asarray(errors, dtype=float) ** 2
    k = len(y)
    variances = np.maximum(variances, 1e-18)  # of equal differences, whose error is 0

    def spread(tau2: float) -> float:
        """Weighted squares about the weighted mean; its expectation at the true τ² is k - 1."""
        w = 1 / (variances + tau2)
        return float((w * (y - (w * y).sum() / w.sum()) ** 2).sum())

    tau2 = 0.0
    if spread(0.0) > k - 1:
        tau2 = float(brentq(lambda t: spread(t) - (k - 1), 0.0, k * float(np.ptp(y)) ** 2))
    w = 1 / (variances + tau2)
    mean = float((w * y).sum() / w.sum())
    se = 1 / math.sqrt(w.sum())
    half = float(stdtrit(k - 1, 0.975)) * se
    ahead = float(stdtrit(k - 2, 0.975)) * math.sqrt(tau2 + se**2) if k > 2 else math.nan
    return Meta(mean, mean - half, mean + half, mean - ahead, mean + ahead, math.sqrt(tau2))
