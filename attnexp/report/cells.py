"""Tables whose cells are text, and numbers as their cells."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attnexp.analysis.differences import Difference
from attnexp.statistics.anytime import Decision, fewest_seeds
from attnexp.statistics.crossed import Crossed
from attnexp.statistics.paired import Mean, Paired
from attnexp.statistics.verdict import POINTS, Unit, p_value

MAX_SEEDS_SHOWN = 50
"""Maximum number of seeds whose differences are listed and drawn one by one."""

OTHER_TEXTS = "95 %, seeds and texts"
"""Name of the row with the interval for other seeds and texts."""

MCNEMAR = "McNemar p < 0.05"
"""Name of the row that counts seeds by McNemar's test."""

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


def format_mean(mean: Mean, write: Callable[[float], str]) -> str:
    """`84.24 ± 0.08`; the mean alone if n is 1. write: writes a number."""
    return " ± ".join(write(value) for value in (mean.mean, mean.sd) if value is not None)


def format_loss(loss: float) -> str:
    """`.3541`: five columns must fit 80 characters."""
    return f"{loss:.4f}".replace("0.", ".", 1) if loss < 1 else f"{loss:.4f}"


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
    found: Mapping[str, Difference], metric: str, unit: Unit, num_judged: int
) -> list[list[str]]:
    """The statistics behind verdicts on a metric: a row each, with a column for each difference.

    num_judged: variants that were judged together.
    """
    columns = []
    for difference in found.values():
        pair, judgement = difference.metrics[metric], difference.judgements[metric]
        texts = difference.texts if metric == "accuracy" else None
        mcnemar = difference.mcnemar if metric == "accuracy" else {}
        small = sum(found.p < 0.05 for found in mcnemar.values())
        columns.append(
            {
                f"difference,{unit.name}" if unit.name else "difference": format_spread(pair, unit),
                "95 %, other seeds": _format_bounds(pair, unit),
                OTHER_TEXTS: _format_bounds(texts, unit),
                "95 %, anytime": _format_anytime(difference.anytime[metric], unit),
                "p, sign-flip": f"{_format_p(pair.p)} (least {_format_p(pair.p_smallest)})",
                f"p, maxT over {num_judged}": _format_p(judgement.p_adjusted),
                "P(better)": _format_better(pair, unit),
                "Cohen's dz": "–" if pair.dz is None else f"{pair.dz:+.2f}",
                f"p, TOST ±{unit.margin(pair.margin)}": _format_p(judgement.p_equivalent_adjusted),
                MCNEMAR: f"in {small} of {len(mcnemar)} seeds" if mcnemar else "–",
                "more seeds needed": "–"
                if judgement.more_seeds is None
                else str(judgement.more_seeds),
            }
        )
    empty = {"p, maxT over 1"} | {
        name for name in (OTHER_TEXTS, MCNEMAR) if {column[name] for column in columns} == {"–"}
    }
    return [[name, *(of[name] for of in columns)] for name in columns[0] if name not in empty]


def _format_bounds(found: Paired | Crossed | Decision | None, unit: Unit) -> str:
    if found is None or found.low is None or found.high is None:
        return "–"
    return f"{unit.signed(found.low)} to {unit.signed(found.high)}"


def _format_anytime(decision: Decision, unit: Unit) -> str:
    if decision.low is None:
        return f"from {fewest_seeds()} seeds"
    return f"{_format_bounds(decision, unit)} ({decision.verdict or 'open'})"


def _format_better(pair: Paired, unit: Unit) -> str:
    share, low, high = pair.better.share, pair.better.low, pair.better.high
    if unit.less_is_better:
        share, low, high = 1 - share, 1 - high, 1 - low
    return f"{share:.2f} [{low:.2f}, {high:.2f}]"


def _format_p(p: float | None) -> str:
    if p is None:
        return "–"
    return p_value(p, 4) if p >= 0.0001 else f"{p:.0e}"
