"""Runs that never were, and what is shown of them: for all who read results."""

import copy
import functools
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from attnexp.analysis.comparison import Comparison, compare
from attnexp.config.compose import compose
from attnexp.config.schema import to_dict
from attnexp.report import formats
from attnexp.runs.result import SCHEMA, EpochRow, Evaluation, Run, RunResult


@functools.cache
def _settings(*words: str) -> dict[str, Any]:
    return to_dict(compose(list(words)))


def row(epoch: int, accuracy: float) -> EpochRow:
    return EpochRow(epoch=epoch, train_loss=0.4, train_accuracy=0.8, train_loss_after=0.3,
                    train_accuracy_after=0.9, val_loss=0.35, val_accuracy=accuracy, val_brier=0.1,
                    val_ece=0.05, seconds=1.0,
                    examples_per_second=1.0)  # fmt: skip


def result(label: str, seed: int, accuracies: Sequence[float], *words: str) -> Run:
    """A run of these words, of as many epochs as there are accuracies."""
    config = copy.deepcopy(_settings(f"train.epochs={len(accuracies)}", *words)) | {"seed": seed}
    rows = [row(epoch, accuracy) for epoch, accuracy in enumerate(accuracies, start=1)]
    name = config["data"]["name"]
    result = RunResult(
        schema=SCHEMA, run_id=f"{label}{seed}{words}", code={}, seed=seed,
        config=config, parameters=2_609_281, flops_per_example=1, epochs=rows,
        data={"name": name, "fingerprint": name, "source": "made up", "n_train": 25_000,
              "n_val": 25_000, "n_test": 25_000},
        best=max(rows, key=lambda row: row.val_accuracy), final=rows[-1],
        test=Evaluation(loss=0.35, accuracy=accuracies[-1], brier=0.1, ece=0.05, n=9),
        wall_seconds=1.0, peak_rss_bytes=1,
        provenance={"version": "0.1", "commit": "c" * 40 + "+", "argv": ["/bin/attnexp", "sweep"],
                    "started": "2026-01-01T00:00:00+00:00"}, files={},
    )  # fmt: skip
    return Run(path=Path("nowhere"), result=result, label=label)


def but(run: Run, **figures: Any) -> Run:
    """The same run with other figures; best and final follow other epochs."""
    if rows := figures.get("epochs"):
        figures["best"] = max(rows, key=lambda row: row.val_accuracy)
        figures["final"] = rows[-1]
    return replace(run, result=replace(run.result, **figures))


def only(runs: list[Run]) -> Comparison:
    """The one comparison that they make."""
    (comparison,) = compare(runs)
    return comparison


def printed(runs: list[Run]) -> str:
    """What a terminal of 80 columns is shown."""
    console = Console(file=io.StringIO(), width=80)
    formats.print_comparisons(compare(runs), console)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]
