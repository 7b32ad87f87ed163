"""Tables of an answer, for terminal, page and files."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from attnexp.analysis.answer import Answer, mean_over_seeds
from attnexp.analysis.contrasts import Difference, difference_frame
from attnexp.analysis.endpoints import RESULT
from attnexp.analysis.group import Group
from attnexp.analysis.kexue import K_METRICS, k_runs_of
from attnexp.analysis.metrics import ACCURACY, METRIC_OF_COLUMN
from attnexp.base.errors import UserError
from attnexp.report import TableName, titles
from attnexp.report.cells import format_difference, format_mean
from attnexp.report.table import Table
from attnexp.runs import predictions
from attnexp.runs.find import load_run
from attnexp.statistics.verdict import MetricSpec
from attnexp.training.metrics import by_class, count_confusions

Metrics = dict[str, MetricSpec]  # by name
UNKNOWN = MetricSpec(is_share=False)  # how a metric of other trainers is shown
EXPLAINED = {"ece": "calibration error", "gap": "train accuracy − accuracy"}
VARIANT_KEYS = ["data", "protocol", "variant"]
CLASS_KEYS = [*VARIANT_KEYS, "class"]
CONTRAST_KEYS = ["protocol", "at", "difference"]
# Columns of the default answer, of means over data sets, and of all numbers that a paper quotes.
VERDICT_COLUMNS = ["data", *CONTRAST_KEYS, "n", "mean", "other seeds", "other texts too", "verdict"]
MEAN_COLUMNS = [*CONTRAST_KEYS, "data sets", "mean", "95 %", "next data set", "verdict"]
QUOTED_COLUMNS = ["data", *CONTRAST_KEYS, "n", "mean", "sd", "other seeds", "other texts too", "p"]


def make_table(name: TableName, answer: Answer) -> Table:
    """The table of this name, not `study`. Raises `UserError` where the results have none."""
    if name == "differences":
        return tabulate_alone(answer, answer.measured, QUOTED_COLUMNS)
    if name == "across":
        if not answer.means:
            raise UserError("--table across takes verdicts on two data sets or more.")
        return tabulate_alone(answer, answer.means, MEAN_COLUMNS)
    tabulate = {"epochs": tabulate_epochs, "metrics": tabulate_metrics, "classes": tabulate_classes}
    return tabulate[name](answer)


def tabulate_means(answer: Answer) -> Table:
    """Means of every variant at every endpoint, with K's beside them."""
    rows = _select_means(answer)
    # K's rows, whose n is 1, stand in the line of their variant.
    rows["n"] = rows.groupby(VARIANT_KEYS)["n"].transform("max")
    is_accuracy_alone = {*rows["metric"], answer.metric.name} == {ACCURACY.name}
    headings = rows["at"] if is_accuracy_alone else rows["at"] + " " + rows["metric"]
    is_result = rows["at"] == RESULT.label  # the only endpoint of other trainers and of `probe`
    rows["heading"] = headings.mask(is_result, rows["metric"])
    title = titles.title_of_means(answer, rows["n"], "mean ± sd")
    return _pivot(title, rows, [*VARIANT_KEYS, "n"], _metrics_by_name(answer), "heading")


def tabulate_by_data(answer: Answer) -> Table:
    """Means of the judged metric at the endpoint that decides, a column for each data set."""
    label = answer.groups[0].endpoints[0].label
    rows = _select_means(answer)
    judged = rows.query("metric == @answer.metric.name and at == @label")
    means = judged.drop(columns="sd")  # so that means stand alone
    title = titles.title_of_means(answer, means["n"], "mean", label)
    return _pivot(title, means, ["variant"], _metrics_by_name(answer), "data")


def _select_means(answer: Answer) -> pd.DataFrame:
    """Means at the endpoints, as the default answer shows them: what is judged comes first."""
    names = dict.fromkeys([answer.metric.name, ACCURACY.name])
    frames = []
    for comparison in answer.comparisons:
        rows = comparison.at_endpoints
        if comparison.group.protocol:  # Results of other trainers, and of `probe`, have none.
            frames += [rows[rows["metric"] == name] for name in names]
            frames.append(_k_rows(comparison.group))
        else:
            frames.append(rows)
    return pd.concat(frames, ignore_index=True)


def _k_rows(group: Group) -> pd.DataFrame:
    """K's accuracies as rows of means, where K trained all variants, for as many epochs."""
    k_runs = k_runs_of(group, as_k_ran=True)
    last_epoch = group.epochs["epoch"].max()
    rows = []
    for variant in group.variants:
        if variant not in k_runs or k_runs[variant]["epoch"].max() != last_epoch:
            return pd.DataFrame()
        accuracies = k_runs[variant]["val_accuracy"]
        rows.append((variant, "K final", accuracies.iloc[-1]))
        rows.append((variant, "K best", accuracies.max()))
    means = pd.DataFrame(rows, columns=["variant", "at", "mean"])
    return means.assign(
        data=group.data,
        protocol=group.protocol,
        metric=ACCURACY.name,
        n=1,
    )


def _metrics_by_name(answer: Answer) -> Metrics:
    """How metrics are shown; what is judged may be another trainer's."""
    return METRIC_OF_COLUMN | {"flips": ACCURACY, answer.metric.name: answer.metric}


def tabulate_epochs(answer: Answer) -> Table:
    """Metrics of every epoch, mean ± sd over seeds, with K's run below."""
    epochs = pd.concat([comparison.epochs for comparison in answer.comparisons])
    parts = [epochs[epochs["metric"].isin(K_METRICS)]]
    for comparison in answer.comparisons:
        group = comparison.group
        if comparison.k_runs:
            k_runs = pd.concat(comparison.k_runs, names=["variant"]).reset_index("variant")
            k_rows = k_runs.melt(["variant", "epoch"], K_METRICS, "metric", "mean")
            k_rows["variant"] += ", K"
            parts.append(k_rows.assign(data=group.data, protocol=group.protocol, n=1))
    rows = pd.concat(parts)
    if rows.empty:
        raise UserError("These results have no metrics by epoch.")
    title = "Metrics by epoch (train_: mean while training)"
    title += titles.end_of_title(answer, epochs["n"])
    return _pivot(title, rows, [*VARIANT_KEYS, "epoch"], METRIC_OF_COLUMN)


def tabulate_metrics(answer: Answer) -> Table:
    """Every metric at every endpoint, mean ± sd over seeds."""
    rows = answer.at_endpoints
    metrics = {*rows["metric"]}
    explained = [f"{name}: {words}" for name, words in EXPLAINED.items() if name in metrics]
    title = "Metrics by endpoint"
    if explained:
        title += f" ({', '.join(explained)})"
    title += titles.end_of_title(answer, rows["n"])
    return _pivot(title, rows, [*VARIANT_KEYS, "at"], _metrics_by_name(answer))


def _pivot(
    title: str, rows: pd.DataFrame, keys: Sequence[str], metrics: Metrics, heading: str = "metric"
) -> Table:
    """A line of means for each combination of keys; an only variant is left out where it can be."""
    num_lines = rows.groupby(VARIANT_KEYS)[keys[-1]].nunique()  # that the last key tells apart
    if rows["variant"].nunique() == 1 and num_lines.max() > 1:
        keys = [key for key in keys if key != "variant"]
    lines = []
    for values, means in rows.groupby(keys, sort=False):
        line = dict(zip(keys, map(str, values), strict=True))
        for mean in means.to_dict("records"):
            metric = metrics.get(mean["metric"], UNKNOWN)
            line[mean[heading]] = format_mean(mean, metric)
        lines.append(line)
    frame = rows.drop(columns="at", errors="ignore")  # The column point says it.
    return Table(title=title, frame=frame, lines=lines)


def tabulate_classes(answer: Answer) -> Table:
    """Measures of each class at the endpoint that decides. Raises `UserError` without runs."""
    parts = []
    for group in answer.groups:
        point = group.endpoints[0].name
        runs = group.origin.runs.reindex(columns=["variant", "folder"]).dropna()
        for run in runs.itertuples():
            part = _measure_classes(run.folder, point)
            parts.append(part.assign(data=group.data, protocol=group.protocol, variant=run.variant))
    if not parts:
        raise UserError("--table classes takes runs on disk: other files hold no predictions.")
    measures = pd.concat(parts)
    # With seeds.resample, each seed may have drawn another number of texts of a class.
    num_texts = measures.groupby(CLASS_KEYS)["num_texts"].transform("mean")
    measures["num_texts"] = num_texts.round().astype(int)
    means = mean_over_seeds(measures, [*CLASS_KEYS, "num_texts", "metric"])
    labels = dict.fromkeys(group.endpoints[0].label for group in answer.groups)
    title = f"By class, %, at {' and '.join(labels)}, mean over seeds"
    title += " (macro: mean over classes; as X: taken for X)"
    title += titles.end_of_title(answer, means["n"])
    shown = means.drop(columns="sd").assign(texts=means["num_texts"].map("{:,}".format))
    metrics = dict.fromkeys(means["metric"], ACCURACY)
    return replace(_pivot(title, shown, [*CLASS_KEYS, "texts"], metrics), frame=means)


def _measure_classes(folder: Path, point: str) -> pd.DataFrame:
    """class, num_texts, metric, value of a run on disk, at an endpoint. metric: precision, recall,
    F1, and `as NAME`, the share of texts that are taken for class NAME. The mean comes last."""
    run = load_run(folder)
    logits, labels = predictions.at_endpoint(run, point)
    classes = run.result.classes
    precision, recall, f1, num_texts = by_class(logits, labels)
    measures = pd.DataFrame({"precision": precision, "recall": recall, "F1": f1}, classes)
    confusions = pd.DataFrame(count_confusions(logits, labels), classes, classes)
    shares = confusions.div(num_texts, axis=0).add_prefix("as ")
    rows = measures.join(shares)
    rows.loc["(macro)" if "macro" in classes else "macro"] = measures.mean()  # without shares
    rows["num_texts"] = [*num_texts, len(labels)]
    rows = rows.rename_axis("class").reset_index()
    return rows.melt(["class", "num_texts"], var_name="metric").dropna()


def tabulate_differences(rows: Sequence[Difference], columns: Sequence[str]) -> Table:
    """Differences by one metric, with columns of these names. Raises `UserError` without rows."""
    if not rows:
        raise UserError("No two variants, data sets, or levels of two factors are compared here.")
    baselines = {row.contrast.baseline_level for row in rows}
    lines = []
    for row in rows:
        cells = format_difference(row)
        if len(baselines) == 1:  # The title names it.
            cells["difference"] = row.contrast.variant_level + row.contrast.suffix
        lines.append({name: cells[name] for name in columns})
    title = titles.title_of_differences(rows)
    return Table(title=title, frame=difference_frame(rows), lines=lines)


def tabulate_alone(answer: Answer, rows: Sequence[Difference], columns: Sequence[str]) -> Table:
    """Differences in a table that stands alone: its title says data set, seeds and protocol."""
    table = tabulate_differences(rows, columns)
    protocols = {row.protocol for row in rows}
    comparisons = [each for each in answer.comparisons if each.group.protocol in protocols]
    part = answer.select_comparisons(comparisons)
    num_seeds = [row.interval.n for row in part.measured]
    return replace(table, title=table.title + titles.end_of_title(part, num_seeds))
