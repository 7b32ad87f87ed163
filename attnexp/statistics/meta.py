"""One difference measured on several data sets: its mean over data sets, and the next data set's.

Random effects: data set i of k has a true difference θ_i ~ N(µ, τ²), and a measured one y_i ~
N(θ_i, se_i²). The mean has the weights w_i = 1 / (se_i² + τ²), and the standard error 1 / √Σ w_i.
About it Q = Σ w_i (y_i - mean)².

τ² is that at which Q = k - 1, or 0 where Q is smaller at τ² = 0 (Paule and Mandel, "Consensus
Values and Weighting Factors", Journal of Research of the NBS 87, 1982). The interval of µ is
Hartung's and Knapp's, and Sidik's and Jonkman's: k - 1 degrees of freedom, and the standard error
times √(Q / (k - 1)), which is 1 by that choice, and not let below 1 where τ² is 0 (Röver, Knapp and
Friede, BMC Medical Research Methodology 15:99, 2015). The prediction interval has k - 2 degrees of
freedom (Higgins, Thompson and Spiegelhalter, Journal of the Royal Statistical Society A 172, 2009).
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from attnexp.statistics.intervals import Bounds, Interval, t_factor


def random_effects(
    differences: ArrayLike, errors: ArrayLike, m: int = 1
) -> tuple[Interval, Bounds]:
    """Combine the differences of k data sets, two or more, with their standard errors.

    Returns the interval of µ, whose n is k and whose sd is τ, and the prediction interval of the
    next data set's θ, NaN below three data sets. m: comparisons that are judged together. Data sets
    without a verdict should be left out: their differences say nothing of the effect."""
    y = np.asarray(differences, dtype=float)
    variances = np.asarray(errors, dtype=float) ** 2
    variances = np.maximum(variances, 1e-18)  # the error of equal differences may be 0
    k = len(y)

    def excess(tau2: float) -> float:
        """Q - (k - 1), which falls as τ² grows."""
        weights = 1 / (variances + tau2)
        mean = np.average(y, weights=weights)
        squares = weights * (y - mean) ** 2
        return float(squares.sum()) - (k - 1)

    tau2 = 0.0
    if excess(0.0) > 0:
        from scipy.optimize import brentq  # A report of one data set need not wait for it.

        largest = k * float(np.ptp(y)) ** 2  # Q is below 1 there, so the root lies before it.
        tau2 = float(brentq(excess, 0.0, largest))
    weights = 1 / (variances + tau2)
    mean = float(np.average(y, weights=weights))
    se = 1 / math.sqrt(float(weights.sum()))
    half = t_factor(k, m) * se
    next_half = math.nan
    if k > 2:
        next_se = math.sqrt(tau2 + se**2)
        next_half = t_factor(k - 1, m) * next_se
    interval = Interval(k, mean, math.sqrt(tau2), mean - half, mean + half)
    return interval, (mean - next_half, mean + next_half)
