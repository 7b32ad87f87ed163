"""The metrics of a run: name, unit and direction of each, in this list alone."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

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
    studies = [study for group in groups for study in group.studies]
    name = name or _agree([study.metric for study in studies], "metric") or ACCURACY.name
    margin = margin or _agree([100 * study.margin for study in studies], "margin") or 100 * MARGIN
    shares = {metric.name: metric for metric in METRICS if metric.is_share}
    if name not in shares:
        listed = ", ".join(shares)
        raise UserError(f"Judge by {name}? Give --metric one of {listed}.")
    return replace(shares[name], margin=margin / 100)


def _agree(values: list[Any], option: str) -> Any:
    """The value that all studies have; None without studies. Raises `UserError` for several."""
    distinct = sorted(set(values))
    if len(distinct) > 1:
        listed = ", ".join(map(str, distinct))
        raise UserError(f"These studies have several {option}s ({listed}). Give --{option}.")
    return distinct[0] if distinct else None
