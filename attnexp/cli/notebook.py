"""Python API for scripts and notebooks. Folders and files are strings or paths."""

import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rich.console import Console

from attnexp.analysis import comparison, other_results, variants
from attnexp.analysis.comparison import Comparison
from attnexp.analysis.metrics import OF_RUNS, choose_metrics
from attnexp.config.compose import compose
from attnexp.report.formats import print_comparisons, print_over_data
from attnexp.runs import manifest
from attnexp.runs.identity import replicate
from attnexp.training.run import train_run

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["compare", "compose", "judge", "load_runs", "train_run"]

T = TypeVar("T")
Place = str | PathLike[str]
Words = str | Sequence[str]


class Shown(list[T]):
    """List that a notebook or `print` displays as the command line prints it."""

    def __init__(self, found: Iterable[T], show: Callable[[Sequence[T], Console], None]) -> None:
        super().__init__(found)
        self._show = show

    def __repr__(self) -> str:
        return self._printed().export_text()

    def _repr_html_(self) -> str:
        return self._printed().export_html(inline_styles=True, code_format="<pre>{code}</pre>")

    def _printed(self) -> Console:
        console = Console(
            file=io.StringIO(),
            record=True,
            width=80,
            highlight=False,
            emoji=False,
            force_jupyter=False,
        )
        self._show(self, console)
        return console


def load_runs(folder: Place, *more: Place) -> "DataFrame":
    """Load finished runs of studies or other folders; a row for each run and epoch.

    Columns: `variant` as in tables, `seed`, `data`, `protocol`, `run` (its folder), and the metrics
    of the epoch as in `metrics.jsonl`. Raises `UserError` where there is no finished run.
    """
    import pandas as pd

    return pd.DataFrame(
        {
            "variant": label,
            "seed": replicate(run.result.config),
            "data": run.result.data["name"],
            "protocol": run.result.config["train"]["protocol"],
            "run": str(run.path),
            **asdict(row),
        }
        for runs in variants.comparison_groups(
            manifest.load_runs([Path(one) for one in (folder, *more)])
        )
        for label, group in variants.by_variant(runs).items()
        for run in group
        for row in run.result.epochs
    )


def compare(
    folder: Place, *more: Place, higher: Words = (), lower: Words = (), margin: float | Words = ()
) -> Shown[Comparison]:
    """Compare finished runs as `attnexp report` does; one item for each data set and protocol.

    The options are the command's, as `margin=0.5` in percentage points of accuracy or
    `margin=["0.5", "loss=0.01"]`. Raises `UserError`, also where there is no finished run.
    """
    metrics = choose_metrics(
        OF_RUNS, higher=_each(higher), lower=_each(lower), margins=_each(margin)
    )
    found = manifest.load_runs([Path(one) for one in (folder, *more)])
    return Shown(comparison.compare(found, metrics), print_comparisons)


def judge(
    results: "Place | Sequence[Place] | DataFrame",
    *,
    baseline: str | None = None,
    metric: Words = (),
    variant_column: str = "variant",
    seed_column: str = "seed",
    higher: Words = (),
    lower: Words = (),
    margin: float | Words = (),
) -> Shown[Comparison]:
    """Compare results in files, a folder or a data frame as `attnexp judge` does.

    The options are the command's, as `lower="loss"` or `margin=["loss=0.01", "0.5"]`. Raises
    `UserError`.
    """
    compared = other_results.judge_results(
        other_results.read_results(
            results, _each(metric), variant_column=variant_column, seed_column=seed_column
        ),
        baseline=baseline,
        higher=_each(higher),
        lower=_each(lower),
        margins=_each(margin),
    )
    return Shown(compared, print_over_data)


def _each(words: float | Words) -> Sequence[str]:
    return [str(words)] if isinstance(words, str | int | float) else words
