"""What a user sees of a sweep: its runs beforehand, and progress while it runs."""

import time
from collections import Counter

from rich.progress import BarColumn, Progress, TextColumn

from attnexp.base import progress
from attnexp.config.settings import Tree
from attnexp.sweeps.executor import num_slots
from attnexp.sweeps.plan import Sweep
from attnexp.sweeps.schedule import Entries, SweepEntry, scan


def count_runs(sweep: Sweep, *, any_code: bool = False) -> Tree:
    """Numbers of runs before a sweep begins: in all, to be done, at a time, and of each variant."""
    entries = scan(sweep, any_code=any_code)
    missing = [entry.job for entry in entries if not entry.finished_before]
    num_missing = Counter(job.title for job in missing)
    num_runs = Counter(job.title for job in sweep.jobs)
    variants = {
        title: {"runs": number, "finished": number - num_missing[title]}
        for title, number in num_runs.items()
    }
    slots = num_slots(sweep.executor, missing)
    return {"runs": len(entries), "to_do": len(missing), "at_a_time": slots, "variants": variants}


def describe_counts(sweep: Sweep, counts: Tree) -> str:
    """A line for each variant, and the total, of what `count_runs` gives."""
    lines = []
    for title, numbers in counts["variants"].items():
        lines.append(f"{title}: {numbers['finished']} of {numbers['runs']} runs finished")
    to_do = "Runs to do:"
    if sweep.sequential:
        to_do += " at most"
    kind = sweep.executor.kind
    lines.append(f"{to_do} {counts['to_do']}, executor={kind}, {counts['at_a_time']} at a time.")
    return "\n".join(lines)


class SweepDisplay:
    """A line for each run that has ended, and what is left: on a terminal in a bar."""

    def __init__(self) -> None:
        console = progress.console
        columns = (TextColumn("{task.description}", markup=False), BarColumn(20))
        is_off = not console.is_terminal
        self.bar = Progress(*columns, console=console, transient=True, disable=is_off)
        self.task = self.bar.add_task("", total=None)
        self.shown: set[SweepEntry] = set()  # those whose line has been shown
        self.shown_status = ""
        self.began = time.monotonic()

    def show(self, entries: Entries, status: str) -> None:
        """Show the current state of these entries. status: what is waited for, or nothing."""
        ended = [entry for entry in entries if entry.outcome is not None]
        num_failed = sum(entry.failure is not None for entry in ended)
        num_left = len(entries) - len(ended)
        num_to_do = sum(not entry.finished_before for entry in entries)
        num_done = num_to_do - num_left  # since this sweep began, by whomever
        line = f"{len(ended) - num_failed} done, {num_failed} failed, {num_left} left"
        if 0 < num_done < num_to_do:
            seconds = time.monotonic() - self.began
            seconds_left = seconds / num_done * num_left
            line += f", about {progress.duration(seconds_left)}"
        for entry in ended:
            if entry not in self.shown:
                self.shown.add(entry)
                progress.note(f"{entry.job}: {_describe_outcome(entry)} ({line})")
        if num_left and status:
            line += f"; {status}"
            if self.bar.disable and status != self.shown_status:
                progress.note(line)
                self.shown_status = status
        self.bar.update(self.task, description=line, total=num_to_do, completed=num_done)


def _describe_outcome(entry: SweepEntry) -> str:
    if not entry.run:
        return f"failed: {entry.failure}"
    result = entry.run.result
    accuracy = f"final accuracy {100 * result.final.val_accuracy:.2f} %"
    if entry.finished_before:
        return f"{accuracy}, finished before"
    speed = f"{result.final.examples_per_second:,.0f} texts/s"
    return f"{accuracy}, {progress.duration(result.wall_seconds)}, {speed}"
