"""Results of any trainer as a results table: a number a seed, or an answer an example."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from attnexp.analysis.comparison import Comparison, Metric, compare_results
from attnexp.analysis.results import Bits, Results, Row
from attnexp.base.errors import UserError, check_name
from attnexp.config.schema import did_you_mean
from attnexp.data.tables import read_rows
from attnexp.statistics.paired import MARGIN
from attnexp.statistics.verdict import POINTS, Unit

if TYPE_CHECKING:
    from pandas import DataFrame

SUCCESSES = frozenset(
    "acc accuracy auc auroc auprc correct dice em f1 fscore iou map match mrr ndcg precision "
    "recall sensitivity specificity success top1 top5 win wins".split()
)
OF_A_SUCCESS = frozenset(
    "average avg balanced best dev eval exact final macro mean micro pr rate roc score test train "
    "val valid validation weighted".split()
)
"""Words of a metric's name. With one of the first and none but of the second, more is better. For
all other metrics the user has to say it."""

EXAMPLE = "example"
"""Column of files whose rows are examples instead of runs."""

RIGHT, WRONG = ("1", "1.0", "true"), ("0", "0.0", "false")
"""Accepted values in the column `correct`."""

WHOLE = re.compile(r"(0|-?[1-9][0-9]*)\.0*")
"""A whole number as pandas writes it in a column with a gap."""

FRAME = "The frame"
"""Name of a data frame in messages."""

RESULT = "result"
"""Name of the one evaluation point of such results."""


def read_results(given: "str | PathLike[str] | DataFrame", only: Sequence[str] = ()) -> Results:
    """Read a data frame, or a file of a kind that `data=files` reads, with the columns `variant`,
    `seed` and metrics: a row for each run.

    Or a row for each example: `variant`, `seed`, `example` and `correct`, or `prediction` and
    `label`. The share of right answers is then the only metric, `accuracy`.

    only: names of the metrics to read; all of them if empty. Raises `UserError`.
    """
    where, rows = _rows(given)
    for name in rows[0]:
        check_name(str(name), f"{where}: a column")
    columns = [name for name in rows[0] if name not in ("variant", "seed")]
    by_example = EXAMPLE in columns
    wanted = ["variant", "seed"]
    if by_example:
        columns = ["accuracy"]
        answer = ["correct"] if "correct" in rows[0] else ["prediction", "label"]
        wanted = ["variant", "seed", *answer]
    for name in only:
        _known(name, columns)
    missing = [name for name in wanted if name not in rows[0]]
    if missing or not columns:
        raise UserError(
            f"{where} lacks {', '.join(missing) or 'a metric'}; its columns are "
            f"{', '.join(rows[0])}. A row is one run: variant, seed and what it measured; or one "
            f"example: variant, seed, example and correct, or prediction and label."
        )
    if by_example:
        return _of_examples(where, rows)
    found: dict[tuple[str, str], dict[str, float]] = {}
    for number, row in enumerate(rows, start=1):
        variant, seed = (_name(where, number, row, column) for column in ("variant", "seed"))
        if (variant, seed) in found:
            raise UserError(
                f"{where}, result {number}: there are two of {variant}, seed {seed}. Seeds "
                f"pair the variants, so each has one result. (For results by example, add the "
                f"column {EXAMPLE}.)"
            )
        found[variant, seed] = {}
        for name in only or columns:
            value = _number(row.get(name))
            if value is None:
                raise UserError(
                    f"{where}, result {number} ({variant}, seed {seed}): {name} is "
                    f"{row.get(name)!r}, which is no number (decimals have a point). "
                    f"Mend it, leave the result out, or choose other metrics with --metric."
                )
            found[variant, seed][name] = value
    return _results(where, found, {})


def _results(
    where: str,
    values: Mapping[tuple[str, str], Mapping[str, float]],
    right: Mapping[tuple[str, str], Bits],
) -> Results:
    """values: metrics by variant and seed. Results of a data frame are called `results`."""
    name = "results" if where == FRAME else Path(where).name.partition(".")[0]
    return Results(
        rows=[
            Row(name, "", variant, seed, RESULT, metric, value)
            for (variant, seed), metrics in values.items()
            for metric, value in metrics.items()
        ],
        points={RESULT: "one number a seed"},
        right=lambda variant, seed: (
            {RESULT: right[variant, seed]} if (variant, seed) in right else {}
        ),
    )


def _is_success(metric: str) -> bool:
    words = re.split(r"[ _./]", re.sub(r"([a-z])([A-Z])", r"\1 \2", metric).lower())
    successes = [word for word in words if word in SUCCESSES]
    return len(successes) == 1 and {*words} <= SUCCESSES | OF_A_SUCCESS


def _of_examples(where: str, rows: Sequence[dict[str, Any]]) -> Results:
    """The table of a file with a row for each example."""
    right: dict[str, dict[str, dict[str, bool]]] = {}
    if "correct" not in rows[0]:
        _check_answers(where, rows)
    for number, row in enumerate(rows, start=1):
        names = (_name(where, number, row, column) for column in ("variant", "seed", EXAMPLE))
        variant, seed, example = names
        found = right.setdefault(variant, {}).setdefault(seed, {})
        if example in found:
            raise UserError(
                f"{where}, result {number}: there are two of {variant}, seed {seed}, example "
                f"{example}."
            )
        found[example] = _is_right(where, number, row)
    for seed in dict.fromkeys(seed for runs in right.values() for seed in runs):
        runs = {variant: found[seed] for variant, found in right.items() if seed in found}
        (first, expected), *others = runs.items()
        for variant, found in others:
            if alone := expected.keys() ^ found.keys():
                raise UserError(
                    f"{where}: of seed {seed}, {first} and {variant} answered other examples "
                    f"({min(alone)} is one's alone), so they do not pair."
                )
    answers = {
        (variant, seed): found for variant, runs in right.items() for seed, found in runs.items()
    }
    return _results(
        where,
        {run: {"accuracy": fmean(found.values())} for run, found in answers.items()},
        {run: np.array([found[name] for name in sorted(found)]) for run, found in answers.items()},
    )


def _is_right(where: str, number: int, row: Mapping[str, Any]) -> bool:
    if "correct" not in row:
        answer, label = (_name(where, number, row, name) for name in ("prediction", "label"))
        return answer == label
    text = str(row["correct"]).strip().lower()
    if text not in RIGHT + WRONG:
        raise UserError(f"{where}, result {number}: correct is {row['correct']!r}; write 1 or 0.")
    return text in RIGHT


def _check_answers(where: str, rows: Sequence[dict[str, Any]]) -> None:
    """Raise `UserError` if no prediction is any example's label."""
    answers, labels = (
        {_name(where, number, row, name) for number, row in enumerate(rows, start=1)}
        for name in ("prediction", "label")
    )
    if not answers & labels:
        given = " and ".join(
            f"{', '.join(sorted(found)[:3])} under {name}"
            for found, name in ((answers, "prediction"), (labels, "label"))
        )
        raise UserError(
            f"{where}: no prediction is any example's label (there are {given}). Write both in the "
            f"same way; or give the column correct, 1 or 0, if all are wrong."
        )


def _name(where: str, number: int, row: Mapping[str, Any], column: str) -> str:
    """A cell that must not be empty, as text without spaces around it. A whole number may be
    written `1.0`, as pandas does in a column with a gap: it is `1`."""
    value = row.get(column)
    text = "" if value is None else str(value).strip()
    if not text:
        raise UserError(f"{where}, result {number}: {column} is empty.")
    whole = WHOLE.fullmatch(text)
    return check_name(whole[1] if whole else text, f"{where}, result {number}: {column}")


def judge_results(
    results: Results,
    *,
    baseline: str | None = None,
    higher: Sequence[str] = (),
    lower: Sequence[str] = (),
    margins: Sequence[str] = (),
) -> Comparison:
    """Compare every variant with the baseline, metric by metric.

    For a share (all values from 0 to 1) the default margin is 0.25 points, and if its name is one
    of successes, such as accuracy or macro_f1, more is better. For any other metric both must be
    given, since they decide what a verdict means.

    baseline: name of a variant; None for the first. higher, lower: metrics of which more, or less,
    is better. margins: `METRIC=NUMBER`, or a number for all, in the unit in which the tables write
    differences (points for shares). Raises `UserError`.
    """
    values: dict[str, list[float]] = {}
    for row in results.rows:
        values.setdefault(row.metric, []).append(row.value)
    first = _baseline(baseline, results.variants)
    for name in (*higher, *lower):
        _known(name, values)
    given = _margins(margins, values)
    metrics, unknown = dict[str, Metric](), list[str]()
    for metric, found in values.items():
        share = all(0 <= value <= 1 for value in found) and metric not in lower
        if metric in higher and metric in lower:
            raise UserError(f"--higher {metric} and --lower {metric} contradict each other.")
        if metric not in (*higher, *lower) and not (share and _is_success(metric)):
            more = "" if metric in given or not share else f" and --margin {metric}=0.01"
            unknown.append(
                f"which direction is better, with --higher {metric}, or --lower {metric}{more}"
            )
        if not share and metric not in given:
            unknown.append(
                f"the smallest difference that matters, for example --margin {metric}=0.01"
            )
        own = Unit(name="", scale=1, digits=".4g", less_is_better=metric in lower)
        unit = POINTS if share else own
        margin = given[metric] / unit.scale if metric in given else MARGIN
        metrics[metric] = Metric(unit=unit, margin=margin, judged=True)
    if unknown:
        raise UserError(
            f"Not every metric is known to be a share of successes, so say {'; '.join(unknown)}."
        )
    ordered = sorted(results.rows, key=lambda row: row.variant != first)
    compared = compare_results(replace(results, rows=ordered), metrics)
    if not any(compared.differences.values()):
        seeds = "; ".join(f"{one.label} has {', '.join(one.seeds)}" for one in compared.variants)
        raise UserError(f"No variant shares a seed with {first}, so nothing pairs: {seeds}.")
    return compared


def next_run(comparison: Comparison) -> str | None:
    """The run that an undecided comparison of one metric needs next, such as "seed 12 of pe".

    The first that one variant lacks of an open pair, else a new seed of both. None where every
    variant is decided.
    """
    baseline, *others = comparison.variants
    decisions = {
        label: decision
        for label, found in comparison.differences.items()
        for difference in found.values()
        for decision in difference.anytime.values()
    }
    waiting = [
        other
        for other in others
        if other.label not in decisions or decisions[other.label].verdict is None
    ]
    if not waiting:
        return None
    for other in waiting:
        for one, has in ((other, baseline), (baseline, other)):
            if lacking := [seed for seed in has.seeds if seed not in one.seeds]:
                return f"seed {lacking[0]} of {one.label}"
    numbers = [int(seed) for seed in baseline.seeds if seed.isdecimal()]
    seed = f"seed {max(numbers) + 1}" if numbers else "a new seed"
    *most, last = (one.label for one in (baseline, *waiting))
    return f"{seed} of {', '.join(most)} and {last}"


def _rows(given: "str | PathLike[str] | DataFrame") -> tuple[str, list[dict[str, Any]]]:
    """Name of the source for messages, and its rows (at least one)."""
    if isinstance(given, (str, PathLike)):
        where, rows = str(given), read_rows(Path(given))
    else:
        cells = given.rename(columns=str).astype(object)
        if twice := [*cells.columns[cells.columns.duplicated()]]:
            raise UserError(f"The frame has more than one column {twice[0]}. Leave one.")
        where, rows = FRAME, cells.where(cells.notna(), None).to_dict("records")
    if not rows:
        raise UserError(f"{where} holds no result. A row is one run: variant, seed, its metrics.")
    return where, rows


def _number(value: object) -> float | None:
    """A number whose square is finite, else None; of a text, its ASCII digits."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if isinstance(value, str) and not value.isascii():
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) <= 1e100 else None


def _baseline(given: str | None, variants: Sequence[str]) -> str:
    if len(variants) < 2:
        raise UserError(f"There is nothing to compare {', '.join(variants)} with: one variant.")
    if given is None:
        return variants[0]
    if given not in variants:
        near = did_you_mean(given, variants)
        raise UserError(f"There is no variant {given!r}.{near} Here are {', '.join(variants)}.")
    return given


def _known(metric: str, metrics: Collection[str]) -> None:
    if metric not in metrics:
        raise UserError(f"There is no metric {metric!r}; here are {', '.join(metrics)}.")


def _margins(words: Sequence[str], metrics: Collection[str]) -> dict[str, float]:
    """Margins by metric; one given for a metric wins over one given for all."""
    for_all, for_one = dict[str, float](), dict[str, float]()
    for word in words:
        metric, equals, text = word.rpartition("=")
        margin = _number(text)
        if margin is None or margin <= 0:
            raise UserError(f"--margin takes a number above 0, or METRIC=NUMBER; got {word}.")
        if equals:
            _known(metric, metrics)
            for_one[metric] = margin
        else:
            for_all = dict.fromkeys(metrics, margin)
    return for_all | for_one
