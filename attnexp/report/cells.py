"""Numbers and differences as texts, the same in every table, line and picture."""

import math
from collections.abc import Iterable

from attnexp.analysis.contrasts import NO_BOUNDS, Difference
from attnexp.report import Record
from attnexp.statistics.intervals import Bounds, Interval
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
    sd = format_number(row.get("sd", math.nan), metric)
    return mean if sd == NONE else f"{mean} ± {sd}"


def format_interval(bounds: Bounds, metric: MetricSpec) -> str:
    """`[+2.32, +2.73]`, or a dash where an end is infinite or none."""
    if not all(map(math.isfinite, bounds)):
        return NONE
    lower, upper = [format_number(end, metric, "+") for end in bounds]
    return f"[{lower}, {upper}]"


def format_size(interval: Interval, metric: MetricSpec) -> str:
    """`+2.53 [+2.32, +2.73]`."""
    mean = format_number(interval.mean, metric, "+")
    return f"{mean} {format_interval(interval.bounds, metric)}"


def wider_bounds(row: Difference) -> Bounds:
    """The wider interval: of a mean for the next data set, else for other seeds and texts."""
    return row.next or row.texts or NO_BOUNDS


def format_difference(row: Difference) -> dict[str, str]:
    """Every cell that a table can have of a difference, by heading."""
    deciding = format_interval(row.interval.bounds, row.metric)
    wider = format_interval(wider_bounds(row), row.metric)
    if 0 < row.texts_n < row.interval.n:
        wider += f", n = {row.texts_n}"
    p = f"{row.p:.3f}"
    if row.p < 0.001:
        p = "<0.001"
    elif math.isnan(row.p):
        p = NONE
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
        "other texts too": wider,
        "next data set": wider,
        "p": p,
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
