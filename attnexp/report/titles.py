"""Titles of tables: what all their rows have in common, so that no row must say it."""

from collections.abc import Iterable, Sequence

from attnexp.analysis.answer import Answer
from attnexp.analysis.contrasts import Difference
from attnexp.analysis.endpoints import RESULT
from attnexp.analysis.metrics import ACCURACY
from attnexp.report.cells import format_span

PROTOCOLS = {"blog": ", measured on test", "holdout": ", epoch chosen on held-out data", "": ""}
"""How results were chosen, by protocol; `""` is that of other trainers, or stands for several."""


def title_of_means(answer: Answer, num_seeds: Sequence[int], statistic: str, at: str = "") -> str:
    """`Accuracy on imdb, %, at final, mean over 6 seeds`. at: the endpoint, if all are at one."""
    title = "Accuracy" if answer.metric.name == ACCURACY.name else "Results"
    unit = ", %" if answer.metric.is_share else ""
    endpoint = "" if at in ("", RESULT.label) else f", at {at}"
    over = f"{statistic} over " if max(num_seeds) > 1 else ""
    return f"{title}{_name_data(answer)}{unit}{endpoint}, {over}{_name_seeds(answer, num_seeds)}"


def end_of_title(answer: Answer, num_seeds: Iterable[int]) -> str:
    """` on imdb, 40 seeds, measured on test`, without data set or protocol where there are more."""
    return f"{_name_data(answer)}, {_name_seeds(answer, num_seeds)}"


def _name_data(answer: Answer) -> str:
    """` on contrast (synthetic)`; empty where there are several data sets."""
    data = only(group.data for group in answer.groups)
    if not data:
        return ""
    setups = answer.groups[0].origin.setups.values()
    # Texts of the embedded corpus alone have a share of order.
    is_synthetic = any("data.order_fraction" in setup.settings for setup in setups)
    return f" on {data} (synthetic)" if is_synthetic else f" on {data}"


def _name_seeds(answer: Answer, num_seeds: Iterable[int]) -> str:
    """`40 seeds, measured on test`, without the protocol where there are two."""
    protocol = only(group.protocol for group in answer.groups)
    return format_span(num_seeds, "seed") + PROTOCOLS[protocol]


def title_of_differences(rows: Sequence[Difference]) -> str:
    """`Difference in loss from none at final, margin ±0.01, 95 % intervals, all 3 together`."""
    first = rows[0]
    metric = first.metric
    title = "Mean difference" if first.is_mean else "Difference"
    if metric.name != ACCURACY.name:
        title += f" in {metric.name}"
    baseline = only(row.contrast.baseline_level for row in rows)
    if baseline:
        title += f" from {baseline}"
    if first.is_mean:
        title += " over " + format_span((row.interval.n for row in rows), "data set")
    label = only(row.endpoint.label for row in rows)
    if label not in ("", RESULT.label):
        title += f" at {label}"
    if metric.is_share:
        title += " in points"
    return f"{title}, margin ±{metric.margin_text}, {_describe_intervals(rows)}"


def _describe_intervals(rows: Sequence[Difference]) -> str:
    """`95 % intervals, all 3 together`, or `up to 3 together` where families differ in size."""
    text = "95 % intervals"
    if all(row.sequential for row in rows):
        text = f"anytime-valid {text}"
    sizes = {row.m for row in rows}
    if sizes != {1}:
        bound = "all" if len(sizes) == 1 else "up to"
        text += f", {bound} {max(sizes)} together"
    return text


def only(texts: Iterable[str]) -> str:
    """The text that all of these are; empty where they differ."""
    distinct = {*texts}
    return distinct.pop() if len(distinct) == 1 else ""
