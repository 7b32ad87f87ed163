"""The metrics of a run: name, unit and direction of each, in this list alone."""

from collections.abc import Iterable
from dataclasses import replace

from attnexp.analysis.group import Group
from attnexp.base.errors import UserError
from attnexp.statistics.verdict import MetricSpec

METRICS = (
    MetricSpec(name="accuracy"),
    MetricSpec(name="macro_f1"),  # mean over classes of F1
    # mean negative log-likelihood
    MetricSpec(name="loss", is_share=False, higher_is_better=False),
    MetricSpec(name="brier", is_share=False, higher_is_better=False),
    MetricSpec(name="ece", higher_is_better=False),
    # accuracy on train, measured after the epoch, minus accuracy: over-fitting in K's sense
    MetricSpec(name="gap", higher_is_better=False),
)
"""Metrics at an endpoint. Results that lack one are shown without it."""

ACCURACY = METRICS[0]

METRIC_OF_COLUMN = {
    f"{prefix}{metric.name}": metric for prefix in ("", "train_", "val_") for metric in METRICS
}
"""How columns of endpoints and epochs are shown."""


def choose_metric(name: str | None, margin: float, groups: Iterable[Group] = ()) -> MetricSpec:
    """The metric of this name, else the one that studies declare, else accuracy. margin: in points.
    Raises `UserError` where they declare several, and for a metric that is not shown in %."""
    declared: set[str] = set()
    for group in groups:
        declared |= {study.metric for study in group.studies}
    if name is None and len(declared) > 1:
        listed = ", ".join(sorted(declared))
        raise UserError(f"The studies declare several metrics: {listed}. Give one as --metric.")
    chosen = name or next(iter(declared), ACCURACY.name)
    shares = {metric.name: metric for metric in METRICS if metric.is_share}
    if chosen not in shares:
        listed = ", ".join(shares)
        raise UserError(f"Judge by {chosen}? Give --metric one of {listed}.")
    return replace(shares[chosen], margin=margin / 100)
