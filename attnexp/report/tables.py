"""Tables of an answer, for terminal, page and files."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from attnexp.analysis.answer import Answer, Comparison, mean_over_seeds
from attnexp.analysis.endpoints import RESULT
from attnexp.analysis.kexue import METRICS as K_METRICS
from attnexp.analysis.kexue import is_as_k_ran
from attnexp.analysis.metrics import ACCURACY, METRIC_OF_COLUMN
from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.base.files import reading
from attnexp.report.cells import Mean, format_mean
from attnexp.report.difference_tables import (
    OVER_DATA,
    QUOTED,
    WITHIN,
    tabulate_differences,
)
from attnexp.report import TableName
from attnexp.report.table import Table
from attnexp.runs import predictions
from attnexp.runs.manifest import load_run
from attnexp.statistics.verdict import MetricSpec
from attnexp.training.metrics import by_class

PLACE = ["data", "protocol", "variant"]
CLASS_KEYS = [*PLACE, "class"]
OTHER_METRICS = {"flips": MetricSpec(name="flips")}
NO_SHARE = MetricSpec(is_share=False)  # how a metric of other trainers is shown
CLASS_METRICS = ["precision", "recall", "F1", "num_texts"]

PROTOCOLS = {"blog": ", validated on test", "holdout": ", epoch chosen on held-out data", "": ""}
"""What a title says of the protocol."""


def make_table(name: TableName, answer: Answer) -> Table:
    """The table of this name. Raises `UserError` where the results have nothing for it."""
    if name == "differences":
        return tabulate_differences(answer.measured, QUOTED)
    if name == "within":
        rows = [row for row in answer.measured if row.contrast.suffix]
        subject = "Difference within levels, and interactions,"
        return tabulate_differences(rows, WITHIN, subject)
    if name == "across":
        return tabulate_differences(answer.means, OVER_DATA, "Mean difference")
    tabulate = {"epochs": tabulate_epochs, "metrics": tabulate_metrics, "classes": tabulate_classes}
    return tabulate[name](answer)


def tabulate_means(answer: Answer) -> Table:
    """Means of every variant at every endpoint, of what is judged and accuracy; K's beside them. Of
    other trainers, and of `probe`, every metric."""
    judged = {metric.name: metric for metric in answer.metrics}
    shown = {*judged, ACCURACY.name} if answer.groups[0].protocol else {*answer.endpoints["metric"]}
    frames = []
    for comparison in answer.comparisons:
        rows = comparison.endpoints
        num_seeds = rows.groupby("variant")["n"].transform("max")
        rows = rows.assign(num_seeds=num_seeds)[rows["metric"].isin(shown)]
        frames += [rows, _k_rows(comparison)]
    rows = pd.concat(frames)
    metrics = METRIC_OF_COLUMN | OTHER_METRICS | judged
    title = _name_metrics(answer)
    numbers = rows["num_seeds"].dropna().unique()
    if list(numbers) == [1]:
        title += ", one seed"
    else:
        n = int(numbers[0]) if len(numbers) == 1 else "n"
        title += f", mean ± sd over {n} seeds"
    if rows["protocol"].nunique() == 1:
        title += PROTOCOLS[answer.groups[0].protocol]
    num_metrics = rows["metric"].nunique()

    def place(row: Any) -> tuple[str, Mean]:
        parts = [row["at"] if row["at"] != RESULT.label else ""]
        parts.append(row["metric"] if num_metrics > 1 else "")
        heading = " ".join(filter(None, parts)) or row["metric"]
        return heading, format_mean(row, metrics.get(row["metric"], NO_SHARE))

    return _pivot(title, rows, [*PLACE, "n"], place)


def _k_rows(comparison: Comparison) -> pd.DataFrame:
    """K's accuracies as rows of means, where K ran every variant, and for as many epochs."""
    group = comparison.group
    if not all(is_as_k_ran(group, variant) for variant in group.variants):
        return pd.DataFrame()
    num_seeds = comparison.endpoints.groupby("variant")["n"].max()
    rows = []
    for variant in group.variants:
        accuracies = group.k_run(variant)["val_accuracy"]
        about: dict[str, Any] = {"data": group.data, "protocol": group.protocol}
        about |= {"variant": variant}
        about |= {"metric": ACCURACY.name, "n": 1, "num_seeds": num_seeds[variant]}
        rows.append(about | {"at": "K final", "mean": accuracies.iloc[-1]})
        rows.append(about | {"at": "K best", "mean": accuracies.max()})
    return pd.DataFrame(rows)


def _name_metrics(answer: Answer) -> str:
    """`Accuracy on contrast (synthetic), %`."""
    is_accuracy = all(metric.name == ACCURACY.name for metric in answer.metrics)
    text = "Accuracy" if is_accuracy else "Results"
    if len(answer.groups) == 1:
        group = answer.groups[0]
        text += f" on {group.data}"
        if any("order_fraction" in config["data"] for config in group.configs.values()):
            text += " (synthetic)"
    if all(metric.in_points for metric in answer.metrics):
        text += ", %"
    return text


def tabulate_epochs(answer: Answer) -> Table:
    """Metrics of every epoch, mean ± sd over seeds, with K's run below."""
    epochs = pd.concat([comparison.epochs for comparison in answer.comparisons])
    parts = [epochs[epochs["metric"].isin(K_METRICS)]]
    for group in answer.groups:
        if len(group.published):
            k_run = group.published.assign(data=group.data, protocol=group.protocol)
            k_run["variant"] += ", K"
            parts.append(k_run.melt([*PLACE, "epoch"], K_METRICS, "metric", "mean").assign(n=1))
    rows = pd.concat(parts)
    if rows.empty:
        raise UserError("These results have no metrics by epoch.")
    title = "Metrics by epoch: running mean in training, validation after each epoch"
    return _pivot(title, rows, [*PLACE, "epoch"])


def tabulate_metrics(answer: Answer) -> Table:
    """Probabilities and over-fitting at every endpoint."""
    rows = answer.endpoints
    title = "Metrics at the endpoints (ece: calibration error"
    if (rows["metric"] == "gap").any():
        title += ", gap: train accuracy minus accuracy"
    judged = {metric.name: metric for metric in answer.metrics}
    metrics = METRIC_OF_COLUMN | OTHER_METRICS | judged
    return _pivot(f"{title})", rows, [*PLACE, "at"], lambda row: place_of_metric(row, metrics))


def place_of_metric(
    row: Any, metrics: Mapping[str, MetricSpec] = METRIC_OF_COLUMN
) -> tuple[str, Mean]:
    """A column for each metric."""
    return row["metric"], format_mean(row, metrics.get(row["metric"], NO_SHARE))


def _pivot(
    title: str,
    rows: pd.DataFrame,
    keys: Sequence[str],
    place: Callable[[Any], tuple[str, Mean]] = place_of_metric,
) -> Table:
    """A table with a row for each combination of keys, and means in columns."""
    columns: dict[str, Callable[[Any], str]] = {
        key: lambda row, key=key: str(row[key]) for key in keys
    }
    if "n" in keys:
        columns["n"] = lambda row: f"{row['num_seeds']:,.0f}"
    return Table(title=title, rows=rows.to_dict("records"), columns=columns, across=place)


def tabulate_classes(answer: Answer) -> Table:
    """Precision, recall and F1 of each class, from predictions stored at the deciding endpoint, and
    means over classes. Raises `UserError` where no run is on disk."""
    parts = []
    for group in answer.groups:
        point = group.points[0].name
        runs = group.runs.reindex(columns=["variant", "folder"]).dropna()
        for run in runs.itertuples():
            try:
                classes = _measure_classes(run.folder, point)
            except UserError as error:
                progress.note(str(error))
                continue
            classes["data"] = group.data
            classes["protocol"] = group.protocol
            classes["variant"] = run.variant
            parts.append(classes)
    if not parts:
        raise UserError("--table classes takes a folder of runs: other files hold no predictions.")
    rows = pd.concat(parts).melt(CLASS_KEYS, var_name="metric")
    means = mean_over_seeds(rows, [*CLASS_KEYS, "metric"])
    counts = means[means["metric"] == "num_texts"].set_index(CLASS_KEYS)["mean"]
    shares = means[means["metric"] != "num_texts"]
    shares = shares.assign(num_seeds=shares.set_index(CLASS_KEYS).index.map(counts))
    title = "By class, %, mean ± sd over seeds (macro: mean over classes)"
    specs = dict.fromkeys(CLASS_METRICS, ACCURACY)
    return _pivot(title, shares, [*CLASS_KEYS, "n"], lambda row: place_of_metric(row, specs))


def _measure_classes(folder: Path, point: str) -> pd.DataFrame:
    """Measures of a run on disk, a row for each class and one, `macro`, for their means."""
    run = load_run(folder)
    with reading(folder / predictions.FILE, "Train again."):
        by_metric = by_class(*predictions.at_endpoint(run, point))
        frame = pd.DataFrame(by_metric, CLASS_METRICS, run.result.classes).T
    macro = frame.mean()
    macro["num_texts"] = frame["num_texts"].sum()
    frame.loc["macro"] = macro
    return frame.rename_axis("class").reset_index()
