"""Functions for scripts and notebooks. What they return are data frames, which show themselves."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import pandas as pd

from attnexp.analysis.contrasts import differences
from attnexp.analysis.frames import load
from attnexp.analysis.judge import metrics_of, read_results
from attnexp.config.compose import compose
from attnexp.report.formats import FIELDS
from attnexp.runs.labels import settings
from attnexp.statistics.verdict import Metric
from attnexp.training.run import train_run

__all__ = ["compare", "compose", "judge", "results", "train_run"]

File = str | PathLike[str]


def results(*paths: File) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The frames `endpoints` and `epochs` of finished runs, with a column for every setting that
    varies between their variants. Raises `UserError` for a path without any finished run."""
    groups = load([Path(path) for path in paths])
    place = ["data", "protocol", "variant"]
    table = pd.DataFrame(
        {"data": group.data, "protocol": group.protocol, "variant": name, **settings(config)}
        for group in groups
        for name, config in group.configs.items()
    )
    varying = [
        name
        for name in table
        if name not in place and table[name].astype(str).nunique(dropna=False) > 1
    ]
    both = ([group.endpoints for group in groups], [group.epochs for group in groups])
    endpoints, epochs = (pd.concat(of).merge(table[[*place, *varying]], on=place) for of in both)
    return endpoints, epochs


def compare(*paths: File, margin: float = 0.25) -> pd.DataFrame:
    """Differences from the baseline as `attnexp report --json` has them, of studies, folders with
    runs, or published files. margin: in percentage points. Raises `UserError`."""
    groups = load([Path(path) for path in paths])
    found = pd.concat([differences(group, [Metric(margin=margin / 100)]) for group in groups])
    return found.reindex(columns=FIELDS)


def judge(
    given: "File | Sequence[File] | pd.DataFrame",
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
    files = [given] if isinstance(given, str | PathLike) else given
    columns = [columns] if isinstance(columns, str) else columns
    groups = read_results(
        files, columns, variant_column=variant_column, seed_column=seed_column, baseline=baseline
    )
    metrics = [*metrics_of(groups, higher, lower, margin)]
    return pd.concat([differences(group, metrics) for group in groups]).reindex(columns=FIELDS)
