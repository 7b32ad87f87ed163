"""Numbers and differences as texts, the same in every table, line and picture."""

import math
from collections.abc import Iterable

from attnexp.analysis.contrasts import NO_BOUNDS, Difference
from attnexp.report import Record
from attnexp.statistics.intervals import Bounds
from attnexp.statistics.verdict import MetricSpec

NONE = "–"  # where there is no number


def format_number(value: float, metric: MetricSpec, sign: str = "") -> str:
    """`81.58` in %; of another metric four decimals, or four digits if large and two if tiny."""
    if math.isnan(value):
        return NONE
    if metric.is_share:
        return format(100 * value, f"{sign}.2f")
    size = abs(value)
    digits = ".4f" if size < 10 else ".4g"
    if 0 < size < 1e-4:
        digits = ".2g"
    return format(value, sign + digits)


def format_span(numbers: Iterable[int], noun: str) -> str:
    """`one seed`, `25,000 seeds`, or `1,000 to 25,000 seeds`."""
    distinct = {*numbers}
    if distinct == {1}:
        return f"one {noun}"
    bounds = sorted({min(distinct), max(distinct)})
    span = " to ".join(f"{number:,}" for number in bounds)
    return f"{span} {noun}s"


def format_mean(row: Record, metric: MetricSpec) -> str:
    """`81.58 ± 0.62`, or the mean alone where the row has no sd, or one of a single seed."""
    mean = format_number(row["mean"], metric)
    sd = row.get("sd", math.nan)
    if math.isnan(sd):
        return mean
    return f"{mean} ± {format_number(sd, metric)}"


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


def intervals_of(row: Difference) -> list[Bounds | None]:
    """The interval that decides, and the wider one; None where there are no finite ends."""
    wider = row.next or row.texts or NO_BOUNDS
    intervals: list[Bounds | None] = []
    for low, high in (row.interval.bounds, wider):
        is_finite = math.isfinite(high - low)
        intervals.append((low, high) if is_finite else None)
    return intervals


def size_of(row: Difference) -> str:
    """The mean of a difference with the interval that decides."""
    deciding, _ = intervals_of(row)
    return format_size(row.interval.mean, deciding, row.metric)


def format_difference(row: Difference) -> dict[str, str]:
    """Every cell that a table can have of a difference, by heading."""
    deciding, wider = [format_interval(bounds, row.metric) for bounds in intervals_of(row)]
    num_stored = f", n = {row.texts_n}" if 0 < row.texts_n < row.interval.n else ""
    p = "<0.001" if row.p < 0.001 else f"{row.p:.3f}"
    return {
        "data": row.data,
        "protocol": row.protocol,
        "at": row.endpoint.label,
        "difference": row.contrast.name,
        "n": str(row.interval.n),
        "data sets": str(row.interval.n),
        "mean": format_number(row.interval.mean, row.metric, "+"),
        "sd": format_number(row.interval.sd, row.metric),
        "other seeds": deciding,
        "95 %": deciding,
        "other texts too": wider + num_stored,
        "next data set": wider,
        "p": NONE if math.isnan(row.p) else p,
        "verdict": row.words,
    }


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
