"""What a sweep would do: its runs, and about how long they would take."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnexp.base.errors import UserError
from attnexp.base.progress import duration
from attnexp.runs import store
from attnexp.runs.result import RunResult
from attnexp.sweeps.executors.choose import for_executor
from attnexp.sweeps.plan import Sweep
from attnexp.sweeps.schedule import Entry, made_again, slots, survey

SCHEMA = 1

MOST_READ = 20
"""Finished runs of a variant that say how long another would take."""

START_UPS = 3
"""What a sweep takes besides its runs, in imports of torch (about two seconds): one for its
processes, which start side by side, and as long again to plan, and to report."""

MOST_SPANS = 8
"""Stretches of seeds that are named."""


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
    start_up: float
    """Seconds before the first run and after the last."""

    @property
    def seconds(self) -> float:
        """One run after another; 0 where nothing can be said."""
        return self.seconds_with(1)

    def seconds_with(self, slots: int) -> float:
        """With as many runs at a time."""
        runs = sum(run.seconds or 0 for run in self.runs)
        return self.start_up + runs / slots if runs else 0

    def to_json(self) -> dict[str, Any]:
        """Plain containers and numbers."""
        return {"schema": SCHEMA, **asdict(self), "seconds": self.seconds}


def take(sweep: Sweep) -> Preview:
    """Look at a sweep's data and at what has finished; try a few steps of each new variant."""
    entries = survey(sweep)
    missing = [entry for entry in entries if not entry.before]
    at_a_time = slots(sweep, missing) if missing else None
    start_up, expected = 0.0, dict[int, float | None]()
    if missing:
        began = time.perf_counter()
        import torch  # noqa: F401 — a sweep that has finished does not need it

        start_up = START_UPS * (time.perf_counter() - began)
        expected = _expected(sweep, missing, entries, alone=at_a_time == 1)
    return Preview(
        runs=[
            Planned(
                variant=entry.job.label,
                seed=entry.job.seed,
                finished=entry.before,
                seconds=None if entry.before else expected.get(entry.job.variant),
                folder=str(entry.path),
            )
            for entry in entries
        ],
        executor=str(sweep.executor.kind),
        slots=at_a_time,
        made_again=made_again(sweep, entries),
        at_most=sweep.declaration is not None,
        start_up=start_up,
    )


def _expected(
    sweep: Sweep, missing: Sequence[Entry], entries: Sequence[Entry], *, alone: bool
) -> dict[int, float | None]:
    """Seconds of a run, by the number of its variant."""
    from attnexp.sweeps import estimate

    firsts = {entry.job.variant: entry for entry in reversed(missing)}
    expected = {}
    for variant, first in firsts.items():
        before = (entry.path for entry in entries if entry.before and entry.job.variant == variant)
        finished = list(islice(_readable(before), MOST_READ))
        job = for_executor(first.job, sweep.executor, alone=alone)
        expected[variant] = estimate.seconds(job.config, finished)
    return expected


def _readable(folders: Iterable[Path]) -> Iterator[RunResult]:
    for folder in folders:
        with suppress(UserError):  # the sweep itself says what is wrong with it
            yield store.load(folder)


def show(preview: Preview, console: Console) -> None:
    """A line for the runs of a variant that stand alike, and the sum."""
    view = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    view.add_column("variant", overflow="fold")
    view.add_column("runs", justify="right")
    view.add_column("seeds", overflow="fold")
    view.add_column("each", justify="right", no_wrap=True)
    alike: dict[tuple[str, str], list[str]] = {}
    for run in preview.runs:
        alike.setdefault((run.variant, _state(run)), []).append(run.seed)
    for (variant, state), seeds in alike.items():
        view.add_row(Text(variant), str(len(seeds)), _spans(seeds), state)
    console.print(view)
    for reason in preview.made_again:
        console.print(Text(reason))
    counts = Counter(run.finished for run in preview.runs)
    line = "At most " if preview.at_most else ""
    line += f"{len(preview.runs)} runs, {counts[True]} finished before, {counts[False]} to do"
    if preview.seconds:
        line += f": about {duration(preview.seconds)} one after another"
        if preview.slots and preview.slots > 1:
            line += (
                f", {duration(preview.seconds_with(preview.slots))} with {preview.slots} at a time"
            )
    console.print(Text(f"{line} (executor={preview.executor})."))


def _state(run: Planned) -> str:
    if run.finished:
        return "finished before"
    return "?" if run.seconds is None else f"about {duration(run.seconds)}"


def _spans(seeds: Sequence[str]) -> str:
    """`0 to 9, 12`; of many apart the first and the last."""
    spans = [one if one == last else f"{one} to {last}" for one, last in _runs_on(seeds)]
    if len(spans) > MOST_SPANS:
        spans[MOST_SPANS - 1 : -1] = ["…"]
    return ", ".join(spans)


def _runs_on(seeds: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Stretches of seeds of which each is one more than the last."""
    first = last = seeds[0]
    for seed in seeds[1:]:
        if not (seed.isdecimal() and last.isdecimal() and int(seed) == int(last) + 1):
            yield first, last
            first = seed
        last = seed
    yield first, last
