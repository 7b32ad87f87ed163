"""What logits are worth: accuracy, and how far their probabilities can be believed.

Shapes: n examples.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnexp.runs.result import Evaluation

BINS = 15
"""Of the calibration error, as in Guo et al. 2017, section 2."""


def measure(logits: NDArray[Any], labels: NDArray[Any]) -> Evaluation:
    """Every figure of a set of predictions. logits, labels: (n,); labels 0 or 1.

    loss: mean negative log-likelihood in nats. accuracy: probability 0.5 counts as negative.
    brier: mean squared distance between probability and label (Brier 1950). ece: expected
    calibration error of the predicted class over 15 bins of equal width. A logit that is no number
    makes all of them NaN.
    """
    x, positive = np.asarray(logits, np.float64), np.asarray(labels) > 0
    if not np.isfinite(x).all():
        nan = float("nan")
        return Evaluation(loss=nan, accuracy=nan, brier=nan, ece=nan, n=len(x))
    loss = np.logaddexp(0, np.where(positive, -x, x))  # -log p(label), without overflow
    right = (x > 0) == positive
    probability = np.exp(-np.logaddexp(0, -x))
    return Evaluation(
        loss=float(loss.mean()),
        accuracy=float(right.mean()),
        brier=float(np.square(probability - positive).mean()),
        ece=_calibration_error(np.maximum(probability, 1 - probability), right),
        n=len(x),
    )


def _calibration_error(confidence: NDArray[np.float64], right: NDArray[np.bool_]) -> float:
    """Mean over examples of |accuracy - confidence| of their bin (Guo et al. 2017, equation 3)."""
    bins = np.minimum((confidence * BINS).astype(np.intp), BINS - 1)
    gaps = np.bincount(bins, weights=right - confidence, minlength=BINS)
    return float(np.abs(gaps).sum() / len(confidence))
