"""Functions for scripts and notebooks. What they return are data frames, which show themselves."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from attnexp.analysis import answer
from attnexp.analysis.group import Group
from attnexp.analysis.read_results import choose_metrics, names_of_metrics, read_results
from attnexp.analysis.read_runs import load_groups
from attnexp.config.compose import compose
from attnexp.config.options import name_of
from attnexp.report.formats import difference_frame
from attnexp.runs.labels import settings
from attnexp.statistics.defaults import MARGIN
from attnexp.statistics.verdict import MetricSpec
from attnexp.training.run import train_run

__all__ = ["compare", "compose", "judge", "results", "train_run"]

File = str | PathLike[str]

PLACE = ["data", "protocol", "variant"]


def results(*paths: File) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The frames `endpoints` and `epochs` of finished runs, with a column for every setting that
    varies between their variants, its pieces named as one types them. Raises `UserError` for a path
    without any finished run."""
    groups = load_groups([Path(path) for path in paths])
    table = _varying_settings(groups)
    endpoints = pd.concat([group.endpoints for group in groups])
    epochs = pd.concat([group.epochs for group in groups])
    return _finish(endpoints, table), _finish(epochs, table)


def _varying_settings(groups: Sequence[Group]) -> pd.DataFrame:
    """A row for each variant, a column for each setting that differs between any two."""
    rows = []
    for group in groups:
        for variant, config in group.configs.items():
            row = {"data": group.data, "protocol": group.protocol, "variant": variant}
            rows.append(row | _typed_settings(config))
    table = pd.DataFrame(rows)
    varying = [name for name in table if table[name].astype(str).nunique(dropna=False) > 1]
    return table[[*PLACE, *(name for name in varying if name not in PLACE)]]


def _typed_settings(config: dict[str, Any]) -> dict[str, Any]:
    """Settings as one types them: `position=none` in place of `position.kind` with a class."""
    typed = {}
    for key, value in settings(config).items():
        place, _, last = key.rpartition(".")
        if last == "kind":
            typed[place] = name_of(value)
        else:
            typed[key] = value
    return typed


def _finish(rows: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """Rows with the settings of their variants, and seeds as whole numbers where all are."""
    rows = rows.merge(table, on=PLACE)
    if rows["seed"].str.fullmatch(r"\d{1,18}").all():
        rows["seed"] = rows["seed"].astype(int)
    return rows


def compare(*paths: File, margin: float = 100 * MARGIN) -> pd.DataFrame:
    """Differences from the baseline as `attnexp report --json` has them, of studies, folders with
    runs, or published files. margin: in percentage points. Raises `UserError`."""
    groups = load_groups([Path(path) for path in paths])
    return difference_frame(answer.compare(groups, [MetricSpec(margin=margin / 100)]))


def judge(
    source: "File | Sequence[File] | pd.DataFrame",
    *,
    columns: Sequence[str] = (),
    higher: Sequence[str] = (),
    lower: Sequence[str] = (),
    margin: Sequence[str] = (),
    baseline: str | None = None,
    variant_column: str = "variant",
    seed_column: str = "seed",
) -> pd.DataFrame:
    """Differences from the baseline in results of any trainer, as `attnexp judge` has them: of
    files or a data frame. The options are the command's. Raises `UserError`."""
    groups = read_results(
        [source] if isinstance(source, str | PathLike) else source,
        [columns] if isinstance(columns, str) else columns,
        named=names_of_metrics(higher, lower, margin),
        baseline=baseline,
        variant_column=variant_column,
        seed_column=seed_column,
    )
    metrics = choose_metrics(groups, higher, lower, margin)
    return difference_frame(answer.compare(groups, metrics))
