"""Preview of a sweep: its runs, which of them have finished, and how long the others will take.

Nothing is trained and torch is not imported. Times come from finished runs of the same variant,
else from the FLOPs of training and the rate of finished runs on the same data, else from an assumed
rate, which is stated.
"""

from collections.abc import Sequence
from contextlib import suppress
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnexp.base.errors import UserError
from attnexp.base.progress import duration
from attnexp.config.schema import Device, ExecutorKind, Protocol, RunConfig
from attnexp.runs import store
from attnexp.runs.result import RunResult
from attnexp.sweeps.executors.choose import for_executor
from attnexp.sweeps.executors.local import available_cores
from attnexp.sweeps.plan import Sweep
from attnexp.sweeps.schedule import scan, slots
from attnexp.training.inputs import read_inputs

SCHEMA = 1

ASSUMED_RATE = 50e9
"""FLOP/s of training on one CPU core, assumed where no run on the data has finished.

K's model on IMDB needs 1.1 GFLOP for a step of 32 texts, which takes about 14 ms (80 GFLOP/s);
shorter texts and other layers are slower.
"""

MAX_READ = 20
"""Maximum number of finished runs that are read for an estimate."""

START_UP = 4.0
"""Seconds that a sweep takes for its plan and its report."""

PROCESS = 2.0
"""Seconds of a core that a process takes to start and import torch."""

MAX_SPANS = 8
"""Maximum number of ranges of seeds that are listed."""


def preview_sweep(sweep: Sweep, *, followed_by: int = 0) -> dict[str, Any]:
    """The runs of a sweep and their expected duration, as the JSON document of docs/json.md: what
    has finished is scanned, what is missing estimated.

    followed_by: number of runs of the study that follows a search for settings.
    """
    entries = scan(sweep)
    missing = [entry for entry in entries if not entry.before]
    at_a_time = slots(sweep, missing) if missing else None
    expected, assumed = dict[int, float | None](), False
    files = sorted(
        (sweep.out / store.RUNS).glob(f"*/{store.RESULT}"), key=lambda file: file.stat().st_mtime
    )
    newest = _load_readable([file.parent for file in files[-MAX_READ:]]) if missing else []
    for first in {entry.job.variant: entry for entry in reversed(missing)}.values():
        job = for_executor(first.job, sweep.executor, alone=at_a_time == 1)
        same = (e.path for e in entries if e.before and e.job.variant == job.variant)
        finished = _load_readable([*same][:MAX_READ])
        expected[job.variant], by_assumption = _estimate(job.config, finished, newest)
        assumed = assumed or by_assumption
    runs = [
        {
            "variant": entry.job.title,
            "seed": entry.job.seed,
            "finished": entry.before,
            "seconds": None if entry.before else expected[entry.job.variant],
            "folder": str(entry.path),
        }
        for entry in entries
    ]
    start_up = _start_up(sweep, at_a_time, len(missing))
    return {
        "schema": SCHEMA,
        "runs": runs,
        "executor": str(sweep.executor.kind),
        "slots": at_a_time,
        "made_again": store.outdated(sweep.out, (entry.identity for entry in missing)),
        "at_most": sweep.declaration is not None,
        "assumed_rate": ASSUMED_RATE if assumed else None,
        "start_up": start_up,
        "followed_by": followed_by,
        "seconds": _total(runs, start_up, at_a_time=1),
    }


def _total(runs: list[dict[str, Any]], start_up: float, *, at_a_time: int) -> float:
    """Expected duration of all runs; 0 where nothing is known."""
    seconds: float = sum(run["seconds"] or 0 for run in runs)
    return start_up + seconds / at_a_time if seconds else 0


def _start_up(sweep: Sweep, slots: int | None, num_missing: int) -> float:
    """Seconds besides the runs: of plan and report, and until the executor's processes are up.

    slots: number of runs at a time. One after another they are done in the sweep's own process.
    """
    kind, processes = sweep.executor.kind, min(slots or num_missing, num_missing)
    if kind in (ExecutorKind.submitit, ExecutorKind.slurm):
        processes = num_missing  # each run has its own
    elif kind is ExecutorKind.local and slots == 1:
        processes = 0
    return START_UP + PROCESS * ceil(processes / available_cores()) if num_missing else 0.0


def _load_readable(folders: Sequence[Path]) -> list[RunResult]:
    found = []
    for folder in folders:
        with suppress(UserError):  # the sweep itself reports what is wrong with it
            found.append(store.load(folder))
    return found


def _estimate(
    config: RunConfig, finished: Sequence[RunResult], newest: Sequence[RunResult]
) -> tuple[float | None, bool]:
    """Expected seconds of a run, None where nothing is known; and whether the rate is assumed.

    finished: runs of the same variant. newest: other runs, of which those on the same data count.
    """
    device = config.train.device
    if took := [run.wall_seconds for run in finished if run.config["train"]["device"] == device]:
        return fmean(took), False
    if not config.is_network:
        return None, False
    dataset = read_inputs(config).dataset
    num_train, num_val = len(dataset.train), len(dataset.test)
    if config.train.protocol is Protocol.holdout:
        num_val = round(num_train * config.train.holdout)
        num_train -= num_val
    flops = config.train.epochs * (3 * num_train + num_val) * flops_per_text(config)
    rates = [
        len(run.epochs) * (3 * run.data["n_train"] + run.data["n_val"]) * run.flops_per_example
        / run.wall_seconds
        for run in newest
        if run.data["fingerprint"] == dataset.fingerprint
        if run.config["train"]["device"] == device and run.flops_per_example
    ]  # fmt: skip
    if rates:
        return flops / fmean(rates), False
    return (flops / ASSUMED_RATE, True) if device in (Device.auto, Device.cpu) else (None, False)


def flops_per_text(config: RunConfig) -> float:
    """FLOPs of a forward pass: the matrix products of attention and feed-forward layers. Any
    other model is taken for an LSTM; the exact count needs torch (`attnexp config --cost`)."""
    model, tokens, width = config.model, config.data.max_len, config.model.d_model
    if not all(hasattr(model, name) for name in ("heads", "d_head", "layers", "feed_forward")):
        return float(16 * tokens * width**2)
    inner = model.heads * model.d_head
    feed_forward = 4 * width * (model.feed_forward or 0)
    return float(model.layers * tokens * (6 * width * inner + 4 * tokens * inner + feed_forward))


def print_preview(preview: dict[str, Any], console: Console) -> None:
    """Print a line for the runs of a variant with the same status, and the totals."""
    view = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    view.add_column("variant", overflow="fold")
    view.add_column("runs", justify="right")
    view.add_column("seeds", overflow="fold")
    view.add_column("each", justify="right", no_wrap=True)
    runs, alike = preview["runs"], dict[tuple[str, str], list[str]]()
    for run in runs:
        each = "?" if run["seconds"] is None else f"about {duration(run['seconds'])}"
        state = "finished before" if run["finished"] else each
        alike.setdefault((run["variant"], state), []).append(run["seed"])
    for (variant, state), seeds in alike.items():
        view.add_row(Text(variant), str(len(seeds)), _spans(seeds), state)
    console.print(view)
    for reason in preview["made_again"]:
        console.print(Text(reason))
    num_finished = sum(run["finished"] for run in runs)
    line = "At most " if preview["at_most"] else ""
    line += f"{len(runs)} runs, {num_finished} finished before, {len(runs) - num_finished} to do"
    if preview["seconds"]:
        line += f": about {duration(preview['seconds'])} one after another"
        if (at_a_time := preview["slots"] or 1) > 1:
            together = _total(runs, preview["start_up"], at_a_time=at_a_time)
            line += f", {duration(together)} with {at_a_time} at a time"
    console.print(Text(f"{line} (executor={preview['executor']})."))
    if num_next := preview["followed_by"]:
        line = f"The study follows: {num_next} runs, each variant at its best setting."
        console.print(Text(line))
    if rate := preview["assumed_rate"]:
        line = f"No run on these data has finished yet; times assume {rate / 1e9:.0f} GFLOP/s."
        console.print(Text(line))


def _spans(seeds: Sequence[str]) -> str:
    """Ranges of seeds, as `0 to 9, 12`; the middle of many is left out."""
    ranges: list[list[str]] = []
    for seed in seeds:
        last = ranges[-1][-1] if ranges else ""
        if seed.isdecimal() and last.isdecimal() and int(seed) == int(last) + 1:
            ranges[-1].append(seed)
        else:
            ranges.append([seed])
    spans = [" to ".join([*one[:1], *one[1:][-1:]]) for one in ranges]
    if len(spans) > MAX_SPANS:
        spans[MAX_SPANS - 1 : -1] = ["…"]
    return ", ".join(spans)
