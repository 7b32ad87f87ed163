"""Results of any trainer as groups: a row for each run, or for each answer to an example."""

import math
from collections.abc import Collection, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from attnexp.analysis.endpoints import RESULT
from attnexp.analysis.families import differences_from
from attnexp.analysis.group import Bits, Group
from attnexp.base.errors import UserError
from attnexp.config.options import did_you_mean
from attnexp.data.tables import read_rows
from attnexp.statistics.defaults import MARGIN
from attnexp.statistics.verdict import MetricSpec

KEYS = ["data", "variant", "seed"]
NO_METRICS = {*KEYS, "example", "correct", "epoch", "step", ""}
ACCURACY = ("acc", "accuracy")  # endings of the names of columns that hold one
TRUTH = {"true": "1", "false": "0"}
BITS = ["1", "0", "1.0", "0.0", ""]


def read_results(
    results: "Sequence[str | PathLike[str]] | pd.DataFrame",
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
    name, cells = _read_cells(results)
    cells = _with_standard_names(cells, name, variant_column, seed_column)
    if "example" in cells:
        _check_columns(["correct"], cells, "Answers by example need it, 1 or 0.")
        cells["accuracy"] = _as_bits(cells["correct"])
        columns = list(dict.fromkeys([*columns, "accuracy"]))
    numbers = _as_numbers(cells.drop(columns=KEYS))
    metrics = list(columns) if columns and len(cells) else _columns_of_numbers(cells, numbers)
    _check_columns(metrics or ["of numbers"], numbers, "Choose with --columns.")
    is_left_out = cells[metrics].eq("").any(axis=1)
    _refuse_texts(cells, numbers[metrics], is_left_out)
    rows = cells.drop(columns=metrics).join(numbers[metrics])[~is_left_out]
    _refuse_repeated(rows)
    groups = []
    for data, group_rows in rows.groupby("data", sort=False):
        first = baseline or str(cells["variant"].iloc[0])
        groups.append(_make_group(str(data), group_rows, metrics, first, sequential))
    if is_left_out.any():
        groups[0].notes.append(f"Left out: {is_left_out.sum():,} rows with an empty cell.")
    return groups


def _read_cells(
    results: "Sequence[str | PathLike[str]] | pd.DataFrame",
) -> tuple[str, pd.DataFrame]:
    """Name of the results, and all cells as text."""
    name = "results"
    if not isinstance(results, pd.DataFrame):
        if len(results) == 1:
            name = Path(results[0]).name.partition(".")[0]
        results = pd.concat([pd.DataFrame(read_rows(Path(file))) for file in results])
    cells = results.rename(columns=str).astype("string").fillna("")
    return name, cells.reset_index(drop=True)


def _with_standard_names(
    cells: pd.DataFrame, name: str, variant_column: str, seed_column: str
) -> pd.DataFrame:
    """The cells with columns data, variant and seed. name: of the data set where no column says."""
    cure = "Name them with --variant-column, --seed-column."
    _check_columns([variant_column, seed_column], cells, cure)
    standard = {variant_column: "variant", seed_column: "seed", "dataset": "data"}
    # a column `variant` counts as any other where --variant-column names another one
    kept = [name for name in cells if name in standard or name not in standard.values()]
    cells = cells[kept].rename(columns=standard)
    cells = pd.DataFrame({"data": name, **cells})
    cells["seed"] = cells["seed"].str.replace(r"\.0*$", "", regex=True)  # pandas' 1.0 is 1
    return cells


def _as_bits(correct: "pd.Series[str]") -> "pd.Series[str]":
    """1 or 0 as text; a cell that is neither says so, and is refused as no number."""
    bits = correct.str.lower().replace(TRUTH)
    return bits.where(bits.isin(BITS), bits + ", which is neither 1 nor 0")


def _as_numbers(cells: pd.DataFrame) -> pd.DataFrame:
    """Finite numbers; NaN for any other cell."""
    numbers = cells.apply(pd.to_numeric, errors="coerce").astype(float)
    return numbers.mask(numbers.abs() == math.inf)


def _columns_of_numbers(cells: pd.DataFrame, numbers: pd.DataFrame) -> list[str]:
    """Columns that may hold a metric: with a number, or called accuracy with anything at all."""
    names = []
    for name in numbers:
        is_accuracy = _is_accuracy(name) and (cells[name] != "").any()
        has_number = name not in NO_METRICS and numbers[name].notna().any()
        if is_accuracy or has_number:
            names.append(name)
    return names


def _is_accuracy(name: str) -> bool:
    return name.lower().endswith(ACCURACY)


def _refuse_texts(
    cells: pd.DataFrame, numbers: pd.DataFrame, is_left_out: "pd.Series[bool]"
) -> None:
    """Raise `UserError` if a row that is read has a text in place of a number, or if no row is."""
    is_read = ~is_left_out | is_left_out.all()
    wrong = cells[is_read & numbers.isna().any(axis=1)]
    if len(wrong):
        values = wrong[list(numbers)].iloc[0].to_dict()
        raise UserError(f"{_name_run(wrong)}: not all numbers: {values}.")


def _refuse_repeated(rows: pd.DataFrame) -> None:
    """Raise `UserError` if a run, or its answer to an example, is given twice."""
    keys = [name for name in (*KEYS, "example") if name in rows]
    repeated = rows[rows.duplicated(keys)]
    if len(repeated):
        raise UserError(
            f"{_name_run(repeated)} has more than one result. Give one row, of the epoch that you "
            "declared, or a column example."
        )


def _make_group(
    data: str, rows: pd.DataFrame, metrics: list[str], baseline: str, sequential: bool
) -> Group:
    variants = list(rows["variant"].unique())
    if baseline not in variants or len(variants) < 2:
        hint = did_you_mean(baseline, {*variants} - {baseline})
        raise UserError(
            f"{data}: {baseline} has nothing to be compared with.{hint} In rows without an empty "
            f"cell there is {', '.join(variants)}."
        )
    variants.sort(key=lambda name: name != baseline)
    means = rows.groupby(KEYS, sort=False)[metrics].mean().rename_axis(columns="metric").stack()
    endpoints = means.reset_index(name="value")
    endpoints = endpoints.assign(protocol="", point=RESULT.name, epoch=math.nan)
    answers: dict[tuple[str, str, str], Bits] = {}
    num_texts = {}
    notes = []
    if "example" in rows:
        runs = dict(iter(rows.sort_values("example").groupby(["variant", "seed"])))
        num_texts[RESULT.name] = min(len(run) for run in runs.values())
        if len({tuple(run["example"]) for run in runs.values()}) > 1:
            notes.append("Not all runs answered the same examples.")
        else:
            for (variant, seed), run in runs.items():
                answers[variant, seed, RESULT.name] = run["accuracy"].to_numpy(bool)
    return Group(
        data=data,
        source=data,
        protocol="",
        variants=variants,
        points=[RESULT],
        endpoints=endpoints,
        epochs=endpoints.iloc[:0],
        families=[differences_from(baseline, variants)],
        right=answers,
        num_texts=num_texts,
        sequential=frozenset(variants if sequential else ()),
        notes=notes,
    )


def choose_metrics(
    groups: Sequence[Group], higher: Sequence[str], lower: Sequence[str], margins: Sequence[str]
) -> list[MetricSpec]:
    """The metrics that are judged: accuracies, and those of which more is better (higher) or less
    (lower). margins: METRIC=NUMBER, or a number for all, in the unit of the tables. Raises
    `UserError` where a direction or margin is wrong, or missing."""
    rows = pd.concat([group.endpoints for group in groups], ignore_index=True)
    values = dict(iter(rows.groupby("metric", sort=False)["value"]))
    margin_of = _read_margins(margins)
    for_all = margin_of.pop("", None)
    named = [*higher, *lower, *margin_of]
    _check_columns(named, values, "Choose with --columns.")
    judged = [name for name in values if _is_accuracy(name) or name in named]
    metrics = []
    for name in judged or values:
        margin = margin_of.get(name, _usual_margin(name) if for_all is None else for_all)
        if not _has_direction(name, higher, lower) or not margin > 0:
            raise UserError(
                f"Say which direction of {name} is better, and the smallest difference that "
                f"matters, above 0: --higher {name} or --lower {name} --margin {name}=0.01"
            )
        is_share = _is_accuracy(name) and _are_shares(rows[rows["metric"] == name])
        metric = MetricSpec(
            name=name,
            is_share=is_share,
            higher_is_better=name not in lower,
            margin=margin / 100 if is_share else margin,
        )
        metrics.append(metric)
    return metrics


def _usual_margin(name: str) -> float:
    """The margin of an accuracy in points; of another metric there is none."""
    return 100 * MARGIN if _is_accuracy(name) else 0.0


def _has_direction(name: str, higher: Sequence[str], lower: Sequence[str]) -> bool:
    """Whether it is said, or known of an accuracy, which direction of a metric is better."""
    if name in higher and name in lower:
        return False
    return name in higher or name in lower or _is_accuracy(name)


def _read_margins(margins: Sequence[str]) -> dict[str, float]:
    """Margins by metric; under an empty name that of all others. NaN for what is no number."""
    margin_of = {}
    for word in margins:
        name, _, number = word.rpartition("=")
        margin_of[name] = float(pd.to_numeric(number, errors="coerce"))
    return margin_of


def _are_shares(rows: pd.DataFrame) -> bool:
    """Whether accuracies are shares, not per cent. Raises `UserError` where some may be either."""
    low = rows["value"].min()
    high = rows["value"].max()
    is_share = low >= 0 and high <= 1
    if not is_share and 0 < low <= 1:
        run = _name_run(rows[rows["value"] == low])
        name = rows["metric"].iloc[0]
        raise UserError(f"{run}: {name} is {low:g} beside {high:g}. Write all as per cent.")
    return bool(is_share)


def _name_run(rows: pd.DataFrame) -> str:
    """`pe, seed 3 on imdb`: the first of these rows."""
    first = rows.iloc[0]
    return f"{first['variant']}, seed {first['seed']} on {first['data']}"


def _check_columns(names: Sequence[str], columns: "Collection[Any]", cure: str) -> None:
    """Raise `UserError` for a name that no column has."""
    for name in names:
        if name not in columns:
            hint = did_you_mean(name, columns)
            listed = ", ".join(columns)
            raise UserError(f"There is no column {name}.{hint} There are {listed}. {cure}")
