"""Tables of differences over seeds and over data sets."""

import math
from collections.abc import Sequence

from attnexp.analysis.contrasts import Difference, difference_frame
from attnexp.analysis.endpoints import RESULT
from attnexp.analysis.metrics import ACCURACY
from attnexp.base.errors import UserError
from attnexp.report.cells import (
    NONE,
    format_interval,
    format_number,
    format_span,
    intervals_of,
    is_cut,
)
from attnexp.report.table import Table

ABOUT = ["data", "protocol", "at", "difference"]

VERDICT = [*ABOUT, "n", "mean", "other seeds", "other texts too", "verdict"]
"""Columns of the default answer."""

OVER_DATA = [*ABOUT[1:], "data sets", "mean", "95 %", "next data set", "verdict"]
"""Columns of means over data sets."""

QUOTED = [*ABOUT, "n", "mean", "sd", "other seeds", "other texts too", "p"]
"""Every number of a difference: what a paper quotes."""


def tabulate_differences(rows: Sequence[Difference], headings: Sequence[str] = ()) -> Table:
    """Differences by one metric: what they are about, then numbers. headings: else those of the
    default answer, or of means over data sets. Raises `UserError` without rows."""
    if not rows:
        raise UserError("No two variants, data sets, or levels of two factors are compared here.")
    headings = headings or (OVER_DATA if rows[0].is_mean else VERDICT)
    baselines = {row.contrast.baseline_level for row in rows}
    lines = []
    for row in rows:
        cells = _format_cells(row)
        if len(baselines) == 1:  # The title names it.
            cells["difference"] = row.contrast.short_name
        lines.append({heading: cells[heading] for heading in headings})
    title = _describe_subject(rows, baselines) + _describe_rows(rows)
    return Table(title=title, frame=difference_frame(rows), lines=lines)


def _format_cells(row: Difference) -> dict[str, str]:
    deciding, wider = [format_interval(bounds, row.metric) for bounds in intervals_of(row)]
    texts = wider
    if 0 < row.texts_n < row.interval.n:
        texts += f", n = {row.texts_n}"
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
        "other texts too": texts,
        "next data set": wider,
        "p": NONE if math.isnan(row.p) else p,
        "verdict": row.words,
    }


def _describe_subject(rows: Sequence[Difference], baselines: set[str]) -> str:
    """`Difference in loss from none`, `Mean difference from none over 6 data sets`."""
    first = rows[0]
    text = "Mean difference" if first.is_mean else "Difference"
    if first.metric.name != ACCURACY.name:
        text += f" in {first.metric.name}"
    if len(baselines) == 1:
        text += f" from {first.contrast.baseline_level}"
    if first.is_mean:
        text += f" over {format_span(row.interval.n for row in rows)} data sets"
    return text


def _describe_rows(rows: Sequence[Difference]) -> str:
    """What all differences have in common: ` at final in points, margin ±0.25, 95 % intervals`; and
    how many are judged together, of families of different sizes in the largest."""
    metric = rows[0].metric
    text = ""
    labels = {row.endpoint.label for row in rows} - {RESULT.label}
    if len(labels) == 1:
        text += f" at {labels.pop()}"
    if metric.in_points:
        text += " in points"
    text += f", margin ±{metric.margin_text}, "
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
