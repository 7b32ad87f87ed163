"""Metrics of logits: accuracy, loss, and the calibration of their probabilities.

Shapes: n examples, C classes. Logits of two classes are (n,), the log-odds of the second: softmax
over (0, x) is sigmoid of x. Those of more are (n, C)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnexp.runs.predictions import most_probable
from attnexp.runs.result import Evaluation

Array = NDArray[Any]
BINS = 15  # of the calibration error (Guo et al. 2017, section 2)


def measure(logits: Array, labels: Array) -> Evaluation:
    """Metrics of a set of predictions. logits: (n,) or (n, C), finite. labels: (n,), 0 to C - 1.
    loss: mean negative log-likelihood in nats. brier: mean squared distance between probability and
    label, for more than two classes summed over them (Brier 1950). ece: expected calibration error
    of the predicted class, in bins of equal width. macro_f1: mean over classes of `by_class`."""
    right = most_probable(logits) == labels
    log_p = log_probabilities(logits)
    p = np.exp(log_p)
    truth = np.arange(p.shape[1]) == labels[:, None]
    squares = np.square(p - truth)
    brier = squares[:, 1] if logits.ndim == 1 else squares.sum(axis=1)
    confidence = p.max(axis=1)
    # |accuracy - confidence| of a bin times its size is the sum of its differences (equation 3).
    bins = (confidence * BINS).astype(np.intp)
    bins = np.minimum(bins, BINS - 1)
    gaps = np.bincount(bins, weights=right - confidence, minlength=BINS)
    ece = np.abs(gaps).sum() / len(labels)
    _, _, f1, _ = by_class(logits, labels)
    return Evaluation(
        loss=-float(log_p[truth].mean()),
        accuracy=float(right.mean()),
        brier=float(brier.mean()),
        ece=float(ece),
        macro_f1=float(f1.mean()),
        n=len(labels),
    )


def log_probabilities(logits: Array) -> NDArray[np.float64]:
    """Logarithms of the probabilities of the classes, (n, C), of logits (n,) or (n, C)."""
    x = np.asarray(logits, np.float64)
    if x.ndim == 1:
        return -np.logaddexp(0, np.stack([x, -x], axis=1))
    log_sum = np.logaddexp.reduce(x, axis=1, keepdims=True)
    return np.asarray(x - log_sum)


def count_confusions(logits: Array, labels: Array) -> NDArray[np.intp]:
    """Counts of texts by true (row) and predicted class (column): (C, C). Given as to `measure`."""
    num_classes = 2 if logits.ndim == 1 else logits.shape[1]
    predicted = most_probable(logits).astype(np.intp)
    pairs = labels.astype(np.intp) * num_classes + predicted
    counts = np.bincount(pairs, minlength=num_classes**2)
    return counts.reshape(num_classes, num_classes)


def by_class(logits: Array, labels: Array) -> tuple[Array, ...]:
    """Precision, recall and F1 of each class, and its number of texts: four arrays (C,). Given as
    to `measure`. Precision is 0 for a class never predicted, recall for one without texts."""
    confusions = count_confusions(logits, labels)
    num_right = confusions.diagonal()
    num_predicted = confusions.sum(axis=0)
    n = confusions.sum(axis=1)
    precision = num_right / np.maximum(num_predicted, 1)
    recall = num_right / np.maximum(n, 1)
    f1 = 2 * num_right / np.maximum(num_predicted + n, 1)
    return precision, recall, f1, n
