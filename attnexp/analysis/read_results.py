"""Results of any trainer as groups: a row for each run, or for each answer to an example."""

import math
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path

import pandas as pd

from attnexp.analysis.endpoints import RESULT
from attnexp.analysis.families import differences_from
from attnexp.analysis.group import Group, Key, Marks
from attnexp.analysis.metrics import ACCURACY, METRIC_OF_COLUMN, with_margin
from attnexp.base.errors import UserError, did_you_mean, join_names
from attnexp.data.read import read_table
from attnexp.statistics.verdict import MetricSpec


def read_results(
    results: "Sequence[str | PathLike[str]] | pd.DataFrame",
    metric: str = ACCURACY.name,
    *,
    lower: bool = False,
    margin: float | None = None,
    baseline: str | None = None,
    variant_column: str = "variant",
    seed_column: str = "seed",
    dataset_column: str = "dataset",
    sequential: bool = False,
) -> tuple[list[Group], MetricSpec]:
    """A group for each data set of files (csv, tsv, json, jsonl, parquet) or a frame; the metric.

    A row has variant, seed and the metric of a run; or variant, seed, example and correct (1 or 0)
    of an answer, whose metric is accuracy. lower: less is better. margin: the smallest difference
    that matters, in points or in the metric's own unit. baseline: the first variant if None.
    Without `dataset`, `data` is taken. sequential: seeds follow results. Raises `UserError`."""
    cells = _read_cells(results)
    if dataset_column == "dataset" and "dataset" not in cells:
        has_data = "data" in cells and "data" not in (variant_column, seed_column)
        cells["dataset"] = cells["data"] if has_data else "results"
    column_of = {"data": dataset_column, "variant": variant_column, "seed": seed_column}
    if metric == ACCURACY.name and "example" in cells:
        column_of |= {"value": "correct", "example": "example"}
    else:
        column_of["value"] = metric
    rows = _read_numbers(_choose_columns(cells, column_of), column_of["value"])
    other_cells = cells.drop(columns=list(column_of.values()))
    _refuse_repeated(rows, other_cells)
    rows, spec = _find_unit(rows, metric, lower)
    spec = with_margin(spec, margin)
    first = baseline or rows["variant"].iloc[0]
    notes = _note_unused(other_cells, rows, spec)
    by_data = rows.groupby("data", sort=False)
    groups = [_group_data(data, own, metric, first, sequential, notes) for data, own in by_data]
    return groups, spec


def _read_cells(results: "Sequence[str | PathLike[str]] | pd.DataFrame") -> pd.DataFrame:
    """All rows, numbered from 1, with cells as texts without blanks around. Raises `UserError`."""
    if not isinstance(results, pd.DataFrame):
        if not results:
            raise UserError("There is no file of results.")
        results = pd.concat([read_table(Path(path)) for path in results])
    cells = results.rename(columns=str).astype("string").fillna("")
    cells = cells.apply(lambda column: column.str.strip())
    cells.index = pd.RangeIndex(1, len(cells) + 1)
    return cells.drop(columns="", errors="ignore")  # such as pandas' index


def _choose_columns(cells: pd.DataFrame, column_of: dict[str, str]) -> pd.DataFrame:
    """Rows with a value; of them these columns, under their new names. Raises `UserError`."""
    for column in column_of.values():
        if column not in cells:
            hint = did_you_mean(column, cells)
            listed = join_names(cells)
            raise UserError(
                f"There is no column {column}.{hint} There are {listed}. Choose with --metric, "
                "--variant-column, --seed-column, --dataset-column."
            )
    rows = cells[list(column_of.values())].set_axis(list(column_of), axis=1)
    rows = rows[rows["value"] != ""]
    if rows.empty:
        raise UserError(f"There are no rows with {column_of['value']}.")
    _refuse_any(rows[(rows == "").any(axis=1)], "has an empty cell")
    return rows


def _read_numbers(rows: pd.DataFrame, value_name: str) -> pd.DataFrame:
    """Rows with values as numbers, and seeds as texts, 1.0 as 1. Raises `UserError`."""
    texts = rows["value"].str.lower()
    values = texts.replace({"true": "1", "false": "0"})
    numbers = pd.to_numeric(values, errors="coerce").astype(float)
    is_number = numbers.abs() < math.inf
    _refuse_any(rows[~is_number], f"has no number as {value_name}")
    # pandas makes 1.0 of 1 beside empty cells.
    seeds = rows["seed"].str.replace(r"^(-?\d+)\.0$", r"\1", regex=True)
    return rows.assign(value=numbers, seed=seeds)


def _refuse_any(rows: pd.DataFrame, problem: str) -> None:
    """Raise `UserError` that names the first of these rows, if there is one."""
    if len(rows):
        row = rows.iloc[0]
        listed = ", ".join(map(str, row))
        raise UserError(f"Row {row.name} ({listed}) {problem}.")


def _refuse_repeated(rows: pd.DataFrame, other_cells: pd.DataFrame) -> None:
    """Raise `UserError` for two rows of one run, or of one answer of a run."""
    keys = rows.drop(columns="value")
    is_repeated = keys.duplicated()
    if is_repeated.any():
        in_run = _list_differing(other_cells, keys)
        hint = f"; rows of one run differ in: {in_run}" if in_run else ""
        _refuse_any(rows[is_repeated], f"repeats a run{hint}")


def _list_differing(cells: pd.DataFrame, keys: pd.DataFrame) -> str:
    """The columns of cells with several values where keys are equal. keys: of some of its rows."""
    num_values = cells.loc[keys.index].groupby([keys[name] for name in keys]).nunique()
    return join_names(num_values.columns[num_values.gt(1).any()])


def _note_unused(other_cells: pd.DataFrame, rows: pd.DataFrame, metric: MetricSpec) -> list[str]:
    """Notes on what is not used of a table, and on a direction that nobody gave."""
    notes = []
    in_variant = _list_differing(other_cells, rows[["data", "variant"]])
    if in_variant:
        notes.append(f"Not used: {in_variant}. A column dataset separates data sets.")
    num_left_out = len(other_cells) - len(rows)
    if num_left_out:
        column = "correct" if "example" in rows else metric.name
        notes.append(f"Left out: {num_left_out:,} rows with an empty {column}.")
    if metric.higher_is_better and metric.name not in METRIC_OF_COLUMN:
        notes.append(f"More of {metric.name} is better, unless you add --lower.")
    return notes


def _find_unit(rows: pd.DataFrame, name: str, lower: bool) -> tuple[pd.DataFrame, MetricSpec]:
    """Rows with shares in place of per cent, and their metric. It is a share if more is better, and
    it is known as one or all values are in 0 to 1. Raises `UserError` for a mixture."""
    known = METRIC_OF_COLUMN.get(name, MetricSpec(is_share=False))
    values = rows["value"]
    are_shares = bool(values.between(0, 1).all())
    higher_is_better = known.higher_is_better and not lower
    is_share = higher_is_better and (known.is_share or are_shares)
    metric = replace(known, name=name, higher_is_better=higher_is_better, is_share=is_share)
    if are_shares or not is_share:
        return rows, metric
    _refuse_any(rows[~values.between(0, 100)], "is neither a share nor per cent")
    _refuse_any(rows[values.between(0, 1, "neither")], "is a share, where others are per cent")
    return rows.assign(value=values / 100), metric


def _group_data(
    data: str, rows: pd.DataFrame, metric: str, baseline: str, sequential: bool, notes: list[str]
) -> Group:
    """The group of one data set. Raises `UserError` where variants cannot be compared."""
    means = rows.groupby(["data", "variant", "seed"], sort=False)["value"].mean().reset_index()
    seeds_of = {name: {*seeds} for name, seeds in means.groupby("variant", sort=False)["seed"]}
    names = join_names(seeds_of)
    if baseline not in seeds_of:
        raise UserError(f"{data}: there is no {baseline}. There are {names}.")
    variants = sorted(seeds_of, key=lambda name: name != baseline)  # the baseline first
    others = variants[1:]
    alone = [name for name in others if seeds_of[name].isdisjoint(seeds_of[baseline])]
    if alone == others:  # or if there are no others
        raise UserError(f"{data}: {baseline} must share a seed with another of {names}.")
    unpaired = [f"{name} shares no seed with {baseline}, so no difference." for name in alone]
    right = _read_answers(data, rows) if "example" in rows else {}
    at_endpoints = means.assign(protocol="", point=RESULT.name, epoch=math.nan, metric=metric)
    return Group(
        data=data,
        source=data,
        variants=variants,
        at_endpoints=at_endpoints,
        epochs=at_endpoints.iloc[:0],
        families=[differences_from(baseline, variants)],
        right=right,
        num_texts={
            (variant, point): len(answers) for (variant, _, point), answers in right.items()
        },
        sequential=frozenset(variants if sequential else ()),
        notes=[*unpaired, *notes],
    )


def _read_answers(data: str, rows: pd.DataFrame) -> dict[Key, Marks]:
    """`Group.right`, the examples being the texts. Raises `UserError` for other answers."""
    by_run = rows.pivot(index="example", columns=["variant", "seed"], values="value")
    if not by_run.isin([0, 1]).all(axis=None):
        raise UserError(f"{data}: each run must answer the same examples, correct being 1 or 0.")
    return {(*run, RESULT.name): by_run[run].to_numpy(bool) for run in by_run}
