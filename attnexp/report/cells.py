"""Numbers and differences as texts, the same in every table, line and picture."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from attnexp.analysis.contrasts import Difference
from attnexp.statistics.intervals import Bounds
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


def format_span(numbers: Iterable[int]) -> str:
    """`25,000`, or `1,000 to 25,000`."""
    distinct = sorted({*numbers})
    bounds = dict.fromkeys([distinct[0], distinct[-1]])
    return " to ".join(f"{number:,}" for number in bounds)


class Mean(NamedTuple):
    """`81.58 ± 0.62`, or the mean alone of one seed; the page shows the two apart."""

    mean: str
    sd: str

    def __str__(self) -> str:
        return f"{self.mean} ± {self.sd}" if self.sd else self.mean


def format_mean(row: dict[str, Any], metric: MetricSpec) -> Mean:
    """The mean and sd of a record."""
    sd = "" if math.isnan(row["sd"]) else format_number(row["sd"], metric)
    return Mean(format_number(row["mean"], metric), sd)


def format_interval(bounds: Bounds | None, metric: MetricSpec) -> str:
    """`[+2.32, +2.73]`, or a dash where there is none."""
    if bounds is None:
        return NONE
    low, high = bounds
    lower = format_number(low, metric, "+")
    upper = format_number(high, metric, "+")
    return f"[{lower}, {upper}]"


def format_size(mean: float, bounds: Bounds | None, metric: MetricSpec) -> str:
    """`+2.53 [+2.32, +2.73]`."""
    number = format_number(mean, metric, "+")
    return f"{number} {format_interval(bounds, metric)}"


def bounds_of(row: Difference) -> list[Bounds | None]:
    """The interval that decides, and the wider one: for other texts, or for the next data set."""
    return [row.interval.bounds, row.next if row.is_mean else row.texts]


def clip_interval(row: Difference, bounds: Bounds | None) -> Bounds | None:
    """An interval of a difference, cut where a difference can be no larger: at ±100 points of two
    variants, ±200 of an interaction. None where its ends are infinite."""
    if bounds is None or not all(map(math.isfinite, bounds)):
        return None
    if not row.metric.in_points:
        return bounds
    largest = row.metric.whole * sum(map(abs, row.contrast.weights.values())) / 2
    low, high = bounds
    return max(low, -largest), min(high, largest)


def is_cut(row: Difference) -> bool:
    """Whether an interval goes beyond what a difference can be."""
    return any(clip_interval(row, bounds) not in (None, bounds) for bounds in bounds_of(row))


def size_of(row: Difference) -> str:
    """The mean of a difference with the interval that decides."""
    deciding, _ = bounds_of(row)
    return format_size(row.interval.mean, clip_interval(row, deciding), row.metric)


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
    return f"padding: {100 * share:.0f} %" if share else ""
