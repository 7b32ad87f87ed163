"""The metrics of a run: name, unit and direction of each, in this list alone."""

from attnexp.statistics.verdict import MetricSpec

METRICS = (
    MetricSpec(name="accuracy"),
    # mean negative log-likelihood
    MetricSpec(name="loss", is_share=False, higher_is_better=False),
    MetricSpec(name="brier", is_share=False, higher_is_better=False),
    MetricSpec(name="ece", higher_is_better=False),
    # accuracy on train, measured after the epoch, minus accuracy: over-fitting in K's sense
    MetricSpec(name="gap", higher_is_better=False),
)
"""Metrics at an endpoint. Results that lack one are shown without it."""

ACCURACY = METRICS[0]

SHARES = {
    f"{prefix}{metric.name}"
    for prefix in ("", "train_", "val_")
    for metric in METRICS
    if metric.is_share
}
"""Columns of endpoints and epochs that are shown in %."""


def format_margin(metric: MetricSpec) -> str:
    """The margin in the unit of the tables: `0.25`."""
    return f"{100 * metric.margin if metric.is_share else metric.margin:.4g}"
