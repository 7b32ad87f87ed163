"""The metrics of a run: name, unit and direction of each, in this list alone."""

from collections.abc import Iterable
from dataclasses import replace

from attnexp.analysis.group import Group
from attnexp.base.errors import UserError
from attnexp.statistics.defaults import MARGIN
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


def choose_metric(
    name: str | None, margin: float | None, groups: Iterable[Group] = ()
) -> MetricSpec:
    """The metric of this name with a margin in points, else those of the studies, else accuracy and
    the default margin. Raises `UserError` where studies have several, and for a metric that is not
    shown in %."""
    planned_names: set[str] = set()
    planned_margins: set[float] = set()
    for group in groups:
        planned_names |= {study.metric for study in group.studies}
        planned_margins |= {100 * study.margin for study in group.studies}
    if name is None and len(planned_names) > 1:
        listed = ", ".join(sorted(planned_names))
        raise UserError(f"These studies judge several metrics ({listed}). Give --metric.")
    if margin is None and len(planned_margins) > 1:
        listed = ", ".join(f"{points:g}" for points in sorted(planned_margins))
        raise UserError(f"These studies have several margins ({listed} points). Give --margin.")
    name = name or next(iter(planned_names), ACCURACY.name)
    if margin is None:
        margin = next(iter(planned_margins), 100 * MARGIN)
    shares = {metric.name: metric for metric in METRICS if metric.is_share}
    if name not in shares:
        listed = ", ".join(shares)
        raise UserError(f"Judge by {name}? Give --metric one of {listed}.")
    return replace(shares[name], margin=margin / 100)
