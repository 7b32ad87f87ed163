"""Functions for scripts and notebooks. What they return are data frames, which show themselves."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import pandas as pd

from attnexp.analysis.contrasts import differences
from attnexp.analysis.frames import load, results
from attnexp.analysis.judge import metrics_of, read_results
from attnexp.config.compose import compose
from attnexp.report.formats import FIELDS
from attnexp.statistics.verdict import Metric
from attnexp.training.run import train_run

__all__ = ["compare", "compose", "judge", "results", "train_run"]

File = str | PathLike[str]


def compare(*paths: File, margin: float = 0.25) -> pd.DataFrame:
    """Differences from the baseline as `attnexp report --json` has them, of studies, folders with
    runs, or published files. margin: in percentage points. Raises `UserError`."""
    groups = load([Path(path) for path in paths])
    return pd.concat([differences(group, [Metric(margin=margin / 100)]) for group in groups])[
        FIELDS
    ]


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
    """Differences from the baseline in results of any trainer, as `attnexp judge` has them: of files
    or a data frame. The options are the command's. Raises `UserError`."""
    files = [given] if isinstance(given, str | PathLike) else given
    groups = read_results(
        files, columns, variant_column=variant_column, seed_column=seed_column, baseline=baseline
    )
    metrics = [*metrics_of(groups, higher, lower, margin)]
    return pd.concat([differences(group, metrics) for group in groups])[FIELDS]
