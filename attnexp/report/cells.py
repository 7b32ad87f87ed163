"""Numbers and differences as texts, the same in every table, line and picture."""

import math
from collections.abc import Sequence

from attnexp.analysis.answer import MeanDifference
from attnexp.analysis.contrasts import Difference
from attnexp.analysis.metrics import format_margin
from attnexp.statistics.verdict import MetricSpec

NONE = "–"
"""Where there is no number."""


def format_number(value: float, is_share: bool, sign: str = "") -> str:
    """`81.58` of a share, in %; of another metric four decimals, or four digits of a large one."""
    if math.isnan(value):
        return NONE
    if is_share:
        return f"{100 * value:{sign}.2f}"
    return f"{value:{sign}.4f}" if abs(value) < 10 else f"{value:{sign}.4g}"


def format_mean(mean: float, sd: float, is_share: bool) -> str:
    """`81.58 ± 0.62`; the mean alone of one seed."""
    text = format_number(mean, is_share)
    return text if math.isnan(sd) else f"{text} ± {format_number(sd, is_share)}"


def format_interval(low: float, high: float, is_share: bool) -> str:
    """`[+2.32, +2.73]`, or a dash where there is none."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return NONE
    return f"[{format_number(low, is_share, '+')}, {format_number(high, is_share, '+')}]"


def format_p(p: float) -> str:
    """`0.012`, or a dash where there is none."""
    if math.isnan(p):
        return NONE
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def format_texts_interval(row: Difference) -> str:
    """The interval for other texts too, or a dash where it is not known."""
    return format_interval(*row.texts, row.metric.is_share) if row.texts else NONE


def format_size(mean: float, low: float, high: float, is_share: bool) -> str:
    """`+2.53 [+2.32, +2.73]`."""
    return f"{format_number(mean, is_share, '+')} {format_interval(low, high, is_share)}"


def size_of(row: Difference) -> str:
    """The mean of a difference with its interval for other seeds."""
    interval = row.interval
    return format_size(interval.mean, interval.low, interval.high, row.metric.is_share)


def name_of(row: Difference | MeanDifference) -> str:
    """Name of a difference: `pe − none within scaled, final, loss`."""
    parts = [row.contrast.name]
    if row.endpoint.split:
        parts.append(row.endpoint.label)
    if row.metric.name != "accuracy":
        parts.append(row.metric.name)
    return ", ".join(parts)


def format_margins(metrics: Sequence[MetricSpec]) -> str:
    """`margin ±0.25`; of several metrics with different margins each with its name."""
    margins = {metric.name: f"±{format_margin(metric)}" for metric in metrics}
    if len(set(margins.values())) == 1:
        return f"margin {next(iter(margins.values()))}"
    return f"margins {', '.join(f'{name} {margin}' for name, margin in margins.items())}"
