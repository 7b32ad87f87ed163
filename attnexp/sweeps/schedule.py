"""Execution of a sweep. Finished runs are loaded, runs of another sweep are awaited, and the others
start wherever a slot is free."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.config.schema import ExecutorConfig, ExecutorKind
from attnexp.runs import manifest, store
from attnexp.runs.identity import Identity, identify
from attnexp.runs.result import Run
from attnexp.sweeps.clusters import open_executor
from attnexp.sweeps.executors import Executor, Outcome
from attnexp.sweeps.plan import Job, Sweep
from attnexp.training.run import read_inputs


@dataclass(slots=True, eq=False)
class Entry:
    """A job and what became of it."""

    job: Job
    identity: Identity
    path: Path
    """Folder of the run, finished or not."""
    before: bool
    """Whether the run had finished before this sweep got to it."""
    outcome: Outcome = None
    """The finished run, or the reason why it failed; None until it has ended."""
    killed: bool = False
    """Whether a process was killed while it did this run."""


def scan(sweep: Sweep, *, any_code: bool = False) -> list[Entry]:
    """Identify every run and find those that have finished. Changes nothing on disk.

    any_code: where none has finished with the code of today, take the newest one of other code.
    """
    entries, fingerprints = list[Entry](), dict[str, str]()
    for job in sweep.jobs:
        reads = repr((job.config.data, job.config.vectors))
        if reads not in fingerprints:
            fingerprints[reads] = read_inputs(job.config).fingerprint
        identity = identify(job.config, fingerprints[reads])
        path = store.run_dir(job.config.out, identity.run_id)
        if any_code and not store.has_finished(path):
            path = next(iter(store.of_other_code(job.config.out, identity)), path)
        entries.append(Entry(job, identity, path, before=store.has_finished(path)))
    return entries


def notes_on_code(sweep: Sweep, entries: Sequence[Entry]) -> list[str]:
    """A line for each change of the code since runs with these settings finished."""
    own = [e.identity for e in entries if not (e.before and e.path.name == e.identity.run_id)]
    lines = store.outdated(sweep.directory.parent, own)
    return [f"{line} --any-code takes such runs as they are." for line in lines]


def run_sweep(
    sweep: Sweep,
    *,
    stop_on_error: bool = False,
    any_code: bool = False,
    observe: Callable[[list[Entry]], None] = lambda entries: None,
    choose: Callable[[list[Entry]], list[Entry]] | None = None,
) -> list[Entry]:
    """Run what has not finished; return the entries with their outcomes, in the order of the plan.

    stop_on_error: start no run after a failure; entries that were not started have no outcome.
    any_code: as in `scan`. observe: called after every change, with the entries so far. choose: the
    next to do, of all that are planned, until there are none (default: all of them, once).
    """
    planned, entries, stopping = scan(sweep, any_code=any_code), list[Entry](), False
    missing = [entry.job for entry in planned if not entry.before]
    here = ExecutorConfig(workers=1)  # where nothing is missing, none is needed
    executor = open_executor(sweep.executor if missing else here, missing)
    for line in notes_on_code(sweep, planned):
        progress.note(line)
    try:
        while not stopping and (batch := choose(planned) if choose else planned[len(entries) :]):
            entries += batch
            _record(sweep, entries)
            observe(entries)
            todo = deque(batch)
            for _ in _steps(todo, executor, sweep.executor):
                failed = any(isinstance(entry.outcome, str) for entry in entries)
                if stopping := stop_on_error and failed:
                    todo.clear()
                observe(entries)
    finally:
        executor.close()
        _record(sweep, entries)  # another sweep of this study may have begun since
    return entries


def _record(sweep: Sweep, entries: Sequence[Entry]) -> None:
    """Add runs to the manifest of the study."""
    runs = [
        manifest.Entry(variant=entry.job.label, seed=entry.job.seed, run_id=entry.path.name)
        for entry in entries
    ]
    study = manifest.Manifest(
        variants=sweep.variants, commands=[sweep.command], runs=runs, declaration=sweep.declaration
    )
    manifest.record(sweep.directory, study)


def _steps(todo: deque[Entry], executor: Executor, config: ExecutorConfig) -> Iterator[None]:
    """Do the runs of a queue, which the caller may clear. Yields after every change."""
    running: dict[Any, Entry] = {}
    while todo or running:
        starting: list[Entry] = []
        for entry in [todo.popleft() for _ in range(len(todo))]:
            is_full = len(starting) + len(running) >= executor.slots
            if entry.before or (not is_full and store.has_finished(entry.path)):
                entry.before, entry.outcome = True, _load(entry)
            elif is_full or store.is_locked(entry.path):
                todo.append(entry)
            else:
                starting.append(entry)
        if starting:
            jobs = [_place(entry.job, config, executor.slots) for entry in starting]
            running |= zip(executor.submit(jobs), starting, strict=True)
        elif not running and todo:  # other sweeps do the rest
            time.sleep(0.5)
        for future in executor.wait([*running]) if running else ():
            entry = running.pop(future)
            entry.outcome = _outcome(entry, future)
            if entry.outcome is None:
                todo.append(entry)
        yield


def _place(job: Job, config: ExecutorConfig, slots: int) -> Job:
    """The job with its number of threads, which torch chooses for a run that has this machine for
    itself, and on a cluster with an absolute path."""
    is_here, train, out = config.kind is ExecutorKind.local, job.config.train, job.config.out
    if train.threads is None and not (is_here and slots == 1):
        train = replace(train, threads=config.threads)
    out = out if is_here else str(Path(out).absolute())
    return replace(job, config=replace(job.config, train=train, out=out))


def _load(entry: Entry) -> Outcome:
    try:
        return Run(path=entry.path, result=store.load(entry.path), label=entry.job.label)
    except UserError as error:
        return str(error)


def _outcome(entry: Entry, future: Any) -> Outcome:
    """Outcome of a run that has ended; None to try it once more, where its process was killed."""
    try:
        outcome: Outcome = future.result()
    except BrokenProcessPool:
        if entry.killed:
            return "its process was killed twice (out of memory?)"
        entry.killed = True
        progress.note(f"{entry.job}: its process was killed. It is tried once more.")
        return None
    except Exception as error:  # whatever a cluster may do to a job
        return str(error).strip().partition("\n")[0]
    if isinstance(outcome, Run) and outcome.path.name != entry.path.name:
        return "the code or the data changed since the sweep began. Give the command again."
    return outcome
