"""Tables of an answer, for terminal, page and files."""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

import pandas as pd

from attnexp.analysis.answer import ENDPOINT_FIELDS, EPOCH_KEYS, Answer, Comparison, mean_over_seeds
from attnexp.analysis.endpoints import RESULT
from attnexp.analysis.kexue import METRICS as K_METRICS
from attnexp.analysis.metrics import ACCURACY, METRIC_OF_COLUMN
from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.base.files import reading
from attnexp.report.cells import NONE, format_mean, format_number
from attnexp.report.difference_tables import QUOTED, tabulate_differences, tabulate_means_over_data
from attnexp.report.table import Table, TableName, drop_constant
from attnexp.runs import predictions
from attnexp.runs.manifest import load_run
from attnexp.statistics.verdict import MetricSpec
from attnexp.training.metrics import by_class

CLASS_KEYS = ["data", "protocol", "variant", "class"]
NO_SHARE = MetricSpec(is_share=False)  # how a metric of other trainers is shown
CLASS_METRICS = ["precision", "recall", "F1", "num_texts"]

PROTOCOLS = {"blog": ", validated on test", "holdout": ", epoch chosen on held-out data", "": ""}
"""What a title says of the protocol."""


def make_table(name: TableName, answer: Answer) -> Table:
    """The table of this name. Raises `UserError` where the results have nothing for it."""
    if name == "differences":
        return tabulate_differences(answer.differences, QUOTED)
    if name == "within":
        rows = [row for row in answer.differences if row.contrast.suffix]
        subject = "Difference within levels, and interactions,"
        return tabulate_differences(rows, ["mean", "other seeds", "verdict"], subject)
    if name == "across":
        return tabulate_means_over_data(answer.means)
    tabulate = {"epochs": tabulate_epochs, "metrics": tabulate_metrics, "classes": tabulate_classes}
    return tabulate[name](answer)


def tabulate_means(answer: Answer) -> Table:
    """Means of every variant at every endpoint, of what is judged and accuracy; K's beside them."""
    metrics = list(answer.metrics)
    has_accuracy = any(metric.name == ACCURACY.name for metric in metrics)
    if answer.groups[0].protocol and not has_accuracy:
        metrics.append(ACCURACY)
    rows = []
    for comparison in answer.comparisons:
        rows += _rows_of_means(comparison, metrics)
    frame = pd.DataFrame(rows).fillna("")
    title = _name_metrics(answer)
    num_seeds = set(frame["n"])
    if num_seeds == {"1"}:
        title += ", one seed"
    else:
        n = num_seeds.pop() if len(num_seeds) == 1 else "n"
        title += f", mean ± sd over {n} seeds"
    if frame["protocol"].nunique() == 1:
        title += PROTOCOLS[answer.groups[0].protocol]
    return Table(title, drop_constant(frame, ["data", "protocol", "n"]))


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


def _rows_of_means(comparison: Comparison, metrics: Sequence[MetricSpec]) -> list[dict[str, str]]:
    """A row for each variant: n, means, and K's accuracies where K trained for as many epochs."""
    group = comparison.group
    means = comparison.endpoints.set_index(["variant", "point", "metric"])
    num_seeds = comparison.endpoints.groupby("variant")["n"].max()
    last_epoch = group.epochs["epoch"].max()
    rows = []
    for variant in group.variants:
        row = {
            "data": group.data,
            "protocol": group.protocol,
            "variant": variant,
            "n": str(num_seeds[variant]),
        }
        for metric, point in product(metrics, group.points):
            column = f"{point.label} {metric.name}"
            if point is RESULT:  # of other trainers
                column = metric.name
            elif len(metrics) == 1:
                column = point.label
            key = (variant, point.name, metric.name)
            row[column] = NONE
            if key in means.index:
                mean, sd = means.loc[key, ["mean", "sd"]]
                row[column] = format_mean(mean, sd, metric)
        k_run = group.k_run(variant)
        if k_run["epoch"].max() == last_epoch:
            accuracies = k_run["val_accuracy"]
            row["K final"] = format_number(accuracies.iloc[-1], ACCURACY)
            row["K best"] = format_number(accuracies.max(), ACCURACY)
        rows.append(row)
    return rows


def tabulate_epochs(answer: Answer) -> Table:
    """Metrics of every epoch, mean ± sd over seeds, with K's run below."""
    keys = [key for key in EPOCH_KEYS if key != "metric"]
    epochs = pd.concat([comparison.epochs for comparison in answer.comparisons])
    parts = [epochs[epochs["metric"].isin(K_METRICS)]]
    for group in answer.groups:
        if len(group.published):
            k_run = group.published.assign(data=group.data, protocol=group.protocol)
            k_run["variant"] += ", K"
            parts.append(k_run.melt(keys, K_METRICS, "metric", "mean").assign(n=1))
    rows = pd.concat(parts)
    if rows.empty:
        raise UserError("These results have no metrics by epoch.")
    title = "Metrics by epoch: running mean in training, validation after each epoch"
    return Table(title, _pivot_means(rows, keys, METRIC_OF_COLUMN), rows)


def tabulate_metrics(answer: Answer) -> Table:
    """Probabilities and over-fitting at every endpoint."""
    rows = answer.endpoints
    title = "Metrics at the endpoints (ece: calibration error"
    if (rows["metric"] == "gap").any():
        title += ", gap: train accuracy minus accuracy"
    metrics = METRIC_OF_COLUMN | {metric.name: metric for metric in answer.metrics}
    frame = _pivot_means(rows, ["data", "protocol", "variant", "at"], metrics)
    return Table(f"{title})", frame, rows[ENDPOINT_FIELDS])


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
    is_count = means["metric"] == "num_texts"
    num_texts = [f"{mean:,.0f}" for mean in means.loc[is_count, "mean"]]
    shares = dict.fromkeys(CLASS_METRICS, ACCURACY)
    frame = _pivot_means(means[~is_count], CLASS_KEYS, shares)
    title = "By class, %, mean ± sd over seeds (macro: mean over classes)"
    return Table(title, frame.assign(n=num_texts), means)


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


def _pivot_means(
    rows: pd.DataFrame, keys: list[str], metrics: Mapping[str, MetricSpec]
) -> pd.DataFrame:
    """mean ± sd as text: a row for each combination of keys, a column for each metric."""
    texts = []
    for row in rows.itertuples():
        metric = metrics.get(row.metric, NO_SHARE)
        texts.append(format_mean(row.mean, row.sd, metric))
    columns = [*keys, "metric"]
    table = rows[columns].astype(str).assign(text=texts)
    table = table.set_index(columns)
    wide = table["text"].unstack(sort=False)
    wide.columns.name = None
    frame = wide.fillna(NONE).reset_index()
    return drop_constant(frame, ["data", "protocol", "variant"])
