"""Display of a running sweep: a live table on a terminal, elsewhere one line for each run; and what
a search for settings has found."""

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import fmean, stdev
from typing import Any

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from attnexp.base import progress
from attnexp.runs import store
from attnexp.runs.result import Run
from attnexp.sweeps.executors.local import InThisProcess
from attnexp.sweeps.executors.task import Executor, Failure
from attnexp.sweeps.schedule import Entry, Status
from attnexp.sweeps.tuning import Trial, Tuning


class Watch:
    """Observer for `schedule.run_sweep`; call `close` at the end."""

    def __init__(self) -> None:
        self.live = Live(
            console=progress.console, refresh_per_second=2, transient=True, auto_refresh=False
        )
        self.told: set[int] = set()
        self.began: dict[int, float] = {}

    def close(self) -> None:
        """Remove the live table."""
        self.live.stop()

    def __call__(self, entries: list[Entry], executor: Executor | None) -> None:
        """Display the current status of all entries."""
        now = time.monotonic()
        for entry in entries:
            if entry.status is Status.running:
                self.began.setdefault(id(entry), now)
        alone = isinstance(executor, InThisProcess)
        self._tell(entries, alone=alone)
        if executor is not None and not alone and progress.console.is_terminal:
            self.live.start()
            self.live.update(self.table(entries), refresh=True)

    def table(self, entries: list[Entry]) -> Table:
        """Totals, best run, then the running ones; a low terminal cuts off the end."""
        view = Table(box=None, show_header=False, pad_edge=False, collapse_padding=True)
        view.add_column(no_wrap=True, ratio=1)
        view.add_column(justify="right", no_wrap=True)
        view.add_row(Text(totals(entries), style="bold"), self.pace(entries))
        if best := best_so_far(entries):
            view.add_row(Text(best, style="dim"), "")
        for entry in entries:
            if entry.status is Status.running:
                view.add_row(Text(f"  {entry.job}"), _progress_of(entry))
        return view

    def pace(self, entries: list[Entry]) -> Text:
        """Runs per minute since the start, and the time left."""
        began = [self.began[id(entry)] for entry in entries if id(entry) in self.began]
        mine = [entry for entry in entries if not entry.before]
        progressed = sum(_share_done(entry) for entry in mine)
        if not began or not progressed:
            return Text("")
        rate = progressed / (time.monotonic() - min(began))
        left = (len(mine) - progressed) / rate
        return Text(f"{60 * rate:.1f} runs/min, {progress.duration(left)} left")

    def _tell(self, entries: list[Entry], *, alone: bool) -> None:
        """Print a line for each new event."""
        for number, entry in enumerate(entries, start=1):
            which = f"[{number}/{len(entries)}] {entry.job}"
            if entry.status is Status.running and alone:
                progress.note(which)
            if id(entry) in self.told or entry.status not in (Status.done, Status.failed):
                continue
            self.told.add(id(entry))
            match entry.outcome:
                case Failure(reason=reason):
                    progress.note(f"{which} failed: {reason}")
                case Run(path=path) if entry.before:
                    progress.note(f"{which}: finished before, {path}")
                case Run(result=result):
                    progress.note(
                        f"{which}: final {100 * result.final.val_accuracy:.2f}, "
                        f"{progress.duration(result.wall_seconds)}"
                    )


def totals(entries: Sequence[Entry]) -> str:
    """Number of runs by status, as `7 of 20 done, 2 running, 11 waiting`."""
    counts = Counter(entry.status for entry in entries)
    parts = [f"{counts[Status.done]} of {len(entries)} done"]
    for status in (Status.running, Status.waiting, Status.elsewhere, Status.failed):
        if counts[status]:
            parts.append(f"{counts[status]} {status}")
    return ", ".join(parts)


def best_so_far(entries: list[Entry]) -> str:
    """The run with the highest validation accuracy."""
    found = [
        (entry.outcome.result.best.val_accuracy, entry.job)
        for entry in entries
        if isinstance(entry.outcome, Run)
    ]
    if not found:
        return ""
    accuracy, job = max(found, key=lambda pair: pair[0])
    return f"best so far: {job}, {100 * accuracy:.2f}"


def _share_done(entry: Entry) -> float:
    if entry.status is Status.running:
        return _read_epochs(entry)[0] / entry.job.config.num_epochs
    return float(entry.status in (Status.done, Status.failed))


def _read_epochs(entry: Entry) -> tuple[int, dict[str, Any]]:
    """Number of epochs in a run's `metrics.jsonl`, and the last of them."""
    try:
        lines = (store.part_of(entry.path) / store.METRICS).read_bytes().splitlines()
        return len(lines), json.loads(lines[-1])
    except (OSError, IndexError, ValueError):  # not started, or a line is half written
        return 0, {}


def _progress_of(entry: Entry) -> Text:
    num_epochs, row = _read_epochs(entry)
    epochs = f"epoch {num_epochs + 1}/{entry.job.config.num_epochs}"
    if not row:
        return Text(epochs)
    return Text(f"{100 * row['val_accuracy']:.2f}  {row['examples_per_second']:,.0f}/s  {epochs}")


def print_trials(tuning: Tuning, trials: Sequence[Trial], console: Console) -> None:
    """Print the held-out accuracy of every setting, and which are chosen."""
    view = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    view.add_column("variant", overflow="fold")
    view.add_column("setting", overflow="fold")
    for name in ("held-out accuracy", "n", ""):
        view.add_column(name, justify="right", no_wrap=True)
    searched = [trial for trial in trials if trial.search]
    for trial in searched:
        found = [100 * value for value in trial.accuracies]
        cell = f"{fmean(found):.2f}" if found else "–"
        cell += f" ± {stdev(found):.2f}" if len(found) > 1 else ""
        state = "chosen" if trial.chosen else ""
        state = f"{len(trial.failures)} failed: not chosen" if trial.failures else state
        view.add_row(Text(trial.variant), Text(trial.setting), cell, str(len(found)), state)
    epochs = " or ".join(sorted({trial.epoch for trial in searched}))
    console.print(Text(f"Search on held-out data, {epochs} epoch, in %"), style="bold")
    console.print(view)
    for trial in searched:
        for word in _ends(tuning) if trial.chosen else ():
            if word in trial.setting.split():
                line = f"{trial.variant}: {word} is at the end of the grid; try a wider one."
                console.print(Text(line))


def _ends(tuning: Tuning) -> Iterator[str]:
    """The words with the smallest and the largest value of each axis of numbers."""
    for axis in tuning.axes:
        try:
            by_value = sorted(axis, key=lambda pair: float(pair[1].partition("=")[2]))
        except ValueError:
            continue
        yield by_value[0][1]
        yield by_value[-1][1]
