"""Tables of an answer, each a title and a data frame of texts, for terminal, page and files."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pandas as pd

from attnexp.analysis.answer import Answer, Comparison, MeanDifference
from attnexp.analysis.contrasts import Difference
from attnexp.analysis.endpoints import RESULT, Endpoint
from attnexp.analysis.kexue import METRICS as K_METRICS
from attnexp.analysis.metrics import SHARES
from attnexp.base.errors import UserError
from attnexp.report.cells import (
    NONE,
    format_interval,
    format_margins,
    format_mean,
    format_number,
    format_p,
    format_texts_interval,
)
from attnexp.report.classes import class_rows
from attnexp.report.table_names import TableName
from attnexp.statistics.verdict import Metric


class Table(NamedTuple):
    """A table of texts."""

    title: str
    frame: pd.DataFrame


PROTOCOLS = {"blog": ", validated on test", "holdout": ", epoch chosen on held-out data", "": ""}
"""What a title says of the protocol."""

PLACES = ("data", "protocol", "at", "metric")
"""Columns that say what a difference is about; left out where they say the same in every row."""

VERDICT = ("n", "mean", "other seeds", "other texts too", "verdict")
"""Columns of the default answer; n is left out where it is the same in every row."""


def make_table(name: TableName, answer: Answer) -> Table:
    """The table of this name. Raises `UserError` where the results have nothing for it."""
    makers: dict[TableName, Callable[[Answer], Table]] = {
        TableName.differences: tabulate_all_differences,
        TableName.epochs: tabulate_epochs,
        TableName.metrics: tabulate_metrics,
        TableName.classes: tabulate_classes,
        TableName.within: tabulate_within,
        TableName.across: lambda answer: tabulate_means_over_data(answer.means),
    }
    return makers[name](answer)


def tabulate_means(answer: Answer) -> Table:
    """Means of every variant at every endpoint, with K's where they belong."""
    rows = []
    for comparison in answer.comparisons:
        rows += _rows_of_means(comparison, answer.metrics)
    frame = pd.DataFrame(rows).fillna("")
    return Table(_title_of_means(answer, frame), _drop_constant(frame, ["data", "protocol", "n"]))


def _rows_of_means(comparison: Comparison, metrics: Sequence[Metric]) -> list[dict[str, str]]:
    """A row for each variant: its number of seeds, its means, and K's numbers."""
    group = comparison.group
    means = {(row.variant, row.point, row.metric): row for row in comparison.endpoints.itertuples()}
    num_seeds = comparison.endpoints.groupby("variant")["n"].max()
    rows = []
    for variant in group.variants:
        row = {"data": group.data, "protocol": group.protocol, "variant": variant}
        row["n"] = str(num_seeds[variant])
        for point in group.points:
            for metric in metrics:
                cell = means.get((variant, point.name, metric.name))
                row[_column_of_means(point, metric)] = (
                    format_mean(cell.mean, cell.sd, metric.is_share) if cell else NONE
                )
        rows.append(row | _k_cells(comparison, variant))
    return rows


def _column_of_means(point: Endpoint, metric: Metric) -> str:
    """`final`, `final loss`; of results without endpoints the metric alone."""
    if point is RESULT:
        return metric.name
    return point.label if metric.name == "accuracy" else f"{point.label} {metric.name}"


def _k_cells(comparison: Comparison, variant: str) -> dict[str, str]:
    """K's accuracies of a variant, where K trained for as many epochs."""
    group = comparison.group
    published = group.published
    if published.empty or published["epoch"].max() != group.epochs["epoch"].max():
        return {}
    accuracies = published.loc[published["variant"] == variant, "val_accuracy"]
    if accuracies.empty:
        return {}
    return {
        "K final": format_number(accuracies.iloc[-1], is_share=True),
        "K best": format_number(accuracies.max(), is_share=True),
    }


def _title_of_means(answer: Answer, frame: pd.DataFrame) -> str:
    """`Accuracy on imdb, %, mean ± sd over 40 seeds, validated on test`."""
    groups = answer.groups
    is_accuracy = all(metric.name == "accuracy" for metric in answer.metrics)
    title = "Accuracy" if is_accuracy else "Results"
    if len(groups) == 1:
        title += f" on {groups[0].data}"
        is_made = any("order_fraction" in config["data"] for config in groups[0].configs.values())
        if is_made:
            title += " (synthetic)"
    if all(metric.is_share for metric in answer.metrics):
        title += ", %"
    num_seeds = frame["n"].iloc[0] if frame["n"].nunique() == 1 else "n"
    title += ", one seed" if num_seeds == "1" else f", mean ± sd over {num_seeds} seeds"
    if frame["protocol"].nunique() == 1:
        title += PROTOCOLS[groups[0].protocol]
    return title


def tabulate_differences(
    rows: Sequence[Difference], columns: Sequence[str] = VERDICT, subject: str = "Difference"
) -> Table:
    """Differences as texts: what they are about, then these columns of `_cells_of_difference`.
    Raises `UserError` where there are no rows."""
    cells = [_cells_of_difference(row) for row in rows]
    frame = _frame_of_differences(cells, ["difference", *columns])
    title = subject + _from_one_baseline(rows, frame)
    points = {row.endpoint.label: row.endpoint for row in rows}
    if len(points) == 1 and RESULT.label not in points:
        title += f" at {rows[0].endpoint.label}"
    metrics = list(dict.fromkeys(row.metric for row in rows))
    if all(metric.is_share for metric in metrics):
        title += " in points"
    title += f", {format_margins(metrics)}, "
    if all(row.anytime for row in rows):
        title += "anytime-valid "
    title += "95 % intervals"
    sizes = {row.m for row in rows}
    if sizes != {1}:
        title += f", {'all' if len(sizes) == 1 else 'up to'} {max(sizes)} together"
    return Table(title, _drop_constant(frame, [*PLACES, "n"] if "verdict" in frame else PLACES))


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
    return Table(title, _drop_constant(frame, PLACES))


def tabulate_epochs(answer: Answer) -> Table:
    """Metrics of every epoch, mean ± sd over seeds, with K's run below."""
    keys = ["data", "protocol", "variant", "epoch"]
    rows = answer.epochs
    parts = [rows[rows["metric"].isin(K_METRICS)]]
    for group in answer.groups:
        if len(group.published):
            k_run = group.published.assign(
                data=group.data,
                protocol=group.protocol,
                variant=group.published["variant"] + ", K",
            )
            parts.append(k_run.melt(keys, K_METRICS, "metric", "mean"))
    rows = pd.concat(parts)
    if rows.empty:
        raise UserError("These results have no metrics by epoch.")
    title = "Metrics by epoch: running mean in training, validation after each epoch"
    return Table(title, _pivot_means(rows, keys, answer.metrics))


def tabulate_metrics(answer: Answer) -> Table:
    """Probabilities and over-fitting at every endpoint."""
    rows = answer.endpoints
    labels = {
        (group.protocol, point.name): point.label
        for group in answer.groups
        for point in group.points
    }
    places = zip(rows["protocol"], rows["point"], strict=True)
    rows = rows.assign(at=[labels[place] for place in places])
    title = "Metrics at the endpoints (ece: calibration error"
    if (rows["metric"] == "gap").any():
        title += ", gap: train accuracy minus accuracy"
    frame = _pivot_means(rows, ["data", "protocol", "variant", "at"], answer.metrics)
    return Table(f"{title})", frame)


def tabulate_classes(answer: Answer) -> Table:
    """Precision, recall and F1 of each class at the deciding endpoint, and their means over
    classes. Raises `UserError` where no run is on disk, with its predictions."""
    rows = class_rows(answer.groups)
    keys = ["data", "protocol", "variant", "class"]
    values = rows.groupby([*keys, "metric"], sort=False)["value"]
    means = values.agg(mean="mean", sd="std").reset_index()
    is_count = means["metric"] == "num_texts"
    num_texts = [f"{mean:,.0f}" for mean in means.loc[is_count, "mean"]]
    frame = _pivot_means(means[~is_count], keys, [])
    title = "By class, %, mean ± sd over seeds (macro: mean over classes)"
    return Table(title, frame.assign(n=num_texts))


def _pivot_means(rows: pd.DataFrame, keys: list[str], metrics: Sequence[Metric]) -> pd.DataFrame:
    """mean ± sd as text: a row for each combination of keys, a column for each metric."""
    shares = SHARES | {metric.name for metric in metrics if metric.is_share}
    texts = [
        format_mean(row.mean, row.sd, row.metric in shares)
        for row in rows.reindex(columns=["mean", "sd", "metric"]).itertuples(index=False)
    ]
    table = rows[[*keys, "metric"]].astype(str).assign(text=texts)
    wide = table.set_index([*keys, "metric"])["text"].unstack(sort=False).fillna(NONE)
    frame = wide.rename_axis(columns=None).reset_index()
    return _drop_constant(frame, ["data", "protocol", "variant"])


def _drop_constant(frame: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """The frame without those of the columns that say the same in every row."""
    constant = [name for name in columns if name in frame and frame[name].nunique() == 1]
    return frame.drop(columns=constant)


def tabulate_effects(effects: pd.DataFrame) -> Table:
    """Effects of `probe` on a variant: changes of accuracy in points, and measures of attention."""
    variant, data, num_texts = effects.iloc[0][["variant", "data", "num_texts"]]
    note = "" if (effects["metric"] == "accuracy").all() else " (entropy: 1 is uniform)"
    title = f"{variant}, {num_texts:,} texts of {data}: points{note}, 95 % intervals"
    cells = [_cells_of_effect(row) for _, row in effects.iterrows()]
    return Table(title, pd.DataFrame(cells))


def _cells_of_effect(row: "pd.Series[Any]") -> dict[str, str]:
    is_accuracy = row["metric"] == "accuracy"
    return {
        "intervention": str(row["intervention"] if is_accuracy else row["metric"]),
        "n": str(row["n"]),
        "mean": format_number(row["mean"], is_accuracy, "+" if is_accuracy else ""),
        "other seeds": format_interval(row["low"], row["high"], is_accuracy),
        "other texts too": format_interval(row["texts_low"], row["texts_high"], is_accuracy),
        "flips, %": format_number(row["flips"], True),
    }
