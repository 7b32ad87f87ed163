"""What a user sees of a sweep: its runs and their time beforehand, and progress while it runs."""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from statistics import fmean

from rich.progress import BarColumn, Progress, TextColumn

from attnexp.base import progress
from attnexp.config.schema import ExecutorKind
from attnexp.runs import store
from attnexp.runs.result import Run
from attnexp.sweeps.executors import num_slots, sbatch_script
from attnexp.sweeps.plan import Sweep
from attnexp.sweeps.schedule import SweepEntry, scan


def notes_on_seeds(sweep: Sweep) -> list[str]:
    """A line on a sweep whose seeds are too few to decide anything."""
    fewest = min(Counter(job.title for job in sweep.jobs).values())
    line = f"A verdict takes three seeds, and this has {fewest}. Give more, as 'seed=range(6)'."
    return [line] if len(sweep.variants) > 1 and fewest < 3 else []


def preview_sweep(sweep: Sweep, *, any_code: bool = False) -> list[str]:
    """A line for each variant, the total with its expected time, and what Slurm would be sent."""
    entries = scan(sweep, any_code=any_code)
    todo = [entry.job for entry in entries if not entry.before]
    num_runs, num_left = (Counter(job.title for job in jobs) for jobs in (sweep.jobs, todo))
    lines = [f"{name}: {n} runs, {n - num_left[name]} finished" for name, n in num_runs.items()]
    slots = num_slots(sweep.executor, todo)
    expected = "time unknown until the first run ends"
    if took := [store.load_result(entry.path).wall_seconds for entry in entries if entry.before]:
        expected = f"about {progress.duration(fmean(took) * len(todo) / slots)}"
    where = f"executor={sweep.executor.kind}, {slots} at a time"
    lines.append(f"{len(todo)} runs to do, {where}: {expected}.")
    if todo and sweep.executor.kind is ExecutorKind.slurm:
        lines.append(sbatch_script(sweep.executor, todo))
    return lines


class Watch(Progress):
    """Observer for `schedule.run_sweep`: a line for each run and, on a terminal, one bar. Before
    that, where some have finished before, the lines of `foresee`."""

    def __init__(self, foresee: Callable[[list[SweepEntry]], Iterable[str]] | None = None) -> None:
        console = progress.console
        columns = (TextColumn("{task.description}"), BarColumn(20))
        super().__init__(*columns, console=console, transient=True, disable=not console.is_terminal)
        self.task, self.noted = self.add_task("", total=None), set[int]()  # ids of ended entries
        self.began, self.foresee = time.monotonic(), foresee

    def __call__(self, entries: list[SweepEntry]) -> None:
        """Display the current state of these entries."""
        num_failed = sum(isinstance(entry.outcome, str) for entry in entries)
        num_left = sum(entry.outcome is None for entry in entries)
        num_mine = sum(not entry.before for entry in entries)
        if self.foresee and not self.noted and num_left and num_mine < len(entries):
            for line in self.foresee(entries):
                progress.note(line)
        line = f"{len(entries) - num_failed - num_left} done, {num_failed} failed, {num_left} left"
        if num_left < num_mine:
            each = (time.monotonic() - self.began) / (num_mine - num_left)
            line += f", about {progress.duration(each * num_left)}"
        self.update(self.task, description=line, total=num_mine, completed=num_mine - num_left)
        for entry in entries:
            if entry.outcome is not None and id(entry) not in self.noted:
                self.noted.add(id(entry))
                progress.note(f"{entry.job}: {_outcome_line(entry)} ({line})")


def _outcome_line(entry: SweepEntry) -> str:
    if not isinstance(entry.outcome, Run):
        return f"failed: {entry.outcome}"
    result, final = entry.outcome.result, entry.outcome.result.final
    speed = f"{progress.duration(result.wall_seconds)}, {final.examples_per_second:,.0f} texts/s"
    how = "finished before" if entry.before else speed
    return f"final accuracy {100 * final.val_accuracy:.2f} %, {how}"
