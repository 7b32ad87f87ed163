"""The metrics of our runs: name, unit and direction of each, in this list alone."""

import math
from dataclasses import replace

from attnexp.base.errors import UserError
from attnexp.runs.manifest import Manifest
from attnexp.statistics.verdict import MetricSpec

METRICS = (
    MetricSpec(name="accuracy", counts_texts=True),
    MetricSpec(name="macro_f1", counts_texts=True),  # mean over classes of F1
    MetricSpec(name="loss", is_share=False, higher_is_better=False),  # mean cross-entropy, in nats
    MetricSpec(name="brier", is_share=False, higher_is_better=False),  # mean squared error
    MetricSpec(name="ece", higher_is_better=False),  # expected calibration error
    MetricSpec(name="gap", higher_is_better=False),  # accuracy on train, minus accuracy
)
"""Metrics at an endpoint. Results that lack one are shown without it."""

ACCURACY = METRICS[0]
BY_NAME = {metric.name: metric for metric in METRICS}
METRIC_OF_COLUMN = {
    f"{prefix}{metric.name}": metric for prefix in ("", "train_", "val_") for metric in METRICS
}
"""Metrics by the columns of runs, such as loss of `val_loss`."""


def planned_metric(study: Manifest) -> MetricSpec:
    """The metric and margin of a study."""
    return replace(BY_NAME[study.metric], margin=study.margin)


def with_margin(metric: MetricSpec, margin: float | None) -> MetricSpec:
    """The metric with a margin in points, or of no share in its own unit. Raises `UserError`."""
    if metric.is_share and margin is None:
        return metric
    lowest = 0.05 if metric.is_share else 0  # Up to this, a share was meant, not points.
    unit = "points (half a point is 0.5)" if metric.is_share else "its unit"
    if margin is None or not lowest < margin < math.inf:  # nor NaN
        request = f"Give --margin, the smallest difference of {metric.name} that matters"
        raise UserError(f"{request}, in {unit} and above {lowest}.")
    return replace(metric, margin=margin / metric.unit)
