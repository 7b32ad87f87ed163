"""What a sweep would do: its runs, and about how long they would take."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnexp.config.schema import to_dict
from attnexp.progress import duration
from attnexp.runs import store
from attnexp.runs.identity import replicate
from attnexp.runs.result import Run
from attnexp.sweeps import estimate
from attnexp.sweeps.plan import Sweep
from attnexp.sweeps.schedule import Entry, made_again, slots, survey


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """One run."""

    variant: str
    seed: str
    finished: bool
    seconds: float | None
    """Expected; None where finished or unknown."""
    folder: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Preview:
    """A sweep before it starts."""

    runs: list[Planned]
    executor: str
    slots: int | None
    """Runs at a time; None where the executor decides."""
    made_again: list[str]
    """Why runs that finished once are to be done, by change of the code."""
    at_most: bool
    """Seeds are added until every variant is decided, which may be before all these runs."""

    @property
    def seconds(self) -> float:
        """Of computing, one run after another."""
        return sum(run.seconds or 0 for run in self.runs)

    def to_json(self) -> dict[str, Any]:
        """Plain containers and numbers."""
        return {**asdict(self), "seconds": self.seconds}


def take(sweep: Sweep) -> Preview:
    """Look at a sweep's data and at what has finished; try a few steps of each new variant."""
    entries = survey(sweep)
    missing = [entry for entry in entries if not entry.before]
    finished = [
        Run(path=entry.path, result=store.load(entry.path)) for entry in entries if entry.before
    ]
    threads = sweep.executor.threads
    for entry in missing:
        entry.job.config.train.threads = entry.job.config.train.threads or threads
    expected = estimate.seconds(missing, finished)
    return Preview(
        runs=[_planned(entry, expected.get(entry.identity.run_id)) for entry in entries],
        executor=str(sweep.executor.kind),
        slots=slots(sweep, missing) if missing else None,
        made_again=made_again(sweep, entries),
        at_most=sweep.declaration is not None,
    )


def show(preview: Preview, console: Console) -> None:
    """A line for each run, and the sum."""
    view = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    view.add_column("variant", overflow="fold")
    view.add_column("seed", justify="right")
    view.add_column("", justify="right", no_wrap=True)
    for run in preview.runs:
        if run.finished:
            state = "finished before"
        else:
            state = "?" if run.seconds is None else f"about {duration(run.seconds)}"
        view.add_row(Text(run.variant), run.seed, state)
    console.print(view)
    for reason in preview.made_again:
        console.print(Text(reason))
    counts = Counter(run.finished for run in preview.runs)
    line = "At most " if preview.at_most else ""
    line += f"{len(preview.runs)} runs, {counts[True]} finished before, {counts[False]} to do"
    if preview.seconds:
        line += f": about {duration(preview.seconds)} one after another"
        if preview.slots and preview.slots > 1:
            line += f", {duration(preview.seconds / preview.slots)} with {preview.slots} at a time"
    console.print(Text(f"{line} (executor={preview.executor})."))


def _planned(entry: Entry, seconds: float | None) -> Planned:
    return Planned(
        variant=entry.job.label,
        seed=replicate(to_dict(entry.job.config)),
        finished=entry.before,
        seconds=None if entry.before else seconds,
        folder=str(entry.path),
    )
