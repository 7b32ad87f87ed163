"""Functions for scripts and notebooks. What they return are data frames, which show themselves."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import pandas as pd

from attnexp.analysis import answer
from attnexp.analysis.contrasts import difference_frame
from attnexp.analysis.group import Group
from attnexp.analysis.read_results import read_results
from attnexp.analysis.read_runs import load_groups
from attnexp.config.compose import compose
from attnexp.config.options import name_of
from attnexp.inspect.insight import load_model
from attnexp.training.run import train_run

__all__ = ["compare", "compose", "judge", "load_model", "results", "train_run"]

File = str | PathLike[str]
VARIANT_KEYS = ["data", "protocol", "variant"]


def results(path: File, *more_paths: File) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Frames `endpoints` and `epochs` of finished runs, with a column for every setting that varies
    between variants, pieces by name. Raises `UserError` for a path without any finished run."""
    groups = load_groups(list(map(Path, (path, *more_paths))))
    at_endpoints = pd.concat([group.at_endpoints for group in groups])
    epochs = pd.concat([group.epochs for group in groups])
    settings = _varying_settings(groups)
    return _add_settings(at_endpoints, settings), _add_settings(epochs, settings)


def _varying_settings(groups: list[Group]) -> pd.DataFrame:
    """A row for each variant, indexed by `VARIANT_KEYS`, with the settings in which any differ."""
    rows = []
    for group in groups:
        for variant, setup in group.origin.setups.items():
            row = {"data": group.data, "protocol": group.protocol, "variant": variant}
            for key, value in setup.settings.items():
                if key.endswith(".kind"):
                    value = name_of(value)
                row[key.removesuffix(".kind")] = value  # `position.kind` becomes `position`.
            rows.append(row)
    settings = pd.DataFrame(rows).set_index(VARIANT_KEYS)
    num_values = settings.astype(str).nunique(dropna=False)
    return settings.loc[:, num_values > 1]


def _add_settings(rows: pd.DataFrame, settings: pd.DataFrame) -> pd.DataFrame:
    """Rows with the settings of their variants, and seeds as whole numbers where all are."""
    rows = rows.merge(settings, on=VARIANT_KEYS)
    if rows["seed"].str.fullmatch(r"\d{1,18}").all():
        rows["seed"] = rows["seed"].astype(int)
    return rows


def compare(
    path: File, *more_paths: File, margin: float | None = None, metric: str | None = None
) -> pd.DataFrame:
    """Differences from the baseline as `attnexp report --json` has them, of studies, run folders or
    published files. margin, in points, and metric: instead of the studies'. Raises `UserError`."""
    groups = load_groups(list(map(Path, (path, *more_paths))))
    spec = answer.choose_metric(metric, margin, groups)
    return difference_frame(answer.compare(groups, spec).differences)


def judge(
    source: File | Sequence[File] | pd.DataFrame,
    *,
    metric: str = "accuracy",
    lower: bool = False,
    margin: float | None = None,
    baseline: str | None = None,
    variant_column: str = "variant",
    seed_column: str = "seed",
    dataset_column: str = "dataset",
) -> pd.DataFrame:
    """Differences from the baseline in results of any trainer, as `attnexp judge` has them: of
    files or a frame; options are the command's. Raises `UserError`, or `OSError` for no file."""
    groups, spec = read_results(
        [source] if isinstance(source, str | PathLike) else source,
        metric,
        lower=lower,
        margin=margin,
        baseline=baseline,
        variant_column=variant_column,
        seed_column=seed_column,
        dataset_column=dataset_column,
    )
    return difference_frame(answer.compare(groups, spec).differences)
