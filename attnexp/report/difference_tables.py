"""Tables of differences over seeds and over data sets."""

import math
from collections.abc import Callable, Sequence

from attnexp.analysis.contrasts import Difference
from attnexp.analysis.endpoints import RESULT
from attnexp.analysis.metrics import ACCURACY
from attnexp.base.errors import UserError
from attnexp.report.cells import (
    NONE,
    clip_interval,
    format_interval,
    format_number,
    format_span,
    is_cut,
)
from attnexp.report.table import Table
from attnexp.statistics.intervals import Bounds
from attnexp.statistics.verdict import MetricSpec

COLUMNS: dict[str, Callable[[Difference], str]] = {
    "data": lambda row: row.data,
    "protocol": lambda row: row.protocol,
    "at": lambda row: row.endpoint.label,
    "metric": lambda row: row.metric.name,
    "difference": lambda row: row.contrast.name,
    "n": lambda row: str(row.interval.n),
    "data sets": lambda row: str(row.interval.n),
    "mean": lambda row: format_number(row.interval.mean, row.metric, "+"),
    "sd": lambda row: format_number(row.interval.sd, row.metric),
    "other seeds": lambda row: _format_bounds(row, row.interval.bounds),
    "95 %": lambda row: _format_bounds(row, row.interval.bounds),
    "other texts too": lambda row: _format_texts(row),
    "next data set": lambda row: _format_bounds(row, row.next),
    "p": lambda row: _format_p(row.p),
    "verdict": lambda row: row.words,
}
"""How each column of a table of differences is printed."""

ABOUT = ["data", "protocol", "at", "metric", "difference"]

VERDICT = [*ABOUT, "n", "mean", "other seeds", "other texts too", "verdict"]
"""Columns of the default answer."""

WITHIN = [*ABOUT, "mean", "other seeds", "verdict"]
OVER_DATA = [*ABOUT[1:], "data sets", "mean", "95 %", "next data set", "verdict"]
QUOTED = [*ABOUT, "n", "mean", "sd", "other seeds", "other texts too", "p"]
"""Every number of a difference: what a paper quotes."""


def tabulate_differences(
    rows: Sequence[Difference], headings: Sequence[str] = VERDICT, subject: str = "Difference"
) -> Table:
    """Differences: what they are about, then numbers. Raises `UserError` without rows."""
    if not rows:
        raise UserError("No two variants, data sets, or levels of two factors are compared here.")
    columns = {heading: COLUMNS[heading] for heading in headings}
    if rows[0].is_mean:
        subject = f"Mean {subject.lower()}"
    names = {row.metric.name for row in rows}
    if len(names) == 1 and ACCURACY.name not in names:
        subject += f" in {names.pop()}"
    baselines = {row.contrast.baseline_level for row in rows}
    if len(baselines) == 1:
        subject += f" from {baselines.pop()}"
        columns["difference"] = lambda row: row.contrast.short_name
    if rows[0].is_mean:
        subject += f" over {format_span(row.interval.n for row in rows)} data sets"
    return Table(title=subject + _describe_rows(rows), rows=rows, columns=columns)


def _format_texts(row: Difference) -> str:
    """The interval for other texts too, with its n where it rests on fewer seeds."""
    text = _format_bounds(row, row.texts)
    if 0 < row.texts_n < row.interval.n:
        text += f", n = {row.texts_n}"
    return text


def _format_bounds(row: Difference, bounds: Bounds | None) -> str:
    return format_interval(clip_interval(row, bounds), row.metric)


def _format_p(p: float) -> str:
    """`0.012`, or a dash where there is none."""
    if math.isnan(p):
        return NONE
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _describe_rows(rows: Sequence[Difference]) -> str:
    """What all differences have in common: ` at final in points, margin ±0.25, 95 % intervals`; and
    how many are judged together, of families of different sizes in the largest."""
    text = ""
    labels = {row.endpoint.label for row in rows} - {RESULT.label}
    if len(labels) == 1:
        text += f" at {labels.pop()}"
    metrics = list(dict.fromkeys(row.metric for row in rows))
    if all(metric.in_points for metric in metrics):
        text += " in points"
    text += f", {_describe_margins(metrics)}, "
    if all(row.sequential for row in rows):
        text += "anytime-valid "
    text += "95 % intervals"
    sizes = {row.m for row in rows}
    if sizes != {1}:
        bound = "all" if len(sizes) == 1 else "up to"
        text += f", {bound} {max(sizes)} together"
    if any(map(is_cut, rows)):
        text += ", cut at the largest possible: the data are too few"
    return text


def _describe_margins(metrics: Sequence[MetricSpec]) -> str:
    """`margin ±0.25`; of several metrics with different margins each with its name."""
    margins = {metric.margin_text for metric in metrics}
    if len(margins) == 1:
        return f"margin ±{margins.pop()}"
    texts = [f"{metric.name} ±{metric.margin_text}" for metric in metrics]
    return f"margins {', '.join(texts)}"
