"""Execution of a sweep: loads finished runs, awaits those of another sweep, starts the others."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from attnexp.base import progress
from attnexp.runs import manifest, store
from attnexp.runs.identity import identify
from attnexp.runs.result import Run
from attnexp.sweeps.executors import Executor, Outcome, open_executor
from attnexp.sweeps.folder import manifest_of
from attnexp.sweeps.plan import Job, Sweep
from attnexp.training.run import read_inputs


@dataclass(slots=True, eq=False)
class SweepEntry:
    """A job and what became of it."""

    job: Job
    path: Path  # folder of the run, finished or not
    before: bool  # whether the run had finished before this sweep got to it
    outcome: Outcome | None = None  # the finished run, or why it failed; None until it has ended


def scan(sweep: Sweep, *, any_code: bool = False) -> list[SweepEntry]:
    """Identify every run and find those that have finished; note changes of the code since. Changes
    nothing on disk.

    any_code: where none has finished with the code of today, take the newest one of other code.
    """
    entries, wanted, fingerprints = list[SweepEntry](), [], dict[str, str]()
    for job in sweep.jobs:
        reads = repr((job.config.data, getattr(job.config.model, "vectors", None)))
        if reads not in fingerprints:
            fingerprints[reads] = read_inputs(job.config).fingerprint
        identity = identify(job.config, fingerprints[reads])
        path = store.run_dir(job.config.out, identity.run_id)
        if not store.has_finished(path):
            wanted.append(identity)
            others = store.find_runs_of_other_code(job.config.out, identity) if any_code else []
            path = next(iter(others), path)
        entries.append(SweepEntry(job, path, before=store.has_finished(path)))
    for line in store.describe_outdated_runs(sweep.directory.parent, wanted):
        progress.note(f"{line} --any-code takes such runs as they are.")
    return entries


def run_sweep(
    sweep: Sweep,
    *,
    any_code: bool = False,
    observe: Callable[[list[SweepEntry]], None] = lambda entries: None,
    choose: Callable[[list[SweepEntry]], Iterable[list[SweepEntry]]] | None = None,
) -> list[SweepEntry]:
    """Run what has not finished; return the entries with their outcomes, in the order of the plan.

    any_code: as in `scan`. observe: called after every change, with the entries so far. choose: of
    all that are planned, one batch after another, each when the one before it has ended.
    """
    planned, entries = scan(sweep, any_code=any_code), list[SweepEntry]()
    executor = open_executor(sweep.executor, [one.job for one in planned if not one.before])
    try:
        for batch in choose(planned) if choose else [planned]:
            entries += batch
            _record(sweep, entries)
            for _ in _steps(batch, executor):
                observe(entries)
    finally:
        executor.close()
        _record(sweep, entries)  # another sweep of this study may have begun since
    return entries


def _record(sweep: Sweep, known: Sequence[SweepEntry]) -> None:
    """Add runs to the study of a sweep."""
    runs = [
        manifest.PlannedRun(variant=e.job.label, seed=e.job.seed, run_id=e.path.name) for e in known
    ]
    manifest.record_runs(sweep.directory, manifest_of(sweep, runs))


def _steps(batch: Sequence[SweepEntry], executor: Executor) -> Iterator[None]:
    """Run a batch, in its order but for what another sweep is doing. Yields after every change."""
    left, running = [*batch], dict[Any, SweepEntry]()
    while True:
        for one in [entry for entry in left if store.has_finished(entry.path)]:
            left.remove(one)
            one.before = True
            one.outcome = Run(
                path=one.path, result=store.load_result(one.path), label=one.job.label
            )
        yield
        if not left and not running:
            return
        free = (entry for entry in left if not store.is_locked(entry.path))
        if starting := [*islice(free, executor.slots - len(running))]:
            left = [entry for entry in left if entry not in starting]
            futures = executor.submit([entry.job for entry in starting])
            running |= zip(futures, starting, strict=True)
        ended = [future for future in running if future.done()]
        for future in ended:
            entry = running.pop(future)
            entry.outcome = _outcome(entry, future)
        if not ended:
            time.sleep(0.5)


def _outcome(entry: SweepEntry, future: Any) -> Outcome:
    """Outcome of a run that has ended."""
    try:
        outcome: Outcome = future.result()
    except Exception as error:  # whatever a cluster may do to a job
        return str(error).strip().partition("\n")[0]
    if isinstance(outcome, Run) and outcome.path.name != entry.path.name:
        return "the code or the data changed since the sweep began. Give the command again."
    return outcome
