"""Results of any trainer, one number a seed, compared as our own are."""

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from rich.console import Console

from attnexp.errors import UserError
from attnexp.report import formats
from attnexp.report.tables import Table, by_seed, grounds
from attnexp.statistics.paired import MARGIN, Mean, Paired, paired
from attnexp.statistics.verdict import POINTS, Judgement, Unit, judge

SCHEMA = 1

LESS_IS_BETTER = re.compile(
    r"loss|(^|[^a-z])(error|err|nll|ppl|perplexity|brier|ece|mse|mae|wer|cer)"
)
"""Of metrics so named it is asked which way is better, even where they look like a share."""

Results = dict[str, dict[str, dict[str, float]]]
"""By metric, variant and seed."""


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


def read(path: Path, only: Sequence[str] = ()) -> Results:
    """Read csv or json: `variant`, `seed` and metrics, a row for each run.

    only: the metrics wanted; all other columns where empty. Raises `UserError`.
    """
    rows = _rows(path)
    columns = [name for name in rows[0] if name not in ("variant", "seed")]
    missing = [name for name in ("variant", "seed", *only) if name not in rows[0]]
    if missing or not columns:
        raise UserError(
            f"{path} lacks {', '.join(missing) or 'a metric'}; its columns are "
            f"{', '.join(rows[0])}. A row is one run: variant, seed and what it measured."
        )
    found: Results = {name: {} for name in only or columns}
    for number, row in enumerate(rows, start=1):
        if row.get("variant") in (None, "") or row.get("seed") in (None, ""):
            raise UserError(f"{path}, result {number}: variant or seed is empty.")
        variant, seed = str(row["variant"]), str(row["seed"])
        for name, by_variant in found.items():
            value = _number(row.get(name))
            if value is None:
                raise UserError(
                    f"{path}, result {number} ({variant}, seed {seed}): {name} is "
                    f"{row.get(name)!r}, which is no number. Leave the result out, or choose "
                    f"other metrics with --metric."
                )
            if seed in by_variant.setdefault(variant, {}):
                raise UserError(
                    f"{path}, result {number}: there are two of {variant}, seed {seed}. Seeds pair "
                    f"the variants, so each has one result."
                )
            by_variant[variant][seed] = value
    return found


def judge_results(
    results: Results,
    *,
    baseline: str | None = None,
    higher: Sequence[str] = (),
    lower: Sequence[str] = (),
    margins: Sequence[str] = (),
) -> list[Judged]:
    """Compare every variant with the baseline, metric by metric.

    Of a share (all values from 0 to 1, and no name of a loss or error) more is better and 0.25
    points do not matter, if nothing else is said. Of anything else both must be said, for both
    decide what a verdict means.

    baseline: the first variant if None. higher, lower: metrics of which more, or less, is better.
    margins: as `METRIC=NUMBER`, or a number for all; as the tables write differences, so in points
    of shares. Raises `UserError`.
    """
    variants = list(next(iter(results.values())))
    first = _baseline(baseline, variants)
    for name in (*higher, *lower):
        _known(name, results)
    said = _margins(margins, results)
    judged, unsaid = [], list[str]()
    for metric, by_variant in results.items():
        values = [value for by_seed in by_variant.values() for value in by_seed.values()]
        share = all(0 <= value <= 1 for value in values) and metric not in lower
        if metric in higher and metric in lower:
            raise UserError(f"--higher {metric} and --lower {metric} contradict each other.")
        told = metric in (*higher, *lower)
        if not told and not (share and not LESS_IS_BETTER.search(metric.lower())):
            unsaid.append(f"which way is better, with --higher {metric} or --lower {metric}")
        if not share and metric not in said:
            unsaid.append(f"which difference does not matter, as --margin {metric}=0.01")
        if unsaid:
            continue
        own = Unit(name="", scale=1, digits=".4g", less_is_better=metric in lower)
        unit = POINTS if share else own
        margin = said[metric] / unit.scale if metric in said else MARGIN
        ordered = {first: by_variant[first], **by_variant}
        judged.append(_judge(metric, unit, margin, ordered))
    if unsaid:
        raise UserError(f"Not every metric is a share of successes, so say {'; '.join(unsaid)}.")
    return judged


def to_json(judged: Sequence[Judged]) -> dict[str, Any]:
    """Every number at full precision."""
    return {"schema": SCHEMA, "metrics": [asdict(each) for each in judged]}


def show(judged: Sequence[Judged], console: Console) -> None:
    """Print the tables, and the verdicts last, as for runs of our own."""
    for table in [*map(_summary, judged), *(t for each in judged for t in _statistics(each))]:
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
    metric: str, unit: Unit, margin: float, by_variant: Mapping[str, Mapping[str, float]]
) -> Judged:
    baseline, *others = by_variant
    pairs = {
        label: paired(by_variant[label], by_variant[baseline], margin=margin) for label in others
    }
    shared = {label: pair for label, pair in pairs.items() if pair is not None}
    return Judged(
        metric=metric,
        unit=unit,
        margin=margin,
        variants={label: Mean.of([*values.values()]) for label, values in by_variant.items()},
        differences=shared,
        judgements=judge(shared, unit=unit),
    )


def _summary(judged: Judged) -> Table:
    unit = judged.unit
    rows = []
    for label, figure in judged.variants.items():
        spread = "" if figure.sd is None else f" ± {unit.plain(figure.sd)}"
        rows.append([label, str(figure.n), unit.plain(figure.mean) + spread])
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


def _statistics(judged: Judged) -> list[Table]:
    baseline = next(iter(judged.variants))
    return [
        Table(
            title=f"{label} − {baseline}",
            columns=[f"n = {pair.difference.n}", judged.metric],
            rows=grounds(
                {label: pair},
                {label: judged.judgements[label]},
                len(judged.differences),
                judged.unit,
            ),
            notes=[f"By seed: {by_seed(pair, judged.unit)}"],
        )
        for label, pair in judged.differences.items()
    ]


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        text = path.read_text("utf-8-sig")
        rows = (
            json.loads(text) if path.suffix == ".json" else list(csv.DictReader(io.StringIO(text)))
        )
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, csv.Error) as error:
        raise UserError(f"{path} is neither csv nor, named .json, json: {error}.") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UserError(f'{path} holds no list of results, as [{{"variant": ..., "seed": ...}}].')
    if not rows:
        raise UserError(f"{path} holds no result. A row is one run: variant, seed, its metrics.")
    if None in {name for row in rows for name in row}:
        raise UserError(f"{path} has a row with more cells than columns.")
    return rows


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
        near = get_close_matches(given, variants, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise UserError(f"There is no variant {given!r}.{hint} Here are {', '.join(variants)}.")
    return given


def _known(metric: str, results: Results) -> None:
    if metric not in results:
        raise UserError(f"There is no metric {metric!r}; here are {', '.join(results)}.")


def _margins(words: Sequence[str], results: Results) -> dict[str, float]:
    """By metric. What is said of one counts more than what is said of all."""
    of_all, of_one = dict[str, float](), dict[str, float]()
    for word in words:
        metric, equals, text = word.rpartition("=")
        margin = _number(text)
        if margin is None or margin <= 0:
            raise UserError(f"--margin takes a number above 0, or METRIC=NUMBER; got {word}.")
        if equals:
            _known(metric, results)
            of_one[metric] = margin
        else:
            of_all = dict.fromkeys(results, margin)
    return of_all | of_one
