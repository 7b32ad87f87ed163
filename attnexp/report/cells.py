"""Tables whose cells are text, and numbers as their cells."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attnexp.analysis.differences import Difference
from attnexp.statistics.anytime import Decision, fewest_seeds
from attnexp.statistics.crossed import Crossed
from attnexp.statistics.paired import McNemar, Mean, Paired
from attnexp.statistics.verdict import POINTS, Judgement, Unit, p_value

MAX_SEEDS_SHOWN = 50
"""Maximum number of seeds whose differences are listed and drawn one by one."""

OTHER_TEXTS = "95 %, seeds and texts"
"""Name of the row with the interval for other seeds and texts."""


HEADINGS = {
    "train_loss": "loss",
    "train_accuracy": "acc",
    "train_accuracy_after": "acc after",
    "val_loss": "val loss",
    "val_accuracy": "val acc",
    "brier": "Brier",
    "ece": "ECE",
}
"""Column headings of metrics that are not called by their name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A table whose cells are text."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    notes: list[str]
    published: Collection[int] = ()
    """Indices of the rows that hold the published run."""
    records: list[dict[str, Any]] = field(default_factory=list)
    """Rows as plain values, with numbers at full precision; empty for most tables."""


def metric_heading(metric: str) -> str:
    """Column heading of a metric."""
    return "NLL" if metric == "loss" else HEADINGS.get(metric, metric)


def format_mean(mean: Mean, unit: Unit) -> str:
    """`84.24 ± 0.08`; the mean alone if n is 1."""
    return " ± ".join(unit.plain(value) for value in (mean.mean, mean.sd) if value is not None)


def format_epoch_mean(metric: str, mean: Mean) -> str:
    """Mean and standard deviation of a metric of an epoch."""
    return " ± ".join(
        format_epoch_value(metric, value) for value in (mean.mean, mean.sd) if value is not None
    )


def format_epoch_value(metric: str, value: float) -> str:
    """`84.30` for an accuracy, `.3541` for a loss: five columns must fit 80 characters."""
    return _format_loss(value) if metric.endswith("loss") else POINTS.plain(value)


def format_metric(mean: Mean | None, unit: Unit) -> str:
    """Mean and standard deviation of a metric of an evaluation point."""
    if mean is None:
        return "–"
    write = unit.plain if unit.scale == 100 else _format_loss
    return " ± ".join(write(value) for value in (mean.mean, mean.sd) if value is not None)


def format_size(pair: Paired, unit: Unit = POINTS) -> str:
    """`+1.40 [+0.90, +1.90]`: the mean difference with its interval."""
    return unit.signed(pair.difference.mean) + unit.interval(pair.low, pair.high)


def format_difference(difference: Difference) -> str:
    """`+1.40 [+0.90, +1.90]`: the mean difference of accuracy with the interval of its verdict."""
    mean = difference.metrics["accuracy"].difference.mean
    return POINTS.signed(mean) + POINTS.interval(*difference.interval("accuracy"))


def format_spread(pair: Paired, unit: Unit) -> str:
    """`+1.40 ± 0.30`: the mean difference with its standard deviation."""
    sd = pair.difference.sd
    return unit.signed(pair.difference.mean) + ("" if sd is None else f" ± {unit.plain(sd)}")


def format_by_seed(pair: Paired, unit: Unit = POINTS) -> str:
    """Every difference; for many seeds their quartiles."""
    values = list(pair.by_seed.values())
    if len(values) <= MAX_SEEDS_SHOWN:
        return ", ".join(map(unit.signed, values))
    names = ("minimum", "quartile", "median", "quartile", "maximum")
    found = zip(names, np.quantile(values, [0, 0.25, 0.5, 0.75, 1]), strict=True)
    return ", ".join(f"{name} {unit.signed(value)}" for name, value in found)


def statistics_rows(
    pairs: Mapping[str, Paired],
    judgements: Mapping[str, Judgement],
    decisions: Mapping[str, Decision],
    tests: Mapping[str, Mapping[str, McNemar]],
    texts: Mapping[str, Crossed | None],
    *,
    num_judged: int,
    unit: Unit,
) -> list[list[str]]:
    """The statistics behind verdicts: a row each, with a column for each of `pairs`.

    tests: McNemar's test by column, then by seed. texts: the interval for other seeds and texts.
    num_judged: variants that were judged together.
    """
    margin = unit.margin(next(iter(pairs.values())).margin)
    rows = [
        [f"difference,{unit.name}" if unit.name else "difference"],
        ["95 %, other seeds"],
        [OTHER_TEXTS],
        ["95 %, anytime"],
        ["p, sign-flip"],
        [f"p, maxT over {num_judged}"],
        ["P(better)"],
        ["Cohen's dz"],
        [f"p, TOST ±{margin}"],
        ["McNemar p < 0.05"],
        ["more seeds needed"],
    ]
    for name, pair in pairs.items():
        judgement = judgements[name]
        cells = [
            format_spread(pair, unit),
            _format_interval(pair, unit),
            _format_texts(texts[name], unit),
            _format_anytime(decisions[name], unit),
            f"{_format_p(pair.p)} (least {_format_p(pair.p_smallest)})",
            _format_p(judgement.p_adjusted),
            _format_better(pair, unit),
            "–" if pair.dz is None else f"{pair.dz:+.2f}",
            _format_p(judgement.p_equivalent_adjusted),
            _format_mcnemar(tests[name]),
            "–" if judgement.more_seeds is None else str(judgement.more_seeds),
        ]
        for row, cell in zip(rows, cells, strict=True):
            row.append(cell)
    left_out = {"p, maxT over 1"} | ({"McNemar p < 0.05"} if not any(tests.values()) else set())
    left_out |= {OTHER_TEXTS} if not any(texts.values()) else set()
    return [row for row in rows if row[0] not in left_out]


def _format_interval(pair: Paired, unit: Unit) -> str:
    if pair.low is None or pair.high is None:
        return "–"
    return f"{unit.signed(pair.low)} to {unit.signed(pair.high)}"


def _format_texts(texts: Crossed | None, unit: Unit) -> str:
    return "–" if texts is None else f"{unit.signed(texts.low)} to {unit.signed(texts.high)}"


def _format_anytime(decision: Decision, unit: Unit) -> str:
    if decision.low is None or decision.high is None:
        return f"from {fewest_seeds()} seeds"
    bounds = f"{unit.signed(decision.low)} to {unit.signed(decision.high)}"
    return f"{bounds} ({decision.verdict or 'open'})"


def _format_better(pair: Paired, unit: Unit) -> str:
    share, low, high = pair.better.share, pair.better.low, pair.better.high
    if unit.less_is_better:
        share, low, high = 1 - share, 1 - high, 1 - low
    return f"{share:.2f} [{low:.2f}, {high:.2f}]"


def _format_mcnemar(by_seed: Mapping[str, McNemar]) -> str:
    if not by_seed:
        return "–"
    small = sum(found.p < 0.05 for found in by_seed.values())
    return f"in {small} of {len(by_seed)} seeds"


def _format_p(p: float | None) -> str:
    if p is None:
        return "–"
    return p_value(p, 4) if p >= 0.0001 else f"{p:.0e}"


def _format_loss(loss: float) -> str:
    return f"{loss:.4f}".replace("0.", ".", 1) if loss < 1 else f"{loss:.4f}"
