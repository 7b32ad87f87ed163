"""The metrics of a run: name, unit and direction of each, in this list alone."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain

from attnexp.analysis.group import Group
from attnexp.base.errors import UserError, join_names
from attnexp.runs.manifest import Manifest
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
BY_NAME = {metric.name: metric for metric in METRICS}

METRIC_OF_COLUMN = {
    f"{prefix}{metric.name}": metric for prefix in ("", "train_", "val_") for metric in METRICS
}
"""The metric of each column of endpoints and epochs, such as loss of `val_loss`."""


def planned_metric(study: Manifest) -> MetricSpec:
    """The metric and margin of a study."""
    return replace(BY_NAME[study.metric], margin=study.margin)


def choose_metric(
    name: str | None, margin: float | None, groups: Iterable[Group] = ()
) -> MetricSpec:
    """The metric of this name with a margin in points, or in its own unit as that of loss; what is
    not given is that of the studies, else accuracy and the default margin. Raises `UserError` where
    studies differ, for an unknown metric, and for one with a unit of its own and no margin."""
    studies = chain.from_iterable(group.studies for group in groups)
    plans = list(dict.fromkeys(map(planned_metric, studies))) or [ACCURACY]
    if len(plans) > 1 and None in (name, margin):
        raise UserError(f"These studies judge {join_names(plans)}. Give --metric and --margin.")
    plan = plans[0]
    name = name or plan.name
    if name not in BY_NAME:
        raise UserError(f"Judge by {name}? Give --metric one of {', '.join(BY_NAME)}.")
    metric = BY_NAME[name]
    if margin is not None:
        return replace(metric, margin=margin / metric.unit)
    if name == plan.name:
        return plan
    if not metric.is_share:
        raise UserError(
            f"Give --margin, the smallest difference of {name} that matters, in its unit."
        )
    if plan.is_share:  # A margin in points is one of any share.
        return replace(metric, margin=plan.margin)
    return metric
