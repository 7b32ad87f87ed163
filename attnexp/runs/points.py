"""Endpoints, the moments of training at which variants are compared, and a run's metrics there."""

from collections.abc import Sequence
from statistics import fmean

from attnexp.runs.result import RunResult

METRICS = ("accuracy", "loss", "brier", "ece", "gap")
"""Metrics at an endpoint. loss is the negative log-likelihood; gap is accuracy on train, measured
after the epoch, minus accuracy: over-fitting in K's sense (C22)."""

POINTS = {
    "blog": {
        "final": "the last epoch, on the test set",
        "best": "one epoch for all seeds of a variant, the best on average on the test set",
    },
    "holdout": {
        "chosen": "the epoch chosen on held-out train data; the test set was touched once",
        "final": "the last epoch, on held-out train data",
    },
}
"""Description of each endpoint, by protocol and name; the one that decides comes first."""


def best_epoch(runs: Sequence[RunResult]) -> int:
    """The epoch, counted from 1, with the best mean validation accuracy over the seeds of a
    variant; the first of equals. It is a property of the set of runs, not of one run."""
    accuracies = zip(*([row.val_accuracy for row in run.epochs] for run in runs), strict=False)
    means = [fmean(of_epoch) for of_epoch in accuracies]
    return means.index(max(means)) + 1


def metrics_at(result: RunResult, point: str, best: int) -> dict[str, float]:
    """The metrics of one run at an endpoint; no `gap` where train was not measured again.

    best: the `best_epoch` of its variant.
    """
    row = {"final": result.final, "chosen": result.best}.get(point) or result.epochs[best - 1]
    measured, prefix = (result.test, "") if point == "chosen" else (row, "val_")
    found = {name: getattr(measured, prefix + name) for name in METRICS if name != "gap"}
    if row.train_accuracy_after is not None:
        found["gap"] = row.train_accuracy_after - found["accuracy"]
    return found
