"""Results of any trainer as groups: a row for each run, or for each answer to an example."""

import math
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from attnexp.analysis.frames import Group
from attnexp.base.errors import UserError
from attnexp.config.options import did_you_mean
from attnexp.data.tables import read_rows
from attnexp.statistics.verdict import Metric

KEYS = ["data", "variant", "seed"]
NO_METRICS = {*KEYS, "example", "correct", "epoch", "step", ""}
ACCURACY = ("acc", "accuracy")  # endings of the names of columns that hold one
TRUTH, BITS = {"true": "1", "false": "0"}, ["1", "0", "1.0", "0.0", ""]


def read_results(
    given: "Sequence[str | PathLike[str]] | pd.DataFrame",
    columns: Sequence[str] = (),
    *,
    variant_column: str = "variant",
    seed_column: str = "seed",
    baseline: str | None = None,
    sequential: bool = False,
) -> list[Group]:
    """Groups of files (csv, tsv, json, jsonl, parquet) or a data frame: one for each value of a
    column `dataset`. The others are compared with `baseline`, the first variant if None.

    A row has variant, seed and the metrics of a run; or variant, seed, example and correct (1 or 0)
    of an answer. columns: metrics to read; all numbers if empty. sequential: whether seeds were
    added because of results. Raises `UserError`.
    """
    name = "results"
    if not isinstance(given, pd.DataFrame):
        name = Path(given[0]).name.partition(".")[0] if len(given) == 1 else name
        given = pd.concat([pd.DataFrame(read_rows(Path(file))) for file in given])
    cells = given.rename(columns=str).astype("string").fillna("").reset_index(drop=True)
    _check([variant_column, seed_column], cells, "Name them with --variant-column, --seed-column.")
    keys = {variant_column: "variant", seed_column: "seed", "dataset": "data"}
    kept = [name for name in cells if name in keys or name not in keys.values()]
    cells = pd.DataFrame({"data": name, **cells[kept].rename(columns=keys)})
    cells["seed"] = cells["seed"].str.replace(r"\.0*$", "", regex=True)  # pandas' 1.0 is 1
    if "example" in cells:
        _check(["correct"], cells, "Answers by example need it, 1 or 0.")
        right = cells["correct"].str.lower().replace(TRUTH)
        cells["accuracy"] = right.where(right.isin(BITS), right + ", which is neither 1 nor 0")
        columns = [*dict.fromkeys([*columns, "accuracy"])]
    numbers = cells.drop(columns=KEYS).apply(pd.to_numeric, errors="coerce").astype(float)
    numbers = numbers.mask(numbers.abs() == math.inf)
    filled = {name for name in numbers if name.lower().endswith(ACCURACY) and any(cells[name])}
    filled |= {*numbers.dropna(axis=1, how="all")} - NO_METRICS
    metrics = [*columns] if columns and len(cells) else [n for n in numbers if n in filled]
    _check(metrics or ["of numbers"], numbers, "Choose with --columns.")  # none has this name
    empty = cells[metrics].eq("").any(axis=1)
    wrong = cells[(~empty | empty.all()) & numbers[metrics].isna().any(axis=1)]
    if len(wrong):
        raise UserError(f"{_run(wrong)}: not all numbers: {wrong[metrics].iloc[0].to_dict()}.")
    rows = cells.drop(columns=metrics).join(numbers[metrics])[~empty]
    twice = rows[rows.duplicated(rows.columns.intersection([*KEYS, "example"]))]
    if len(twice):
        said = "has more than one result. Give one row, of the epoch that you declared, or a column"
        raise UserError(f"{_run(twice)} {said} example.")
    baseline = baseline or cells["variant"][0]
    by_data = rows.groupby("data", sort=False)
    groups = [_group(str(data), own, metrics, baseline, sequential) for data, own in by_data]
    if empty.any():
        groups[0].notes.append(f"Left out: {empty.sum():,} rows with an empty cell.")
    return groups


def _group(data: str, rows: pd.DataFrame, metrics: list[str], base: str, sequential: bool) -> Group:
    variants = [*rows["variant"].unique()]
    if base not in variants or len(variants) < 2:
        near = did_you_mean(base, {*variants} - {base})
        there = f"{near} In rows without an empty cell there is {', '.join(variants)}."
        raise UserError(f"{data}: {base} has nothing to be compared with.{there}")
    runs = [*rows.sort_values("example").groupby(["variant", "seed"])] if "example" in rows else []
    same = len({tuple(of["example"]) for _, of in runs}) == 1
    means = rows.groupby(KEYS, sort=False)[metrics].mean().rename_axis(columns="metric").stack()
    long = means.reset_index(name="value").assign(protocol="", point="result", epoch=math.nan)
    return Group(
        data=data,
        protocol="",
        variants=sorted(variants, key=lambda name: name != base),
        points=["result"],
        endpoints=long,
        epochs=long.iloc[:0],
        right={(*run, "result"): of["accuracy"].to_numpy(bool) for run, of in runs if same},
        num_texts={"result": min(len(of) for _, of in runs)} if runs else {},
        notes=["Not all runs answered the same examples."] if runs and not same else [],
        sequential=frozenset(variants if sequential else ()),
    )


def metrics_of(
    groups: Sequence[Group], higher: Sequence[str], lower: Sequence[str], margins: Sequence[str]
) -> Iterator[Metric]:
    """The metrics that are judged: accuracies, and those of which more is better (higher) or less
    (lower). margins: METRIC=NUMBER, or a number for all, in the unit of the tables. Raises
    `UserError` where a direction or margin is wrong, or missing."""
    rows = pd.concat([group.endpoints for group in groups], ignore_index=True)
    values = dict(iter(rows.groupby("metric", sort=False)["value"]))
    words = [word.rpartition("=") for word in margins]
    given = {name: pd.to_numeric(number, errors="coerce") for name, _, number in words}
    for_all = given.pop("", None)
    _check([*higher, *lower, *given], values, "Choose with --columns.")
    known = {name for name in values if name.lower().endswith(ACCURACY)}
    for name in [each for each in values if each in {*known, *higher, *lower, *given}] or values:
        usual = 0.25 if name in known else 0
        margin = float(given.get(name, usual if for_all is None else for_all))
        if name not in {*known, *higher, *lower} - ({*higher} & {*lower}) or not margin > 0:
            raise UserError(
                f"Say which direction of {name} is better, and the smallest difference that "
                f"matters, above 0: --higher {name} or --lower {name} --margin {name}=0.01"
            )
        low, high = values[name].min(), values[name].max()
        is_share = name in known and low >= 0 and high <= 1
        if name in known and not is_share and 0 < low <= 1:
            where = _run(rows.loc[[values[name].idxmin()]])
            raise UserError(f"{where}: {name} is {low:g} beside {high:g}. Write all as per cent.")
        better, margin = name not in lower, margin / (100 if is_share else 1)
        yield Metric(name=name, is_share=is_share, higher_is_better=better, margin=margin)


def _run(rows: pd.DataFrame) -> str:
    variant, seed, data = rows.iloc[0][["variant", "seed", "data"]]
    return f"{variant}, seed {seed} on {data}"


def _check(names: Sequence[str], there: "pd.DataFrame | dict[str, Any]", cure: str) -> None:
    for name in names:
        if name not in there:
            hint = did_you_mean(name, there)
            listed = ", ".join(there)
            raise UserError(f"There is no column {name}.{hint} There are {listed}. {cure}")
