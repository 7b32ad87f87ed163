"""What a user sees of a sweep: its runs and their time beforehand, and progress while it runs."""

import math
import time
from collections import Counter
from statistics import fmean
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn

from attnexp.base import progress
from attnexp.config.schema import ExecutorKind
from attnexp.runs import store
from attnexp.runs.result import Run
from attnexp.sweeps.clusters import sbatch_script
from attnexp.sweeps.executors import num_slots
from attnexp.sweeps.plan import Sweep
from attnexp.sweeps.schedule import Entry, notes_on_code, scan


def notes_on_seeds(sweep: Sweep) -> list[str]:
    """A line on a sweep whose seeds are too few to decide anything."""
    fewest = min(Counter(job.title for job in sweep.jobs).values())
    if len(sweep.variants) < 2 or fewest > 2:
        return []
    return [f"A verdict takes three seeds, and this has {fewest}. Give more, as 'seed=range(6)'."]


def preview_sweep(sweep: Sweep, *, any_code: bool = False) -> list[str]:
    """A line for each variant, the total, changes of the code, and what Slurm would be sent.

    A run is expected to take the mean of finished ones of its variant, else of the whole sweep.
    """
    entries, lines, seconds = scan(sweep, any_code=any_code), list[str](), 0.0
    took = {e.path: store.load(e.path).wall_seconds for e in entries if e.before}
    for title in dict.fromkeys(entry.job.title for entry in entries):
        own = [entry.path for entry in entries if entry.job.title == title]
        finished = [took[path] for path in own if path in took]
        each = fmean(finished or took.values()) if took else math.nan
        seconds += each * (len(own) - len(finished))
        time_of_one = f"about {progress.duration(each)}" if took else "unknown until the first ends"
        lines.append(f"{title}: {len(own)} runs, {len(finished)} finished; time: {time_of_one}")
    todo = [entry.job for entry in entries if not entry.before]
    slots = num_slots(sweep.executor, todo) or 1
    total = f"about {progress.duration(seconds / slots)}, {slots} at a time, " if took else ""
    at_most = "At most " if sweep.declaration else ""
    lines.append(f"{at_most}{len(todo)} runs to do, {total}executor={sweep.executor.kind}.")
    if todo and sweep.executor.kind is ExecutorKind.slurm:
        lines.append(sbatch_script(sweep.executor, todo))
    return lines + notes_on_code(sweep, entries)


class Watch(Progress):
    """Observer for `schedule.run_sweep`: a line for each run and, on a terminal, one bar."""

    def __init__(self) -> None:
        columns = TextColumn("{task.description}"), BarColumn(bar_width=20)
        super().__init__(*columns, console=progress.console, transient=True)
        self.task, self.told = self.add_task("", total=None), set[Any]()
        self.began = time.monotonic()

    def stop(self) -> None:
        """Remove the bar."""
        if progress.console.is_terminal:  # elsewhere rich would end with an empty line
            super().stop()

    def __call__(self, entries: list[Entry]) -> None:
        """Display the current state of these entries."""
        num_failed = sum(isinstance(entry.outcome, str) for entry in entries)
        num_left = sum(entry.outcome is None for entry in entries)
        num_mine = sum(not entry.before for entry in entries)
        line = f"{len(entries) - num_failed - num_left} done, {num_failed} failed, {num_left} left"
        if num_left < num_mine:
            each = (time.monotonic() - self.began) / (num_mine - num_left)
            line += f", about {progress.duration(each * num_left)}"
        self.update(self.task, description=line, total=num_mine, completed=num_mine - num_left)
        for entry in entries:
            if entry.outcome is not None and id(entry) not in self.told:
                self.told.add(id(entry))
                progress.note(f"{entry.job}: {_outcome_line(entry)} ({line})")


def _outcome_line(entry: Entry) -> str:
    if not isinstance(entry.outcome, Run):
        return f"failed: {entry.outcome}"
    if entry.before:
        return f"finished before, {entry.path}"
    result = entry.outcome.result
    accuracy, seconds = 100 * result.final.val_accuracy, progress.duration(result.wall_seconds)
    speed = f"{result.final.examples_per_second:,.0f} texts/s"
    return f"final accuracy {accuracy:.2f} %, {seconds}, {speed}"
