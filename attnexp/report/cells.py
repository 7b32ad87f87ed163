"""Numbers and differences as texts, the same in every table, line and picture."""

import math

from attnexp.analysis.answer import MeanDifference
from attnexp.analysis.contrasts import Difference
from attnexp.statistics.verdict import MetricSpec

AnyDifference = Difference | MeanDifference

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


def format_mean(mean: float, sd: float, metric: MetricSpec) -> str:
    """`81.58 ± 0.62`; the mean alone of one seed."""
    text = format_number(mean, metric)
    if math.isnan(sd):
        return text
    return f"{text} ± {format_number(sd, metric)}"


def format_interval(low: float, high: float, metric: MetricSpec) -> str:
    """`[+2.32, +2.73]`, or a dash where there is none."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return NONE
    lower = format_number(low, metric, "+")
    upper = format_number(high, metric, "+")
    return f"[{lower}, {upper}]"


def format_texts_interval(row: Difference) -> str:
    """The interval for other texts too, or a dash where it is not known."""
    return format_interval(*row.texts, row.metric) if row.texts else NONE


def format_size(mean: float, low: float, high: float, metric: MetricSpec) -> str:
    """`+2.53 [+2.32, +2.73]`."""
    number = format_number(mean, metric, "+")
    interval = format_interval(low, high, metric)
    return f"{number} {interval}"


def size_of(row: AnyDifference) -> str:
    """The mean of a difference with its interval, for other seeds or data sets."""
    interval = row.interval
    return format_size(interval.mean, interval.low, interval.high, row.metric)


def name_of(row: AnyDifference) -> str:
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
