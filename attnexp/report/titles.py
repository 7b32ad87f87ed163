"""Titles of tables: what all their rows have in common, so that no row must say it."""

from collections.abc import Iterable, Sequence

from attnexp.analysis.answer import Answer
from attnexp.analysis.contrasts import Difference
from attnexp.analysis.endpoints import RESULT
from attnexp.analysis.metrics import ACCURACY
from attnexp.report.cells import format_span

PROTOCOLS = {"blog": ", measured on test", "holdout": ", epoch chosen on held-out data", "": ""}


def title_of_means(answer: Answer, num_seeds: Sequence[int], statistic: str) -> str:
    """`Accuracy on contrast (synthetic), %, mean ± sd over 6 seeds, measured on test`."""
    title = "Accuracy" if answer.metric.name == ACCURACY.name else "Results"
    before_seeds = ", %" if answer.metric.is_share else ""
    before_seeds += f", {statistic} over" if max(num_seeds) > 1 else ","
    return title + end_of_title(answer, num_seeds, before_seeds)


def end_of_title(answer: Answer, num_seeds: Iterable[int], before_seeds: str = ",") -> str:
    """` on imdb, 40 seeds, measured on test`, without data set or protocol where there are more."""
    end = ""
    data = _only(group.data for group in answer.groups)
    if data:
        end += f" on {data}"
        setups = answer.groups[0].origin.setups.values()
        if any("data.order_fraction" in setup.settings for setup in setups):
            end += " (synthetic)"  # Texts of the embedded corpus alone have a share of order.
    span = format_span(num_seeds)
    seeds = "one seed" if span == "1" else f"{span} seeds"
    protocol = _only(group.protocol for group in answer.groups)
    return f"{end}{before_seeds} {seeds}{PROTOCOLS[protocol]}"


def title_of_differences(rows: Sequence[Difference]) -> str:
    """`Difference in loss from none at final, margin ±0.01, 95 % intervals, all 3 together`."""
    first = rows[0]
    metric = first.metric
    title = "Mean difference" if first.is_mean else "Difference"
    if metric.name != ACCURACY.name:
        title += f" in {metric.name}"
    baseline = _only(row.contrast.baseline_level for row in rows)
    if baseline:
        title += f" from {baseline}"
    if first.is_mean:
        title += f" over {format_span(row.interval.n for row in rows)} data sets"
    label = _only(row.endpoint.label for row in rows)
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


def _only(texts: Iterable[str]) -> str:
    """The text that all of these are; empty where they differ."""
    distinct = {*texts}
    return distinct.pop() if len(distinct) == 1 else ""
