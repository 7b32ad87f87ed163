"""Tables of differences, each a title and a data frame of texts."""

from collections.abc import Sequence

import pandas as pd

from attnexp.analysis.answer import Answer, MeanDifference
from attnexp.analysis.contrasts import Difference
from attnexp.analysis.endpoints import RESULT
from attnexp.base.errors import UserError
from attnexp.report.cells import (
    NONE,
    format_interval,
    format_margins,
    format_number,
    format_p,
    format_texts_interval,
)
from attnexp.report.table import Table, drop_constant

PLACES = ("data", "protocol", "at", "metric")
"""Columns that say what a difference is about; left out where they say the same in every row."""

VERDICT = ("n", "mean", "other seeds", "other texts too", "verdict")
"""Columns of the default answer; n is left out where it is the same in every row."""


def tabulate_differences(
    rows: Sequence[Difference], columns: Sequence[str] = VERDICT, subject: str = "Difference"
) -> Table:
    """Differences as texts: what they are about, then these columns of `_cells_of_difference`.
    Raises `UserError` where there are no rows."""
    cells = [_cells_of_difference(row) for row in rows]
    frame = _frame_of_differences(cells, ["difference", *columns])
    title = subject + _from_one_baseline(rows, frame) + _describe_rows(rows)
    omitted = [*PLACES, "n"] if "verdict" in frame else PLACES
    return Table(title, drop_constant(frame, omitted))


def _describe_rows(rows: Sequence[Difference]) -> str:
    """What all differences have in common: ` at final in points, margin ±0.25, 95 % intervals`."""
    text = ""
    labels = {row.endpoint.label for row in rows}
    if len(labels) == 1 and labels != {RESULT.label}:
        text += f" at {labels.pop()}"
    metrics = list(dict.fromkeys(row.metric for row in rows))
    if all(metric.is_share for metric in metrics):
        text += " in points"
    text += f", {format_margins(metrics)}, "
    if all(row.anytime for row in rows):
        text += "anytime-valid "
    text += "95 % intervals"
    return text + _describe_family(rows)


def _describe_family(rows: Sequence[Difference]) -> str:
    """`, all 3 together`; of families of different sizes the largest."""
    sizes = {row.m for row in rows}
    if sizes == {1}:
        return ""
    return f", {'all' if len(sizes) == 1 else 'up to'} {max(sizes)} together"


def _frame_of_differences(cells: Sequence[dict[str, str]], columns: Sequence[str]) -> pd.DataFrame:
    """Cells in the order of `PLACES` and these columns, without columns in which nothing stands."""
    if not cells:
        raise UserError("No two variants, or levels of two factors, can be compared here.")
    frame = pd.DataFrame(cells)[[*PLACES, *columns]]
    return frame.loc[:, (frame != NONE).any()]


def _from_one_baseline(
    rows: Sequence[Difference] | Sequence[MeanDifference], frame: pd.DataFrame
) -> str:
    """` from none`, where all differences have one baseline; their column then leaves it out."""
    baselines = {row.contrast.baseline_level for row in rows}
    if len(baselines) > 1:
        return ""
    frame["difference"] = [row.contrast.short_name for row in rows]
    return f" from {baselines.pop()}"


def _cells_of_place(row: Difference | MeanDifference) -> dict[str, str]:
    """What a difference is about."""
    return {
        "protocol": row.protocol,
        "at": row.endpoint.label,
        "metric": row.metric.name,
        "difference": row.contrast.name,
    }


def _cells_of_difference(row: Difference) -> dict[str, str]:
    """Every text that a table may have of a difference."""
    is_share = row.metric.is_share
    interval = row.interval
    return _cells_of_place(row) | {
        "data": row.data,
        "n": str(interval.n),
        "mean": format_number(interval.mean, is_share, "+"),
        "sd": format_number(interval.sd, is_share),
        "other seeds": format_interval(interval.low, interval.high, is_share),
        "other texts too": format_texts_interval(row),
        "p": format_p(row.p),
        "verdict": row.words,
    }


def tabulate_all_differences(answer: Answer) -> Table:
    """Every number of a difference, a row each: what a paper quotes."""
    columns = ["n", "mean", "sd", "other seeds", "other texts too", "p"]
    return tabulate_differences(answer.differences, columns)


def tabulate_within(answer: Answer) -> Table:
    """One factor at each level of another, and their interactions."""
    rows = [row for row in answer.differences if row.contrast.is_crossed]
    columns = ["mean", "other seeds", "verdict"]
    return tabulate_differences(rows, columns, "Difference within levels, and interactions,")


def tabulate_means_over_data(rows: Sequence[MeanDifference]) -> Table:
    """Mean differences over data sets, and where the next one's would lie. Raises `UserError` where
    no two data sets can be put together."""
    if not rows:
        raise UserError(
            "A mean needs two data sets with the same variants, three seeds of each, where some "
            "variant is above chance."
        )
    cells = []
    for row in rows:
        is_share = row.metric.is_share
        mean = row.mean
        cells.append(
            _cells_of_place(row)
            | {
                "data": "",
                "data sets": str(row.n),
                "mean": format_number(mean.mean, is_share, "+"),
                "95 %": format_interval(mean.low, mean.high, is_share),
                "next data set": format_interval(mean.next_low, mean.next_high, is_share),
            }
        )
    columns = ["difference", "data sets", "mean", "95 %", "next data set"]
    frame = _frame_of_differences(cells, columns)
    baseline = _from_one_baseline(rows, frame)
    title = f"Mean difference{baseline} over data sets (random effects), and the next one's"
    return Table(title, drop_constant(frame, PLACES))
