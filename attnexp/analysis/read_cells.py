"""Cells of the tables of other trainers, as texts, with standard names of columns."""

import re
from collections.abc import Collection, Sequence
from os import PathLike
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pandas as pd

from attnexp.base.errors import UserError, find_twins, join_names
from attnexp.config.options import did_you_mean
from attnexp.data.read import kind_of, read_table

KEYS = ["data", "variant", "seed"]
ORIGIN = "place of the row"  # a column beside those of the files
INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")  # without width
NO_SEED = ["", *"nan na <na> null none mean avg average median std sd sem count min max".split()]
"""Cells, in lower case, that name no seed, as in rows of means."""
WHOLE = re.compile(r"^\+?0*(\d+)(\.0*)?$")  # so that 1, 01 and pandas' 1.0 are one seed


def read_cells(
    results: "Sequence[str | PathLike[str]] | pd.DataFrame",
    variant_column: str,
    seed_column: str,
    metrics: Sequence[str],
) -> pd.DataFrame:
    """All cells as text, with the columns `KEYS` and `ORIGIN`. metrics: further columns."""
    if variant_column == seed_column:
        raise UserError(f"{seed_column} cannot name the variant and the seed. Name two columns.")
    known_columns = [variant_column, seed_column, "dataset", "example", "correct", *metrics]
    if isinstance(results, pd.DataFrame):
        return _with_standard_names(results, "results", known_columns)
    frames = []
    for file in results:
        path = Path(file)
        rows = read_table(path).drop(columns="", errors="ignore")  # such as pandas' index
        columns = list(rows)
        if kind_of(path) == "tsv" and len(columns) == 1 and "," in columns[0]:
            raise UserError(f"{file} is separated by commas, not by tabs. Call it .csv.")
        name = path.name.partition(".")[0] if len(results) == 1 else "results"
        frame = _with_standard_names(rows, name, known_columns)
        if len(results) > 1:
            frame[ORIGIN] = f"{file}, " + frame[ORIGIN]
        frames.append(frame)
    return pd.concat(frames, ignore_index=True).fillna("")


def _with_standard_names(frame: pd.DataFrame, name: str, known_columns: list[str]) -> pd.DataFrame:
    """Cells as text, with standard names of columns. name: of the data set if no column says it.
    known_columns: those of variants and seeds first; case matters only where several columns differ
    in nothing else."""
    cells = frame.rename(columns=str).astype("string").fillna("").reset_index(drop=True)
    for column in known_columns:
        similar = [header for header in cells if header.lower() == column.lower()]
        if len(similar) == 1:
            cells = cells.rename(columns={similar[0]: column})
    variant_column, seed_column, *_ = known_columns
    cure = "Name them with --variant-column, --seed-column."
    cure += _how_to_make_long(cells, variant_column, seed_column)
    check_columns([variant_column, seed_column], cells, cure)
    standard = {variant_column: "variant", seed_column: "seed", "dataset": "data"}
    # a column `variant` has no part where --variant-column names another one
    unused = [key for key in KEYS if key not in standard]
    renamed = cells.drop(columns=unused, errors="ignore").rename(columns=standard)
    cells = pd.DataFrame({"data": name, **renamed})
    for key in KEYS:
        # a spreadsheet or web page may hold a name in two ways that look the same
        plain = {}
        for text in cells[key].unique():
            letters = normalize("NFC", text)
            visible = INVISIBLE.sub("", letters)
            plain[text] = " ".join(visible.split())
        cells[key] = cells[key].map(plain)
    cells["seed"] = cells["seed"].str.replace(WHOLE, r"\1", regex=True)
    numbers = cells.index + 1
    cells[ORIGIN] = "row " + numbers.astype(str)
    return cells


def _how_to_make_long(cells: pd.DataFrame, variant_column: str, seed_column: str) -> str:
    """What makes a row of each run where columns of numbers may be runs; empty below two."""
    results = cells.drop(columns=[variant_column, seed_column], errors="ignore")
    numbers = results.apply(pd.to_numeric, errors="coerce").dropna(axis=1)
    if numbers.shape[1] < 2:
        return ""
    kept = [name for name in cells if name not in numbers]
    new_column = seed_column if variant_column in cells else variant_column
    table = "pandas.read_csv(FILE)"
    if new_column == variant_column and seed_column not in cells:
        table += f".rename_axis({seed_column!r}).reset_index()"
        kept.append(seed_column)
    return (
        f" A row is one run. If {join_names(numbers)} hold accuracies of one {new_column} each, "
        f"make the table long: {table}.melt({kept}, var_name={new_column!r}, value_name='accuracy')"
    )


def check_keys(rows: pd.DataFrame) -> list[str]:
    """Notes on names that read alike. Raises `UserError` for a row without one of its `KEYS`."""
    notes = []
    for key in KEYS:
        what = key.replace("data", "data set")
        no_name = NO_SEED if key == "seed" else [""]  # variants and data may be called so
        is_unnamed = rows[key].str.lower().isin(no_name)
        unnamed = rows[is_unnamed]
        if len(unnamed):
            raise UserError(f"{name_row(unnamed)} has no {what}. Fill it in, or remove the row.")
        names = rows[key].unique()
        for twins in find_twins(names):
            listed = ", ".join(map(repr, twins))
            notes.append(f"Is it one {what}? {listed} count as several.")
    return notes


def name_run(rows: pd.DataFrame) -> str:
    """`pe, seed 3 on imdb`: the first of these rows."""
    first = rows.iloc[0]
    return f"{first['variant']}, seed {first['seed']} on {first['data']}"


def name_row(rows: pd.DataFrame) -> str:
    """`results.csv, row 7 (pe, seed 3 on imdb)`: the first of these rows."""
    return f"{rows[ORIGIN].iloc[0]} ({name_run(rows)})"


def check_columns(names: Sequence[str], columns: "Collection[Any]", cure: str) -> None:
    """Raise `UserError` for a name that no column has."""
    for name in names:
        if name not in columns:
            hint = did_you_mean(name, columns)
            listed = ", ".join(columns)
            raise UserError(f"There is no column {name}.{hint} There are {listed}. {cure}")
