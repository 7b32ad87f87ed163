"""Evaluation points, at which variants are compared, and the metrics of a run there."""

from dataclasses import dataclass

from attnexp.runs import predictions
from attnexp.runs.result import RunResult

FIGURES = ("accuracy", "loss", "brier", "ece", "gap")
"""Metrics of an evaluation point. loss is the negative log-likelihood; gap is accuracy on train,
measured after the epoch, minus accuracy: over-fitting in K's sense (C22)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """A moment of training, declared before any run, at which variants are compared."""

    name: str
    about: str
    prediction: str
    """Name of its logits in `predictions`."""


POINTS = {
    "blog": (
        Point(
            name="peak",
            about="the epoch that is best on the test set, as K reports: optimistic",
            prediction=predictions.BEST,
        ),
        Point(name="final", about="the last epoch, on the test set", prediction=predictions.FINAL),
    ),
    "holdout": (
        Point(
            name="chosen",
            about="the epoch chosen on held-out train data; the test set was touched once",
            prediction=predictions.TEST,
        ),
        Point(
            name="final",
            about="the last epoch, on held-out train data",
            prediction=predictions.FINAL,
        ),
    ),
}
"""Evaluation points, keyed by protocol; the point that decides comes first."""


def figures(result: RunResult, point: str) -> dict[str, float]:
    """Metrics of a run at an evaluation point; without `gap` if train was not measured again."""
    row = result.final if point == "final" else result.best
    measured, prefix = (result.test, "") if point == "chosen" else (row, "val_")
    found = {name: getattr(measured, prefix + name) for name in FIGURES if name != "gap"}
    if row.train_accuracy_after is not None:
        found["gap"] = row.train_accuracy_after - found["accuracy"]
    return found
