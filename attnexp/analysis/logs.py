"""Logs of other tools as rows of variant, seed and metrics, recognised by their columns.

Read are samples of lm-evaluation-harness, `samples_df` of Inspect, and runs that MLflow or Weights
& Biases exported as csv. docs/statistics.md says what becomes variant and seed.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from attnexp.analysis.metrics import check_known, is_loss, is_success, to_number
from attnexp.base.errors import UserError
from attnexp.base.progress import note

SAMPLES = re.compile(r"samples_(?P<task>.+)_(?P<date>[^_]+)\.jsonl")
"""Name of a file of lm-evaluation-harness with a row for each document."""

NO_METRICS = frozenset(
    "arguments doc doc_hash doc_id filter filtered_resps metrics model prompt_hash resps seed "
    "target target_hash variant".split()
)
"""Keys of such rows that are not metrics."""

GRADES = {"C": 1, "I": 0, "P": 0.5, "N": 0, "True": 1, "False": 0}
"""Answers as numbers. Inspect's letters are correct, incorrect, partial and no answer."""

Rows = list[dict[str, Any]]


Log = tuple[Rows, list[str]]
"""Rows for each run, or for each answer with the columns `example` and `correct`; and metrics."""


def log_files(path: Path) -> list[Path]:
    """The file itself, or all samples of lm-evaluation-harness in a folder and those within it."""
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.rglob("samples_*.jsonl") if SAMPLES.fullmatch(file.name))
    if not files:
        raise UserError(
            f"{path} is a folder without any samples_TASK_DATE.jsonl of lm-evaluation-harness "
            f"(--log_samples writes them). Give a file of results, or a folder of such samples."
        )
    return files


def read_log(rows: Rows, file: Path | None, only: Sequence[str], keys: Sequence[str]) -> Log | None:
    """What a log says; None if these are not rows of a known tool.

    file: where the rows were read. keys: columns that name a run: of variant, seed and dataset.
    only: metrics to read; empty for the first one of answers, and for all of runs. Raises
    `UserError`.
    """
    columns = rows[0].keys()
    if {"doc_id", "filtered_resps"} <= columns:
        return _of_harness(rows, file, only, keys)
    if {"sample_id", "eval_id"} <= columns:
        return _of_inspect(rows, only, keys)
    if "run_id" in columns and any(name.startswith("metrics.") for name in columns):
        return _of_mlflow(rows, keys)
    if "Name" in columns and columns & {"State", "Created", "Runtime"}:
        return _of_wandb(rows, only)
    return None


def _of_harness(rows: Rows, file: Path | None, only: Sequence[str], keys: Sequence[str]) -> Log:
    """Documents of one task: a metric by each filter, if there are several, is called
    `exact_match/strict-match`."""
    run: dict[str, Any] = {}
    if file is not None and (match := SAMPLES.fullmatch(file.name)):
        seed = _seed(file.with_name(f"results_{match['date']}.json"))
        run = {"variant": file.absolute().parent.name, "seed": seed, "dataset": match["task"]}
    filters = {row.get("filter") for row in rows}
    documents: dict[Any, dict[str, Any]] = {}
    metrics: dict[str, None] = {}
    for row in rows:
        own = {"variant": row["model"]} if "model" in row else {}
        own |= {key: row[key] for key in keys if key in row}
        document = documents.setdefault(row["doc_id"], {**run, **own, "example": row["doc_id"]})
        for name in row.get("metrics") or [key for key in row if key not in NO_METRICS]:
            full = f"{name}/{row['filter']}" if len(filters) > 1 else name
            document[full] = _grade(row.get(name))
            metrics[full] = None
    return _of_answers([*documents.values()], [*metrics], only, keys)


def _seed(file: Path) -> Any:
    """The seed that lm-evaluation-harness wrote beside samples; 0 where there is none."""
    try:
        return json.loads(file.read_bytes())["config"]["random_seed"]
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _of_inspect(rows: Rows, only: Sequence[str], keys: Sequence[str]) -> Log:
    """Read samples; an epoch, in which each is answered once, is a seed."""
    sources = {"variant": "model", "seed": "epoch", "dataset": "task_name", "example": "id"}
    names = {name: name.removeprefix("score_") for name in rows[0] if name.startswith("score_")}
    found = [
        {key: row[name] for key, name in sources.items() if name in row}
        | {key: row[key] for key in keys if key in row}
        | {short: _grade(row[name]) for name, short in names.items()}
        for row in rows
    ]
    return _of_answers(found, [*names.values()], only, keys)


def _of_answers(
    rows: Rows, metrics: Sequence[str], only: Sequence[str], keys: Sequence[str]
) -> Log:
    """Answers that are right or wrong by one metric, the first if none is chosen; else the mean of
    each chosen metric over the answers of a run."""
    for name in only:
        check_known(name, metrics)
    chosen = [*only] or [*metrics[:1]]
    if len(chosen) == 1 and all(to_number(row.get(chosen[0])) in (0, 1) for row in rows):
        return [{**row, "correct": to_number(row[chosen[0]])} for row in rows], chosen
    runs: dict[tuple[str, ...], Rows] = {}
    for row in rows:
        runs.setdefault(tuple(str(row.get(key)) for key in keys), []).append(row)
    means = [
        {key: of[0][key] for key in keys if key in of[0]}
        | {name: _mean(name, [row.get(name) for row in of]) for name in chosen}
        for of in runs.values()
    ]
    return means, chosen


def _grade(value: object) -> object:
    return GRADES.get(str(value), value)


def _mean(metric: str, values: Sequence[object]) -> float:
    numbers = [number for number in map(to_number, values) if number is not None]
    if len(numbers) < len(values):
        raise UserError(
            f"{metric} is not a number for {len(values) - len(numbers):,} of {len(values):,} "
            f"answers. Choose another metric with --columns."
        )
    return fmean(numbers)


def _of_mlflow(rows: Rows, keys: Sequence[str]) -> Log:
    """Read runs of `mlflow experiments csv`, whose variant, seed and dataset are params or tags."""
    names = {name: name.removeprefix("metrics.") for name in rows[0]}
    for name in rows[0]:
        kind, _, short = name.partition(".")
        if kind in ("params", "tags") and short in keys and short not in names.values():
            names[name] = short
    metrics = [short for name, short in names.items() if name.startswith("metrics.")]
    finished = _finished(rows, "status")
    return [{short: row[name] for name, short in names.items()} for row in finished], metrics


def _of_wandb(rows: Rows, only: Sequence[str]) -> Log:
    """Read a table of runs. Settings are columns too, so metrics are chosen or known by name."""
    known = [name for name in rows[0] if is_success(name) or is_loss(name)]
    return _finished(rows, "State"), [name for name in only if name in rows[0]] or known


def _finished(rows: Rows, column: str) -> Rows:
    """Rows of runs that have finished; all of them if there is no such column."""
    found = [row for row in rows if str(row.get(column, "finished")).lower() == "finished"]
    if not found:
        raise UserError(f"No run here has finished: none has {column} finished.")
    if len(found) < len(rows):
        note(f"Left out: {len(rows) - len(found)} of {len(rows)} runs, which have not finished.")
    return found
