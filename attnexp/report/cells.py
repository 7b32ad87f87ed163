"""Numbers and differences as texts, the same in every table, line and picture."""

import math
from typing import Any, NamedTuple

from attnexp.analysis.contrasts import Difference
from attnexp.statistics.verdict import MetricSpec

NONE = "–"  # where there is no number


def format_number(value: float, metric: MetricSpec, sign: str = "") -> str:
    """`81.58` in %; of another metric four decimals, or four digits of a large number."""
    if math.isnan(value):
        return NONE
    if metric.is_share:
        value *= 100
    digits = ".4f" if abs(value) < 10 else ".4g"
    if metric.in_points:
        digits = ".2f"
    return format(value, sign + digits)


class Mean(NamedTuple):
    """`81.58 ± 0.62`, of which the page shows the second part by itself; the mean alone of one
    seed."""

    mean: str
    sd: str

    def __str__(self) -> str:
        return f"{self.mean} ± {self.sd}" if self.sd else self.mean


def format_mean(row: dict[str, Any], metric: MetricSpec) -> Mean:
    """The mean and sd of a record."""
    sd = "" if math.isnan(row["sd"]) else format_number(row["sd"], metric)
    return Mean(format_number(row["mean"], metric), sd)


def format_interval(bounds: tuple[float, float] | None, metric: MetricSpec) -> str:
    """`[+2.32, +2.73]`, or a dash where there is none."""
    if bounds is None or not all(map(math.isfinite, bounds)):
        return NONE
    low, high = bounds
    lower = format_number(low, metric, "+")
    upper = format_number(high, metric, "+")
    return f"[{lower}, {upper}]"


def format_size(mean: float, low: float, high: float, metric: MetricSpec) -> str:
    """`+2.53 [+2.32, +2.73]`."""
    number = format_number(mean, metric, "+")
    interval = format_interval((low, high), metric)
    return f"{number} {interval}"


def size_of(row: Difference) -> str:
    """The mean of a difference with its interval, for other seeds or data sets."""
    interval = row.interval
    return format_size(interval.mean, interval.low, interval.high, row.metric)


def name_of(row: Difference) -> str:
    """Name of a difference: `pe − none within scaled, final, loss`."""
    parts = [row.contrast.name]
    if row.endpoint.split:
        parts.append(row.endpoint.label)
    if row.metric.name != "accuracy":
        parts.append(row.metric.name)
    return ", ".join(parts)


def describe_padding(share: float) -> str:
    """`padding: 68 %`, the share of all attention that goes there; empty where none does."""
    if share == 0:
        return ""
    if share < 0.005:
        return "padding: below 1 %"
    if share > 0.995:
        return "padding: above 99 %"
    return f"padding: {100 * share:.0f} %"
