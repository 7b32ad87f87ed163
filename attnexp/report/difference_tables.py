"""Tables of differences and of the effects of `probe`, each a title and a data frame of texts."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from attnexp.analysis.answer import MeanDifference
from attnexp.analysis.contrasts import Difference
from attnexp.analysis.endpoints import RESULT
from attnexp.base.errors import UserError
from attnexp.report import cells
from attnexp.report.cells import format_interval, format_number
from attnexp.report.table import Table, drop_constant

PLACES = ("data", "protocol", "at", "metric")
"""Columns that say what a difference is about; left out where they say the same in every row."""

VERDICT = ["n", "mean", "other seeds", "other texts too", "verdict"]
"""Columns of the default answer; n is left out where it is the same in every row."""

QUOTED = ["n", "mean", "sd", "other seeds", "other texts too", "p"]
"""Every number of a difference: what a paper quotes."""


def tabulate_differences(
    rows: Sequence[Difference], columns: Sequence[str] = VERDICT, subject: str = "Difference"
) -> Table:
    """Differences as texts: what they are about, then these columns of `_format_difference`. Raises
    `UserError` where there are no rows."""
    if not rows:
        raise UserError("No two variants, or levels of two factors, can be compared here.")
    names = {row.metric.name for row in rows}
    if len(names) == 1 and "accuracy" not in names:
        subject += f" in {names.pop()}"
    title = subject + _name_baseline(rows) + _describe_rows(rows)
    texts = [_format_difference(row) for row in rows]
    frame = _make_frame(rows, texts, [*PLACES, "difference", *columns])
    return Table(title, drop_constant(frame, [*PLACES, "n"] if "verdict" in columns else PLACES))


def _describe_rows(rows: Sequence[Difference]) -> str:
    """What all differences have in common: ` at final in points, margin ±0.25, 95 % intervals`; and
    how many are judged together, of families of different sizes in the largest."""
    text = ""
    labels = {row.endpoint.label for row in rows} - {RESULT.label}
    if len(labels) == 1:
        text += f" at {labels.pop()}"
    metrics = list(dict.fromkeys(row.metric for row in rows))
    if all(metric.is_share for metric in metrics):
        text += " in points"
    text += f", {cells.format_margins(metrics)}, "
    if all(row.anytime for row in rows):
        text += "anytime-valid "
    text += "95 % intervals"
    sizes = {row.m for row in rows}
    if sizes != {1}:
        text += f", {'all' if len(sizes) == 1 else 'up to'} {max(sizes)} together"
    return text


def _name_baseline(rows: Sequence[Difference | MeanDifference]) -> str:
    """` from none`, where all differences have one baseline; their names then leave it out."""
    baselines = {row.contrast.baseline_level for row in rows}
    return f" from {baselines.pop()}" if len(baselines) == 1 else ""


def _make_frame(
    rows: Sequence[Difference | MeanDifference], texts: list[dict[str, str]], columns: Sequence[str]
) -> pd.DataFrame:
    """Those of these columns that are not empty, of what differences are about and these texts."""
    name = "short_name" if _name_baseline(rows) else "name"
    for row, cells_of_row in zip(rows, texts, strict=True):
        cells_of_row["data"] = row.data
        cells_of_row["protocol"] = row.protocol
        cells_of_row["at"] = row.endpoint.label
        cells_of_row["metric"] = row.metric.name
        cells_of_row["difference"] = getattr(row.contrast, name)
    frame = pd.DataFrame(texts, columns=list(columns))
    return frame.loc[:, (frame != cells.NONE).any()]


def _format_difference(row: Difference) -> dict[str, str]:
    """Every number that a table may have of a difference."""
    is_share = row.metric.is_share
    interval = row.interval
    return {
        "n": str(interval.n),
        "mean": format_number(interval.mean, is_share, "+"),
        "sd": format_number(interval.sd, is_share),
        "other seeds": format_interval(interval.low, interval.high, is_share),
        "other texts too": cells.format_texts_interval(row),
        "p": cells.format_p(row.p),
        "verdict": row.words,
    }


def tabulate_means_over_data(rows: Sequence[MeanDifference]) -> Table:
    """Mean differences over data sets, and where the next one's would lie. Raises `UserError` where
    no two data sets can be put together."""
    if not rows:
        raise UserError(
            "A mean needs two data sets with the same variants, three seeds of each, where some "
            "variant is above chance."
        )
    texts = [_format_mean_difference(row) for row in rows]
    columns = [*PLACES[1:], "difference", "data sets", "mean", "95 %", "next data set"]
    frame = _make_frame(rows, texts, columns)
    over = "over data sets (random effects), and the next one's"
    return Table(f"Mean difference{_name_baseline(rows)} {over}", drop_constant(frame, PLACES))


def _format_mean_difference(row: MeanDifference) -> dict[str, str]:
    is_share = row.metric.is_share
    mean = row.interval
    return {
        "data sets": str(row.n),
        "mean": format_number(mean.mean, is_share, "+"),
        "95 %": format_interval(mean.low, mean.high, is_share),
        "next data set": format_interval(mean.next_low, mean.next_high, is_share),
    }


def tabulate_effects(effects: pd.DataFrame) -> Table:
    """Effects of `probe` on a variant: changes of accuracy in points, and measures of attention."""
    variant, data, num_texts = effects.iloc[0][["variant", "data", "num_texts"]]
    note = "" if (effects["metric"] == "accuracy").all() else " (entropy: 1 is uniform)"
    title = f"{variant}, {num_texts:,} texts of {data}: points{note}, 95 % intervals"
    return Table(title, pd.DataFrame([_format_effect(row) for _, row in effects.iterrows()]))


def _format_effect(row: "pd.Series[Any]") -> dict[str, str]:
    is_accuracy = row["metric"] == "accuracy"
    return {
        "intervention": str(row["intervention"] if is_accuracy else row["metric"]),
        "n": str(row["n"]),
        "mean": format_number(row["mean"], is_accuracy, "+" if is_accuracy else ""),
        "other seeds": format_interval(row["low"], row["high"], is_accuracy),
        "other texts too": format_interval(row["texts_low"], row["texts_high"], is_accuracy),
        "flips, %": format_number(row["flips"], True),
    }
