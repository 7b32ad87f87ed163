"""Tables of an answer, for terminal, page and files."""

import math
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import pandas as pd

from attnexp.analysis.answer import Answer, Comparison, mean_over_seeds
from attnexp.analysis.endpoints import RESULT
from attnexp.analysis.kexue import METRICS as K_METRICS
from attnexp.analysis.kexue import settings_unlike_k
from attnexp.analysis.metrics import ACCURACY, METRIC_OF_COLUMN
from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.base.files import reading
from attnexp.report import TableName
from attnexp.report.cells import Mean, format_mean, format_span
from attnexp.report.difference_tables import OVER_DATA, QUOTED, WITHIN, tabulate_differences
from attnexp.report.table import Table, text_of
from attnexp.runs import predictions
from attnexp.runs.manifest import load_run
from attnexp.statistics.verdict import MetricSpec
from attnexp.training.metrics import by_class, count_confusions

VARIANT = ["data", "protocol", "variant"]
CLASS = [*VARIANT, "class"]
CLASS_METRICS = ["precision", "recall", "F1", "num_texts"]
UNKNOWN = MetricSpec(is_share=False)  # how a metric of other trainers is shown
OTHER_METRICS = {"flips": MetricSpec(name="flips")}

PROTOCOLS = {"blog": ", validated on test", "holdout": ", epoch chosen on held-out data", "": ""}
"""What a title says of the protocol."""

VALIDATED = {"blog": "val_ on the test set, as K does", "holdout": "val_ on held-out data"}
"""The texts on which each epoch is measured."""


def make_table(name: TableName, answer: Answer) -> Table:
    """The table of this name. Raises `UserError` where the results have nothing for it."""
    if name == "differences":
        return tabulate_differences(answer.measured, QUOTED)
    if name == "within":
        rows = [row for row in answer.measured if row.contrast.suffix]
        subject = "Difference within levels, and interactions,"
        return tabulate_differences(rows, WITHIN, subject)
    if name == "across":
        return tabulate_differences(answer.means, OVER_DATA)
    tabulate = {"epochs": tabulate_epochs, "metrics": tabulate_metrics, "classes": tabulate_classes}
    return tabulate[name](answer)


def tabulate_means(answer: Answer) -> Table:
    """Means of every variant at every endpoint, of what is judged and accuracy; K's beside them. Of
    other trainers, and of `probe`, every metric."""
    rows = _select_means(answer)
    num_metrics = len({*rows["metric"], answer.metric.name})
    num_seeds = rows.groupby(VARIANT)["n"].max()

    def heading(row: Any) -> str:
        point = row["at"].removeprefix(RESULT.label)
        name = row["metric"] if num_metrics > 1 or not point else ""
        return f"{point} {name}".strip()

    title = _title_of_means(answer, num_seeds, "mean ± sd")
    table = _pivot(title, rows, VARIANT, _metrics_by_name(answer), heading)
    table.columns["n"] = lambda row: str(num_seeds[tuple(row[key] for key in VARIANT)])
    return table


def tabulate_by_data(answer: Answer) -> Table:
    """Means of the judged metric at the endpoint that decides, a column for each data set."""
    label = answer.groups[0].points[0].label
    metric = answer.metric
    rows = _select_means(answer)
    rows = rows[(rows["at"] == label) & (rows["metric"] == metric.name)]
    title = _title_of_means(answer, rows["n"], f"at {label}, mean")
    means = rows.assign(sd=math.nan)
    return _pivot(title, means, ["variant"], {metric.name: metric}, itemgetter("data"))


def _select_means(answer: Answer) -> pd.DataFrame:
    """Means at the endpoints, as the default answer shows them: what is judged comes first."""
    names = dict.fromkeys([answer.metric.name, ACCURACY.name])
    frames = []
    for comparison in answer.comparisons:
        rows = comparison.endpoints
        if comparison.group.protocol:
            frames += [rows[rows["metric"] == name] for name in names]
            frames.append(_k_rows(comparison))
        else:
            frames.append(rows)
    return pd.concat(frames)


def _k_rows(comparison: Comparison) -> pd.DataFrame:
    """K's accuracies as rows of means, where K trained all variants, for as many epochs."""
    group = comparison.group
    rows = []
    for variant in group.variants:
        k_run = group.k_run(variant)
        is_as_long = k_run["epoch"].max() == group.epochs["epoch"].max()
        if not is_as_long or settings_unlike_k(group.configs[variant]):
            return pd.DataFrame()
        accuracies = k_run["val_accuracy"]
        about: dict[str, Any] = {"data": group.data, "protocol": group.protocol, "variant": variant}
        about |= {"metric": ACCURACY.name, "n": 1}
        rows.append(about | {"at": "K final", "mean": accuracies.iloc[-1]})
        rows.append(about | {"at": "K best", "mean": accuracies.max()})
    return pd.DataFrame(rows)


def _metrics_by_name(answer: Answer) -> dict[str, MetricSpec]:
    """How metrics are shown; what is judged may be another trainer's."""
    return METRIC_OF_COLUMN | OTHER_METRICS | {answer.metric.name: answer.metric}


def _title_of_means(answer: Answer, num_seeds: "pd.Series[int]", statistic: str) -> str:
    """`Accuracy on contrast (synthetic), %, mean ± sd over 6 seeds, validated on test`."""
    is_accuracy = answer.metric.name == ACCURACY.name
    title = "Accuracy" if is_accuracy else "Results"
    first = answer.groups[0]
    if len(answer.groups) == 1:
        title += f" on {first.data}"
        if any("order_fraction" in config["data"] for config in first.configs.values()):
            title += " (synthetic)"
    if answer.metric.in_points:
        title += ", %"
    if num_seeds.max() > 1:
        title += f", {statistic} over {format_span(num_seeds)} seeds"
    else:
        title += ", one seed"
    if len({group.protocol for group in answer.groups}) == 1:
        title += PROTOCOLS[first.protocol]
    return title


def tabulate_epochs(answer: Answer) -> Table:
    """Metrics of every epoch, mean ± sd over seeds, with K's run below."""
    epochs = pd.concat([comparison.epochs for comparison in answer.comparisons])
    parts = [epochs[epochs["metric"].isin(K_METRICS)]]
    for group in answer.groups:
        if len(group.published):
            k_run = group.published.assign(data=group.data, protocol=group.protocol)
            k_run["variant"] += ", K"
            parts.append(k_run.melt([*VARIANT, "epoch"], K_METRICS, "metric", "mean").assign(n=1))
    rows = pd.concat(parts)
    if rows.empty:
        raise UserError("These results have no metrics by epoch.")
    title = "Metrics by epoch: train_ as the mean while training"
    protocols = rows["protocol"].unique()
    if len(protocols) == 1:
        title += f", {VALIDATED[protocols[0]]}"
    return _pivot(title, rows, [*VARIANT, "epoch"], METRIC_OF_COLUMN)


def tabulate_metrics(answer: Answer) -> Table:
    """Probabilities and over-fitting at every endpoint."""
    rows = answer.endpoints
    title = "Metrics at the endpoints (ece: calibration error"
    if (rows["metric"] == "gap").any():
        title += ", gap: train accuracy minus accuracy"
    return _pivot(f"{title})", rows, [*VARIANT, "at"], _metrics_by_name(answer))


def _pivot(
    title: str,
    rows: pd.DataFrame,
    keys: Sequence[str],
    metrics: Mapping[str, MetricSpec],
    heading: Callable[[Any], str] = itemgetter("metric"),
) -> Table:
    """A table with a line for each combination of keys, and means in columns. A variant that is
    alone is named where other keys do not tell lines apart."""
    if rows["variant"].nunique() == 1 and rows[keys[-1]].nunique() > 1:
        keys = [key for key in keys if key != "variant"]

    def spread(row: Any) -> tuple[str, Mean]:
        return heading(row), format_mean(row, metrics.get(row["metric"], UNKNOWN))

    columns = {key: text_of(key) for key in keys}
    return Table(title=title, rows=rows.to_dict("records"), columns=columns, spread=spread)


def tabulate_classes(answer: Answer) -> Table:
    """Precision, recall and F1 of each class, from predictions stored at the deciding endpoint, and
    the share of its texts that are taken for each class. Raises `UserError` where no run is on
    disk."""
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
            about = {"data": group.data, "protocol": group.protocol, "variant": run.variant}
            parts.append(classes.assign(**about))
    if not parts:
        raise UserError("--table classes takes a folder of runs: other files hold no predictions.")
    means = mean_over_seeds(pd.concat(parts), [*CLASS, "num_texts", "metric"])
    is_confusion = means["metric"].str.startswith("as ")
    means["sd"] = means["sd"].mask(is_confusion)  # so that many classes fit beside each other
    title = "By class, %, mean ± sd over seeds (macro: mean over classes)"
    table = _pivot(title, means, CLASS, dict.fromkeys(means["metric"], ACCURACY))
    table.columns["n"] = lambda row: f"{row['num_texts']:,}"
    return table


def _measure_classes(folder: Path, point: str) -> pd.DataFrame:
    """Measures of a run on disk: class, num_texts, metric, value. The class `macro` is the mean."""
    run = load_run(folder)
    with reading(folder / predictions.FILE, "Train again."):
        logits, labels = predictions.at_endpoint(run, point)
        classes = run.result.classes
        measures = dict(zip(CLASS_METRICS, by_class(logits, labels), strict=True))
        frame = pd.DataFrame(measures, classes)
    macro = frame.mean()
    macro["num_texts"] = frame["num_texts"].sum()
    confusion = count_confusions(logits, labels)
    for predicted, name in enumerate(classes):
        frame[f"as {name}"] = confusion[:, predicted] / frame["num_texts"]
    frame.loc["macro"] = macro
    frame = frame.rename_axis("class").reset_index().astype({"num_texts": int})
    return frame.melt(["class", "num_texts"], var_name="metric").dropna()
