"""Tables of differences and of the effects of `probe`."""

import math
from collections.abc import Sequence

import pandas as pd

from attnexp.analysis.answer import MeanDifference
from attnexp.analysis.contrasts import Difference, difference_frame
from attnexp.analysis.endpoints import RESULT
from attnexp.analysis.metrics import ACCURACY
from attnexp.base.errors import UserError
from attnexp.report.cells import (
    NONE,
    AnyDifference,
    format_interval,
    format_number,
    format_texts_interval,
)
from attnexp.report.table import Table, drop_constant
from attnexp.statistics.verdict import MetricSpec

CONTEXT = ("data", "protocol", "at", "metric")
"""Columns that say what a difference is about; left out where they say the same in every row."""

VERDICT = ["n", "mean", "other seeds", "other texts too", "verdict"]
"""Columns of the default answer; n is left out where it is the same in every row."""

QUOTED = ["n", "mean", "sd", "other seeds", "other texts too", "p"]
"""Every number of a difference: what a paper quotes."""


def tabulate_differences(
    rows: Sequence[Difference], columns: Sequence[str] = VERDICT, subject: str = "Difference"
) -> Table:
    """Differences: what they are about, then these columns. Raises `UserError` without rows."""
    if not rows:
        raise UserError("No two variants, or levels of two factors, can be compared here.")
    texts = []
    for row in rows:
        metric = row.metric
        interval = row.interval
        cells = {
            "n": str(interval.n),
            "mean": format_number(interval.mean, metric, "+"),
            "sd": format_number(interval.sd, metric),
            "other seeds": format_interval(interval.low, interval.high, metric),
            "other texts too": format_texts_interval(row),
            "p": _format_p(row.p),
            "verdict": row.words,
        }
        texts.append(cells)
    frame = _make_frame(rows, texts, columns)
    if "verdict" in columns:
        frame = drop_constant(frame, ["n"])
    names = {row.metric.name for row in rows}
    if len(names) == 1 and ACCURACY.name not in names:
        subject += f" in {names.pop()}"
    subject += _name_baseline(rows)
    title = subject + _describe_rows(rows)
    return Table(title, frame, difference_frame(rows))


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
    if all(row.anytime for row in rows):
        text += "anytime-valid "
    text += "95 % intervals"
    sizes = {row.m for row in rows}
    if sizes != {1}:
        bound = "all" if len(sizes) == 1 else "up to"
        text += f", {bound} {max(sizes)} together"
    return text


def _describe_margins(metrics: Sequence[MetricSpec]) -> str:
    """`margin ±0.25`; of several metrics with different margins each with its name."""
    margins = {metric.margin_text for metric in metrics}
    if len(margins) == 1:
        return f"margin ±{margins.pop()}"
    texts = [f"{metric.name} ±{metric.margin_text}" for metric in metrics]
    return f"margins {', '.join(texts)}"


def _name_baseline(rows: Sequence[AnyDifference]) -> str:
    """` from none`, where all differences have one baseline; their names then leave it out."""
    baselines = {row.contrast.baseline_level for row in rows}
    return f" from {baselines.pop()}" if len(baselines) == 1 else ""


def _make_frame(
    rows: Sequence[AnyDifference], texts: list[dict[str, str]], columns: Sequence[str]
) -> pd.DataFrame:
    """What differences are about, and those of these columns of texts that are not empty."""
    has_one_baseline = _name_baseline(rows) != ""
    contexts = []
    for row in rows:
        contrast = row.contrast
        context = {
            "data": row.data,
            "protocol": row.protocol,
            "at": row.endpoint.label,
            "metric": row.metric.name,
            "difference": contrast.short_name if has_one_baseline else contrast.name,
        }
        contexts.append(context)
    cells = pd.DataFrame(texts, columns=list(columns))
    frame = pd.DataFrame(contexts).join(cells)
    is_empty = (frame == NONE).all()
    return drop_constant(frame.loc[:, ~is_empty], CONTEXT)


def tabulate_means_over_data(rows: Sequence[MeanDifference]) -> Table:
    """Mean differences over data sets, and the next one's. Raises `UserError` without rows."""
    if not rows:
        raise UserError(
            "A mean needs two data sets with the same variants, three seeds of each, where some "
            "variant is above chance."
        )
    texts = []
    for row in rows:
        metric = row.metric
        mean = row.interval
        cells = {
            "data sets": str(row.n),
            "mean": format_number(mean.mean, metric, "+"),
            "95 %": format_interval(mean.low, mean.high, metric),
            "next data set": format_interval(*row.next_data_set, metric),
        }
        texts.append(cells)
    frame = _make_frame(rows, texts, list(texts[0]))
    frame = frame.drop(columns="data", errors="ignore")
    title = f"Mean difference{_name_baseline(rows)} over data sets (random effects)"
    numbers = pd.DataFrame([row.record for row in rows])
    return Table(f"{title}, and the next one's", frame, numbers)


def tabulate_effects(effects: pd.DataFrame) -> Table:
    """Effects of `probe` on a variant: changes of accuracy in points, and measures of attention."""
    texts = []
    for effect in effects.itertuples():
        metric = ACCURACY
        name = effect.intervention
        sign = "+"
        if effect.metric != ACCURACY.name:
            metric = MetricSpec(name=effect.metric, is_share=False)
            name = effect.metric
            sign = ""
        cells = {
            "intervention": name,
            "n": str(effect.n),
            "mean": format_number(effect.mean, metric, sign),
            "other seeds": format_interval(effect.low, effect.high, metric),
            "other texts too": format_interval(effect.texts_low, effect.texts_high, metric),
            "flips, %": format_number(effect.flips, ACCURACY),
        }
        texts.append(cells)
    first = effects.iloc[0]
    title = f"{first['variant']}, {first['num_texts']:,} texts of {first['data']}: points"
    if any(effects["metric"] != ACCURACY.name):
        title += " (entropy: 1 is uniform)"
    return Table(f"{title}, 95 % intervals", pd.DataFrame(texts))
