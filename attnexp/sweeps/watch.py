"""What a user sees of a sweep: its runs and their time beforehand, and progress while it runs."""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn

from attnexp.base import progress
from attnexp.config.schema import ExecutorKind
from attnexp.runs.result import Run
from attnexp.sweeps.executors import num_slots
from attnexp.sweeps.forecast import foresee
from attnexp.sweeps.plan import Sweep
from attnexp.sweeps.schedule import SweepEntry, scan
from attnexp.sweeps.slurm import sbatch_script


def notes_on_plan(sweep: Sweep) -> list[str]:
    """A line on a sweep whose seeds are too few to decide anything."""
    notes = []
    num_seeds = Counter(job.title for job in sweep.jobs)
    fewest = min(num_seeds.values())
    if len(sweep.variants) > 1 and fewest < 3:
        notes.append(
            f"A verdict takes three seeds, and this has {fewest}. Give more, as 'seed=range(6)'."
        )
    return notes


def preview_sweep(
    sweep: Sweep, judged: Sweep, *, any_code: bool = False, as_json: bool = False
) -> str | dict[str, Any]:
    """A line a variant, the total, what the judged sweep finds, Slurm's script; or a record."""
    entries = scan(sweep, any_code=any_code)
    missing = [entry.job for entry in entries if not entry.before]
    slots = num_slots(sweep.executor, missing)
    forecast = foresee(sweep, judged, missing)
    if as_json:
        counts = {"runs": len(entries), "to_do": len(missing), "at_a_time": slots}
        return counts | forecast
    num_runs = Counter(job.title for job in sweep.jobs)
    num_missing = Counter(job.title for job in missing)
    lines = []
    for title, number in num_runs.items():
        num_finished = number - num_missing[title]
        lines.append(f"{title}: {_count_runs(number)}, {num_finished} finished")
    expected = "time unknown until the first run ends"
    seconds = forecast["seconds"]
    if seconds is not None:
        expected = f"about {progress.duration(seconds)}"
    place = f"executor={sweep.executor.kind}, {slots} at a time"
    to_do = f"{_count_runs(len(missing))} to do"
    if sweep.declaration is not None:
        to_do += " at most"
    lines.append(f"{to_do}, {place}: {expected}.")
    lines += [difference["words"] for difference in forecast["differences"]]
    if missing and sweep.executor.kind is ExecutorKind.slurm:
        lines.append(sbatch_script(sweep.executor, missing))
    return "\n".join(lines)


def _count_runs(number: int) -> str:
    return "1 run" if number == 1 else f"{number} runs"


class Watch(Progress):
    """Observer for `run_sweep`: a line for each run that has ended, and what is waited for, in a
    bar on a terminal, else once a minute. foresee: lines shown before a sweep that is resumed."""

    def __init__(
        self, foresee: Callable[[list[SweepEntry]], Iterable[str]] = lambda entries: []
    ) -> None:
        console = progress.console
        columns = (TextColumn("{task.description}", markup=False), BarColumn(20))
        super().__init__(*columns, console=console, transient=True, disable=not console.is_terminal)
        self.task = self.add_task("", total=None)
        self.shown: set[SweepEntry] = set()  # those whose line has been shown
        self.began = time.monotonic()
        self.next_status = self.began
        self.foresee = foresee

    def __call__(self, entries: list[SweepEntry], status: str = "") -> None:
        """Show the current state of these entries. status: what is waited for, or nothing."""
        # finished runs, reasons of failures, and None
        counts = Counter(type(entry.outcome) for entry in entries)
        num_left = counts[type(None)]
        num_here = len([entry for entry in entries if not entry.before])  # what this sweep does
        num_done_here = num_here - num_left
        is_resumed = num_here < len(entries)
        if is_resumed and num_left and not self.shown:
            for line in self.foresee(entries):
                progress.note(line)
        line = f"{counts[Run]} done, {counts[str]} failed, {num_left} left"
        if num_done_here > 0:
            seconds = time.monotonic() - self.began
            seconds_left = seconds / num_done_here * num_left
            line += f", about {progress.duration(seconds_left)}"
        for entry in entries:
            if entry.outcome is not None and entry not in self.shown:
                self.shown.add(entry)
                progress.note(f"{entry.job}: {_describe_outcome(entry)} ({line})")
        if num_left:
            line = self._add_status(line, status)
        self.update(self.task, description=line, total=num_here, completed=num_done_here)

    def _add_status(self, line: str, status: str) -> str:
        """A line with what is waited for; once a minute it is printed where there is no bar."""
        if not status:
            return line
        line += f"; {status}"
        if self.disable and time.monotonic() >= self.next_status:
            progress.note(line)
            self.next_status = time.monotonic() + 60
        return line


def _describe_outcome(entry: SweepEntry) -> str:
    if not isinstance(entry.outcome, Run):
        return f"failed: {entry.outcome}"
    result = entry.outcome.result
    accuracy = f"final accuracy {100 * result.final.val_accuracy:.2f} %"
    if entry.before:
        return f"{accuracy}, finished before"
    speed = f"{result.final.examples_per_second:,.0f} texts/s"
    return f"{accuracy}, {progress.duration(result.wall_seconds)}, {speed}"
