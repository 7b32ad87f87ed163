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

SHARES = {metric.name for metric in METRICS if metric.is_share}
SHARES |= {f"{measured}_{name}" for measured in ("train", "val") for name in SHARES}
"""Columns of endpoints and epochs that are shown in %."""


def choose_metric(name: str | None, margin: float, groups: Iterable[Group] = ()) -> MetricSpec:
    """The metric of this name, else the one that studies declare, else accuracy. margin: in points.
    Raises `UserError` where they declare several, and for a metric that is not shown in %."""
    declared = {study.metric for group in groups for study in group.studies}
    names = [name] if name else sorted(declared or {ACCURACY.name})
    shares = {metric.name: metric for metric in METRICS if metric.is_share}
    if len(names) > 1 or names[0] not in shares:
        raise UserError(f"Judge by {' or '.join(names)}? Give --metric one of {', '.join(shares)}.")
    return replace(shares[names[0]], margin=margin / 100)


def format_margin(metric: MetricSpec) -> str:
    """The margin in the unit of the tables: `0.25`."""
    return f"{100 * metric.margin if metric.is_share else metric.margin:.4g}"
