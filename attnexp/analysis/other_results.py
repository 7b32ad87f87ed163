"""Results of any trainer as a results table: numbers of each run, or an answer to each example."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from os import PathLike
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from attnexp.analysis import logs
from attnexp.analysis.comparison import Comparison, compare_results
from attnexp.analysis.metrics import Metric, choose_metrics, is_in_percent, known_by_name, to_number
from attnexp.analysis.results import Bits, Results, Row
from attnexp.base.errors import UserError, check_name
from attnexp.base.progress import note
from attnexp.config.schema import did_you_mean
from attnexp.data.tables import read_rows

if TYPE_CHECKING:
    from pandas import DataFrame

DATASET = "dataset"
"""Column of files with results on several data sets."""

EXAMPLE = "example"
"""Column of files whose rows are examples instead of runs."""

RIGHT, WRONG = ("1", "1.0", "true"), ("0", "0.0", "false")
"""Accepted values in the column `correct`."""

WHOLE = re.compile(r"(0|-?[1-9][0-9]*)\.0*")
"""A whole number as pandas writes it in a column with a gap."""

RESULT = "result"
"""Name of the one evaluation point of such results."""

Given = str | PathLike[str]
"""A file or folder."""

Place = tuple[str, dict[str, Any]]
"""Name of a row in messages, and its cells."""

Run = tuple[str, str]
"""Variant and seed."""


def read_results(
    given: "Given | Sequence[Given] | DataFrame",
    only: Sequence[str] = (),
    *,
    variant_column: str = "variant",
    seed_column: str = "seed",
) -> list[Results]:
    """Read a data frame, or files of a kind that `data=files` reads, with the columns `variant`,
    `seed` and metrics: a row for each run. A column `dataset` splits it: a table for each data set.

    Or a row for each example: `variant`, `seed`, `example` and `correct`, or `prediction` and
    `label`. The share of right answers is then the only metric, `accuracy`. Or a log that
    `logs.py` knows, or a folder of such logs.

    only: names of the metrics to read; all of them if empty. Known rates, such as accuracy, may be
    written in per cent; they are read as shares. Raises `UserError`.
    """
    wanted = [variant_column, seed_column]
    name_of_data, tables, metrics = _tables(given, only, [*wanted, DATASET])
    for where, rows in tables:
        for name in rows[0]:
            check_name(str(name), f"{where}: a column")
    first = tables[0][1][0]
    columns = [name for name in first if name not in (*wanted, "variant", "seed", DATASET)]
    by_example = EXAMPLE in columns
    if by_example:
        if metrics is not None:
            note(f"Read as accuracy: {', '.join(metrics)}.")
            only = []
        columns = ["accuracy"]
        wanted += ["correct"] if "correct" in first else ["prediction", "label"]
    elif metrics is not None:
        columns = metrics
    names = {variant_column: "variant", seed_column: "seed"}
    by_data: dict[str, list[Place]] = {}
    for where, rows in tables:
        missing = [f"no column {name}" for name in wanted if name not in rows[0]]
        has = [name for name in columns if by_example or name in rows[0]]
        missing += [f"no metric {name!r}" for name in only or columns if name not in has]
        if missing or not columns:
            raise UserError(
                f"{where} has {', '.join(missing) or 'no metric'}; its columns are "
                f"{', '.join(rows[0])}. A row is one run: variant, seed and what it measured; or "
                f"one example: variant, seed, example and correct, or prediction and label. Other "
                f"names are given with --variant-column, --seed-column and --columns."
            )
        kept = [name for name in rows[0] if name in names or name not in ("variant", "seed")]
        for number, row in enumerate(rows, start=1):
            place = f"{where}, result {number}"
            found = {names.get(name, name): row.get(name) for name in kept}
            data = _name(place, found, DATASET) if DATASET in found else name_of_data
            by_data.setdefault(data, []).append((place, found))
    if by_example:
        where = ", ".join(dict(tables))
        return [_of_examples(where, data, places) for data, places in by_data.items()]
    values = {data: _of_runs(places, only or columns) for data, places in by_data.items()}
    every = [measured for runs in values.values() for measured in runs.values()]
    percent = [name for name in every[0] if is_in_percent(name, [of[name] for of in every])]
    for name, measured in product(percent, every):
        measured[name] /= 100
    if percent:
        note(f"Read as per cent, since values are above 1: {', '.join(percent)}.")
    for name in percent:
        most: dict[str, float] = {}
        for runs in values.values():
            for (variant, _), measured in runs.items():
                most[variant] = max(measured[name], most.get(variant, 0.0))
        if small := [variant for variant, value in most.items() if 0 < value <= 0.01]:
            note(
                f"{name} of {', '.join(small)} is at most 1 %. If it was written as shares, write "
                f"it in per cent, as the others."
            )
    return [_results(data, runs, {}) for data, runs in values.items()]


def _of_runs(places: Sequence[Place], metrics: Sequence[str]) -> dict[Run, dict[str, float]]:
    """Metrics of every run, where each has a row."""
    runs: dict[Run, dict[str, float]] = {}
    for place, row in places:
        variant, seed = (_name(place, row, column) for column in ("variant", "seed"))
        if (variant, seed) in runs:
            raise UserError(
                f"{place}: {variant} has two results of seed {seed}. Seeds pair the variants, so "
                f"each has one result. (For results by example, add the column {EXAMPLE}, for "
                f"several data sets the column {DATASET}.)"
            )
        runs[variant, seed] = {}
        for name in metrics:
            value = to_number(row.get(name))
            if value is None:
                raise UserError(
                    f"{place} ({variant}, seed {seed}): {name} is {row.get(name)!r}, which is not "
                    f"a number (decimals have a point). Correct it, remove the result, or choose "
                    f"metrics with --columns."
                )
            runs[variant, seed][name] = value
    return runs


def _results(
    data: str,
    values: Mapping[Run, Mapping[str, float]],
    right: Mapping[Run, Bits],
    same_texts: Sequence[str] = (),
    num_texts: int | None = None,
) -> Results:
    return Results(
        rows=[
            Row(data, "", variant, seed, RESULT, metric, value)
            for (variant, seed), metrics in values.items()
            for metric, value in metrics.items()
        ],
        points={RESULT: "one number a seed"},
        right=lambda variant, seed: (
            {RESULT: right[variant, seed]} if (variant, seed) in right else {}
        ),
        same_texts=same_texts,
        num_texts={} if num_texts is None else {RESULT: num_texts},
    )


def _of_examples(where: str, data: str, places: Sequence[Place]) -> Results:
    """The table of one data set, where each example has a row."""
    right: dict[str, dict[str, dict[str, bool]]] = {}
    if "correct" not in places[0][1]:
        _check_answers(where, places)
    for place, row in places:
        variant, seed, example = (_name(place, row, name) for name in ("variant", "seed", EXAMPLE))
        found = right.setdefault(variant, {}).setdefault(seed, {})
        if example in found:
            raise UserError(
                f"{place}: {variant} has two answers to example {example} with seed {seed}."
            )
        found[example] = _is_right(place, row)
    for seed in dict.fromkeys(seed for runs in right.values() for seed in runs):
        runs = {variant: found[seed] for variant, found in right.items() if seed in found}
        (first, expected), *others = runs.items()
        for variant, found in others:
            if alone := expected.keys() ^ found.keys():
                raise UserError(
                    f"{where}: with seed {seed} on {data}, {first} and {variant} answered "
                    f"different examples (only one answered {min(alone)}), so they do not pair."
                )
    answers = {
        (variant, seed): found for variant, runs in right.items() for seed, found in runs.items()
    }
    same_texts = len({frozenset(found) for found in answers.values()}) == 1
    return _results(
        data,
        {run: {"accuracy": fmean(found.values())} for run, found in answers.items()},
        {run: np.array([found[name] for name in sorted(found)]) for run, found in answers.items()},
        [RESULT] if same_texts else [],
        min(map(len, answers.values())),
    )


def _is_right(place: str, row: Mapping[str, Any]) -> bool:
    if "correct" not in row:
        answer, label = (_text(place, row, name) for name in ("prediction", "label"))
        return answer == label
    text = str(row["correct"]).strip().lower()
    if text not in RIGHT + WRONG:
        raise UserError(f"{place}: correct is {row['correct']!r}; write 1 or 0.")
    return text in RIGHT


def _check_answers(where: str, places: Sequence[Place]) -> None:
    """Raise `UserError` if no prediction is any example's label."""
    answers, labels = (
        {_text(place, row, name) for place, row in places} for name in ("prediction", "label")
    )
    if not answers & labels:
        given = " and ".join(
            f"{', '.join(sorted(found)[:3])} under {name}"
            for found, name in ((answers, "prediction"), (labels, "label"))
        )
        raise UserError(
            f"{where}: no prediction equals a label (there are {given}). Write both in the same "
            f"way; or give the column correct, 1 or 0, if all are wrong."
        )


def _name(place: str, row: Mapping[str, Any], column: str) -> str:
    """A cell that names something in tables, as `_text` reads it."""
    return check_name(_text(place, row, column), f"{place}: {column}")


def _text(place: str, row: Mapping[str, Any], column: str) -> str:
    """A cell that must not be empty, as text without spaces around it. A whole number may be
    written `1.0`, as pandas does in a column with a gap: it is `1`."""
    value = row.get(column)
    text = "" if value is None else str(value).strip()
    if not text:
        raise UserError(f"{place}: {column} is empty.")
    whole = WHOLE.fullmatch(text)
    return whole[1] if whole else text


def judge_results(
    results: Sequence[Results],
    *,
    baseline: str | None = None,
    higher: Sequence[str] = (),
    lower: Sequence[str] = (),
    margins: Sequence[str] = (),
    sequential: bool = False,
) -> list[Comparison]:
    """Compare every variant with the baseline, metric by metric, on each data set.

    For a share (all values from 0 to 1) the default margin is 0.25 points. Names tell for
    successes, such as accuracy or macro_f1, that more is better, and for losses, such as val_loss,
    that less is. For any other metric the direction must be given, and for any but shares the
    margin: they decide what a verdict means.

    baseline: name of a variant; None for the first. higher, lower, margins: as `choose_metrics`
    has them. sequential: whether seeds were added because of results. Raises `UserError`.
    """
    values: dict[str, list[float]] = {}
    for row in (row for found in results for row in found.rows):
        values.setdefault(row.metric, []).append(row.value)
    first = baseline or results[0].variants[0]
    for found in results:
        variants, data = found.variants, found.rows[0].data
        if len(variants) < 2:
            raise UserError(
                f"There is nothing to compare {variants[0]} with on {data}: one variant."
            )
        if first not in variants:
            raise UserError(
                f"There is no variant {first!r} on {data}.{did_you_mean(first, variants)} Here are "
                f"{', '.join(variants)}."
            )
    known = {name: known_by_name(name, of, lower) for name, of in values.items()}
    metrics = choose_metrics(known, higher=higher, lower=lower, margins=margins)
    if sequential:
        results = [replace(found, sequential=found.variants) for found in results]
    return [_judge(found, first, metrics) for found in results]


def _judge(results: Results, baseline: str, metrics: dict[str, Metric]) -> Comparison:
    ordered = sorted(results.rows, key=lambda row: row.variant != baseline)
    compared = compare_results(replace(results, rows=ordered), metrics)
    if not any(compared.differences.values()):
        seeds = "; ".join(f"{one.label} has {', '.join(one.seeds)}" for one in compared.variants)
        raise UserError(
            f"No variant shares a seed with {baseline} on {compared.data}, so nothing pairs: "
            f"{seeds}."
        )
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


def _tables(
    given: "Given | Sequence[Given] | DataFrame", only: Sequence[str], keys: Sequence[str]
) -> tuple[str, list[tuple[str, list[dict[str, Any]]]], list[str] | None]:
    """Name of the data set where no column has one; of each source its name in messages and its
    rows (at least one); and the metrics of a log."""
    name = "results"
    if isinstance(given, (str, PathLike)):
        given = [given]
    if isinstance(given, Sequence):
        name = Path(given[0]).name.partition(".")[0] if len(given) == 1 else name
        files = [file for path in given for file in logs.log_files(Path(path))]
        read: list[tuple[Path | None, list[dict[str, Any]]]]
        read = [(file, read_rows(file).to_dict("records")) for file in files]
    else:
        cells = given.rename(columns=str).astype(object)
        if twice := [*cells.columns[cells.columns.duplicated()]]:
            raise UserError(f"The frame has more than one column {twice[0]}. Leave one.")
        read = [(None, cells.where(cells.notna(), None).to_dict("records"))]
    tables = list[tuple[str, list[dict[str, Any]]]]()
    metrics: dict[str, None] | None = None
    for file, rows in read:
        where = str(file or "The frame")
        if not rows:
            raise UserError(
                f"{where} has no results. A row is one run: variant, seed and its metrics."
            )
        if log := logs.read_log(rows, file, only, keys):
            rows, of_log = log
            metrics = (metrics or {}) | dict.fromkeys(of_log)
        tables.append((where, rows))
    return name, tables, None if metrics is None else [*metrics]
