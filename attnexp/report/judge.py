"""Results of any trainer, a number a seed or an answer an example, compared as our own are."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from rich.console import Console

from attnexp.base.errors import UserError
from attnexp.config.schema import did_you_mean
from attnexp.data.tables import read_rows
from attnexp.report import formats
from attnexp.report.tables import Table, by_seed, grounds, mean_and_sd
from attnexp.statistics.paired import MARGIN, McNemar, Mean, Paired, mcnemar, paired
from attnexp.statistics.verdict import POINTS, Judgement, Unit, judge

if TYPE_CHECKING:
    from pandas import DataFrame

SCHEMA = 1

SHARES_OF_SUCCESS = frozenset(
    "acc accuracy auc auroc auprc correct dice em exact f1 fscore iou map match mrr ndcg precision "
    "recall sensitivity specificity success top1 top5 win wins".split()
)
OF_FAILURE = frozenset("change drop err error errors gap loss losses std var".split())
"""Words of a metric's name. One of the first and none of the second: more is better. Of all others
it is asked, for nothing tells an F from an error that both lie between 0 and 1."""

EXAMPLE = "example"
"""The column that a file has whose rows are examples, not runs."""

RIGHT, WRONG = ("1", "1.0", "true"), ("0", "0.0", "false")
"""What may stand under `correct`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Results:
    """What was measured."""

    metrics: dict[str, dict[str, dict[str, float]]]
    """By metric, variant and seed."""
    right: dict[str, dict[str, dict[str, bool]]] = field(default_factory=dict)
    """Whether each example was right, by variant, seed and example; empty where rows are runs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """One metric of all variants; the first is the baseline."""

    metric: str
    unit: Unit
    margin: float
    """Differences within ± this count as none; in the metric's own unit."""
    variants: dict[str, Mean]
    differences: dict[str, Paired]
    """Variant minus baseline; without those that share no seed with it."""
    judgements: dict[str, Judgement]
    """With Holm over the variants."""
    mcnemar: dict[str, dict[str, McNemar]]
    """By variant and seed: who was right where the baseline was wrong, example by example; empty
    where rows are runs."""


def read(given: "str | PathLike[str] | DataFrame", only: Sequence[str] = ()) -> Results:
    """Read a frame, or a file of a kind that `data=files` reads: `variant`, `seed` and metrics, a
    row for each run.

    Or a row for each example: `variant`, `seed`, `example` and `correct`, or `prediction` and
    `label`. Their share of right answers is the one metric, `accuracy`.

    only: the metrics wanted; all other columns where empty. Raises `UserError`.
    """
    where, rows = _rows(given)
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
    found: dict[str, dict[str, dict[str, float]]] = {name: {} for name in only or columns}
    for number, row in enumerate(rows, start=1):
        variant, seed = (_name(where, number, row, column) for column in ("variant", "seed"))
        for name, by_variant in found.items():
            value = _number(row.get(name))
            if value is None:
                raise UserError(
                    f"{where}, result {number} ({variant}, seed {seed}): {name} is "
                    f"{row.get(name)!r}, which is no number (decimals have a point). "
                    f"Mend it, leave the result out, or choose other metrics with --metric."
                )
            if seed in by_variant.setdefault(variant, {}):
                raise UserError(
                    f"{where}, result {number}: there are two of {variant}, seed {seed}. Seeds "
                    f"pair the variants, so each has one result. (Of results by example, give the "
                    f"column {EXAMPLE}.)"
                )
            by_variant[variant][seed] = value
    return Results(metrics=found)


def _is_success(metric: str) -> bool:
    words = {*re.split(r"[^a-z0-9]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", metric).lower())}
    return bool(words & SHARES_OF_SUCCESS) and not words & OF_FAILURE


def _of_examples(where: str, rows: Sequence[dict[str, Any]]) -> Results:
    """Accuracies from a row for each example."""
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
    accuracy = {
        variant: {seed: fmean(found.values()) for seed, found in runs.items()}
        for variant, runs in right.items()
    }
    return Results(metrics={"accuracy": accuracy}, right=right)


def _is_right(where: str, number: int, row: Mapping[str, Any]) -> bool:
    if "correct" not in row:
        answer, label = (_answer(where, number, row, name) for name in ("prediction", "label"))
        return answer == label
    said = str(row["correct"]).strip().lower()
    if said not in RIGHT + WRONG:
        raise UserError(f"{where}, result {number}: correct is {row['correct']!r}; write 1 or 0.")
    return said in RIGHT


def _answer(where: str, number: int, row: Mapping[str, Any], column: str) -> str | float:
    """A class, which as a number may be written `1` or `1.0`."""
    text = _name(where, number, row, column).strip()
    value = _number(text)
    return text if value is None else value


def _check_answers(where: str, rows: Sequence[dict[str, Any]]) -> None:
    """Raise where labels and predictions are of two kinds."""
    answers, labels = (
        {_answer(where, number, row, name) for number, row in enumerate(rows, start=1)}
        for name in ("prediction", "label")
    )
    if not answers & labels:
        given = " and ".join(
            f"{', '.join(sorted(map(str, found))[:3])} under {name}"
            for found, name in ((answers, "prediction"), (labels, "label"))
        )
        raise UserError(
            f"{where}: no prediction is any example's label (there are {given}). Write both in the "
            f"same way; or give the column correct, 1 or 0, if all are wrong."
        )


def _name(where: str, number: int, row: Mapping[str, Any], column: str) -> str:
    """A cell that must not be empty, as text."""
    value = row.get(column)
    if value in (None, ""):
        raise UserError(f"{where}, result {number}: {column} is empty.")
    return str(value)


def judge_results(
    results: Results,
    *,
    baseline: str | None = None,
    higher: Sequence[str] = (),
    lower: Sequence[str] = (),
    margins: Sequence[str] = (),
) -> list[Judged]:
    """Compare every variant with the baseline, metric by metric.

    Of a share (all values from 0 to 1) 0.25 points do not matter, and where its name is one of
    successes, as accuracy or macro_f1, more is better, if nothing else is said. All else must be
    said, for it decides what a verdict means.

    baseline: the first variant if None. higher, lower: metrics of which more, or less, is better.
    margins: as `METRIC=NUMBER`, or a number for all; as the tables write differences, so in points
    of shares. Raises `UserError`.
    """
    metrics = results.metrics
    variants = list(next(iter(metrics.values())))
    first = _baseline(baseline, variants)
    for name in (*higher, *lower):
        _known(name, metrics)
    said = _margins(margins, metrics)
    judged, unsaid = [], list[str]()
    for metric, by_variant in metrics.items():
        values = [value for by_seed in by_variant.values() for value in by_seed.values()]
        share = all(0 <= value <= 1 for value in values) and metric not in lower
        if metric in higher and metric in lower:
            raise UserError(f"--higher {metric} and --lower {metric} contradict each other.")
        told = metric in (*higher, *lower)
        if not told and not (share and _is_success(metric)):
            more = "" if metric in said or not share else f" and --margin {metric}=0.01"
            unsaid.append(f"which way is better, with --higher {metric}, or --lower {metric}{more}")
        if not share and metric not in said:
            unsaid.append(f"which difference does not matter, as --margin {metric}=0.01")
        if unsaid:
            continue
        own = Unit(name="", scale=1, digits=".4g", less_is_better=metric in lower)
        unit = POINTS if share else own
        margin = said[metric] / unit.scale if metric in said else MARGIN
        ordered = {first: by_variant[first], **by_variant}
        judged.append(_judge(metric, unit, margin, ordered, results.right))
    if unsaid:
        raise UserError(
            f"Not every metric is known to be a share of successes, so say {'; '.join(unsaid)}."
        )
    return judged


def to_json(judged: Sequence[Judged]) -> dict[str, Any]:
    """Every number at full precision."""
    return {"schema": SCHEMA, "metrics": [asdict(each) for each in judged]}


def show(judged: Sequence[Judged], console: Console) -> None:
    """Print the tables, and the verdicts last, as for runs of our own."""
    for table in [*map(summary, judged), *(t for each in judged for t in statistics(each))]:
        formats.show_table(table, console)
        console.print()
    for each in judged:
        baseline = next(iter(each.variants))
        formats.show_verdicts(
            (
                (f"{label} against {baseline}, {each.metric}", found.verdict, found.line)
                for label, found in each.judgements.items()
            ),
            console,
        )


def _judge(
    metric: str,
    unit: Unit,
    margin: float,
    by_variant: Mapping[str, Mapping[str, float]],
    right: Mapping[str, Mapping[str, Mapping[str, bool]]],
) -> Judged:
    baseline, *others = by_variant
    pairs = {
        label: paired(by_variant[label], by_variant[baseline], margin=margin) for label in others
    }
    shared = {label: pair for label, pair in pairs.items() if pair is not None}
    if not shared:
        seeds = {label: ", ".join(found) for label, found in by_variant.items()}
        told = "; ".join(f"{label} has {found}" for label, found in seeds.items())
        raise UserError(f"No variant shares a seed with {baseline}, so nothing pairs: {told}.")
    return Judged(
        metric=metric,
        unit=unit,
        margin=margin,
        variants={label: Mean.of([*values.values()]) for label, values in by_variant.items()},
        differences=shared,
        judgements=judge(shared, unit=unit),
        mcnemar={
            label: {
                seed: _mcnemar(right[label][seed], right[baseline][seed]) for seed in pair.by_seed
            }
            for label, pair in shared.items()
            if right
        },
    )


def _mcnemar(variant: Mapping[str, bool], baseline: Mapping[str, bool]) -> McNemar:
    return mcnemar([variant[example] for example in baseline], [*baseline.values()])


def summary(judged: Judged) -> Table:
    """Every variant's mean."""
    unit = judged.unit
    rows = [
        [label, str(figure.n), mean_and_sd(figure, unit.plain)]
        for label, figure in judged.variants.items()
    ]
    baseline, *others = judged.variants
    better = "less" if unit.less_is_better else "more"
    return Table(
        title=judged.metric,
        columns=["variant", "n", "in %" if unit is POINTS else "own unit"],
        rows=rows,
        notes=[
            *(
                f"{label} and {baseline} share no seed, so they are not compared."
                for label in others
                if label not in judged.differences
            ),
            f"Mean ± standard deviation over seeds. Of this metric, {better} is better.",
        ],
    )


def statistics(judged: Judged) -> list[Table]:
    """A table for each difference from the baseline."""
    baseline = next(iter(judged.variants))
    return [
        Table(
            title=f"{label} − {baseline}",
            columns=[f"n = {pair.difference.n}", judged.metric],
            rows=grounds(
                {label: pair},
                {label: judged.judgements[label]},
                len(judged.differences),
                {label: judged.mcnemar.get(label, {})},
                judged.unit,
            ),
            notes=[f"By seed: {by_seed(pair, judged.unit)}"],
        )
        for label, pair in judged.differences.items()
    ]


def _rows(given: "str | PathLike[str] | DataFrame") -> tuple[str, list[dict[str, Any]]]:
    """What to call it, and a mapping for each row, one at least."""
    if isinstance(given, (str, PathLike)):
        where, rows = str(given), read_rows(Path(given))
    else:
        cells = given.rename(columns=str).astype(object)
        if twice := [*cells.columns[cells.columns.duplicated()]]:
            raise UserError(f"The frame has more than one column {twice[0]}. Leave one.")
        where, rows = "The frame", cells.where(cells.notna(), None).to_dict("records")
    if not rows:
        raise UserError(f"{where} holds no result. A row is one run: variant, seed, its metrics.")
    return where, rows


def _number(value: object) -> float | None:
    """A number whose square is finite, else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
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
    """By metric. What is said of one counts more than what is said of all."""
    of_all, of_one = dict[str, float](), dict[str, float]()
    for word in words:
        metric, equals, text = word.rpartition("=")
        margin = _number(text)
        if margin is None or margin <= 0:
            raise UserError(f"--margin takes a number above 0, or METRIC=NUMBER; got {word}.")
        if equals:
            _known(metric, metrics)
            of_one[metric] = margin
        else:
            of_all = dict.fromkeys(metrics, margin)
    return of_all | of_one
