"""What a user sees of a sweep: its runs and their time beforehand, and progress while it runs."""

import time
from collections import Counter
from statistics import fmean
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from attnexp.base import progress
from attnexp.config.schema import ExecutorKind
from attnexp.runs import manifest, store
from attnexp.sweeps.clusters import sbatch_script
from attnexp.sweeps.executors import Executor, num_slots
from attnexp.sweeps.plan import Sweep
from attnexp.sweeps.schedule import Entry, notes_on_code, scan


def notes_on_seeds(sweep: Sweep) -> list[str]:
    """A line on a sweep whose seeds, with those of its study before, are too few to decide."""
    earlier = manifest.load(sweep.directory)
    seeds = {(one.variant, one.seed) for one in earlier.runs} if earlier else set()
    counts = Counter(label for label, _ in seeds | {(job.label, job.seed) for job in sweep.jobs})
    fewest = min(counts[label] for label in sweep.variants)
    if len(sweep.variants) < 2 or fewest > 2:
        return []
    return [f"This decides nothing: seeds {fewest}; a verdict takes three, as in 'seed=range(6)'."]


def preview_sweep(
    sweep: Sweep, *, any_code: bool = False, then: Sweep | None = None
) -> dict[str, Any]:
    """The runs of a sweep and their expected seconds, as the JSON document of docs/json.md.

    A run is expected to take what finished runs of its variant took, else those of other variants
    on the same data. then: the study that follows a search.
    """
    entries, took = scan(sweep, any_code=any_code), dict[str, list[float]]()
    for entry in entries:
        if entry.before:
            seconds = store.load(entry.path).wall_seconds
            for name in (entry.job.title, f"data={entry.job.data}"):
                took.setdefault(name, []).append(seconds)
    runs = []
    for entry in entries:
        like = took.get(entry.job.title) or took.get(f"data={entry.job.data}")
        run = {"variant": entry.job.title, "seed": entry.job.seed, "finished": entry.before}
        seconds = fmean(like) if like and not entry.before else None
        runs.append({**run, "seconds": seconds, "folder": str(entry.path)})
    todo = [entry.job for entry in entries if not entry.before]
    is_slurm = sweep.executor.kind is ExecutorKind.slurm and todo
    return {
        "schema": 2,
        "runs": runs,
        "executor": str(sweep.executor.kind),
        "slots": num_slots(sweep.executor, todo),
        "at_most": sweep.declaration is not None,
        "followed_by": len(then.jobs) if then else 0,
        "notes": [*notes_on_seeds(then or sweep), *notes_on_code(sweep, entries)],
        "sbatch": sbatch_script(sweep.executor, todo) if is_slurm else None,
    }


def print_preview(preview: dict[str, Any], console: Console) -> None:
    """Print a line for each variant, the total, and what Slurm would be sent."""
    table = Table(
        "variant", "runs", "finished", "a run takes", box=box.SIMPLE_HEAD, show_edge=False
    )
    todo = [run for run in preview["runs"] if not run["finished"]]
    times = {run["variant"]: run["seconds"] for run in todo}
    left = Counter(run["variant"] for run in todo)
    for variant, count in Counter(run["variant"] for run in preview["runs"]).items():
        seconds = times.get(variant)
        each = f"about {progress.duration(seconds)}" if seconds else "unknown until one has ended"
        each = each if left[variant] else ""
        table.add_row(Text(variant), str(count), str(count - left[variant]), each)
    console.print(table)
    slots = preview["slots"] or 1
    line = f"{'At most ' if preview['at_most'] else ''}{len(todo)} runs to do"
    if todo and all(times.values()):
        together = sum(run["seconds"] for run in todo) / slots
        line += f": about {progress.duration(together)} with {slots} at a time"
    if preview["followed_by"]:
        line += f"; then the study, {preview['followed_by']} runs at the best settings"
    lines = [f"{line} (executor={preview['executor']}).", *preview["notes"], preview["sbatch"]]
    console.print(Text("\n".join(filter(None, lines))))


class Watch:
    """Observer for `schedule.run_sweep`: a line for each run and, on a terminal, one bar."""

    def __init__(self) -> None:
        columns = TextColumn("{task.description}"), BarColumn(bar_width=20)
        self.bar = Progress(*columns, console=progress.console, transient=True)
        self.task, self.began = self.bar.add_task(""), time.monotonic()
        self.told: set[Any] = set()

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    def __call__(self, entries: list[Entry], executor: Executor | None) -> None:
        """Display the current state of all entries."""
        num_failed = sum(isinstance(entry.outcome, str) for entry in entries)
        num_left = sum(entry.outcome is None for entry in entries)
        num_mine = sum(not entry.before for entry in entries)
        line = f"{len(entries) - num_failed - num_left} done, {num_failed} failed, {num_left} left"
        if num_left < num_mine:
            each = (time.monotonic() - self.began) / (num_mine - num_left)
            line += f", about {progress.duration(each * num_left)}"
        if executor is not None and type(executor) is not Executor and progress.console.is_terminal:
            self.bar.start()
        self.bar.update(self.task, description=line, total=num_mine, completed=num_mine - num_left)
        for entry in entries:
            if entry.outcome is None or id(entry) in self.told:
                continue
            self.told.add(id(entry))
            if isinstance(entry.outcome, str):
                progress.note(f"{entry.job} failed: {entry.outcome}")
            elif entry.before:
                progress.note(f"{entry.job}: finished before, {entry.path}")
            else:
                result = entry.outcome.result
                progress.note(
                    f"{entry.job}: final accuracy {100 * result.final.val_accuracy:.2f} %, "
                    f"{progress.duration(result.wall_seconds)}, "
                    f"{result.final.examples_per_second:,.0f} texts/s ({line})"
                )

    def tell(self, lines: dict[str, str]) -> None:
        """Print the lines on variants that are new."""
        for item in lines.items():
            if item not in self.told:
                self.told.add(item)
                progress.note(": ".join(item))
