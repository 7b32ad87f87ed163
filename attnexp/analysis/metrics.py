"""The metrics of a run: name, unit and direction of each, in this list alone."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from attnexp.analysis.group import Group
from attnexp.base.errors import UserError
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
"""How columns of endpoints and epochs are shown."""


def choose_metric(
    name: str | None, margin: float | None, groups: Iterable[Group] = ()
) -> MetricSpec:
    """The metric of this name with a margin in points, or in its own unit as that of loss; else
    those of the studies, else accuracy and the default margin. Raises `UserError` where studies
    have several, for an unknown metric, and for one with a unit of its own and no margin."""
    studies = [study for group in groups for study in group.studies]
    name = name or _agree([study.metric for study in studies], "metric") or ACCURACY.name
    if name not in BY_NAME:
        raise UserError(f"Judge by {name}? Give --metric one of {', '.join(BY_NAME)}.")
    metric = BY_NAME[name]
    if margin is None:
        return replace(metric, margin=_planned_margin(metric, studies))
    return replace(metric, margin=margin / 100 if metric.is_share else margin)


def _planned_margin(metric: MetricSpec, studies: Iterable[Manifest]) -> float:
    """The margin of the studies that judge in the unit of a metric, else its default one."""
    of_this_unit = [
        study.margin for study in studies if BY_NAME[study.metric].is_share == metric.is_share
    ]
    planned: float | None = _agree(of_this_unit, "margin")
    if planned is None and not metric.is_share:
        raise UserError(
            f"Give --margin, the smallest difference of {metric.name} that matters, in its unit."
        )
    return planned or metric.margin


def _agree(values: list[Any], option: str) -> Any:
    """The value that all studies have; None without studies. Raises `UserError` for several."""
    distinct = sorted(set(values))
    if len(distinct) > 1:
        listed = ", ".join(map(str, distinct))
        raise UserError(f"These studies have several {option}s ({listed}). Give --{option}.")
    return distinct[0] if distinct else None
