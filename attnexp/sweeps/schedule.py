"""Execution of a sweep. Finished runs are loaded, runs of another sweep are awaited, and the others
start wherever a slot is free."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.runs import manifest, store
from attnexp.runs.identity import Identity, identify_variant
from attnexp.runs.result import Run
from attnexp.sweeps.executors import Executor, Outcome, for_executor, open_executor
from attnexp.sweeps.plan import Job, Sweep
from attnexp.training.inputs import read_inputs


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


Observer = Callable[[list[Entry], Executor | None], None]
"""Called with all entries after every change, and with the executor while one is open."""


def scan(sweep: Sweep, *, any_code: bool = False) -> list[Entry]:
    """Identify every run and find those that have finished. Changes nothing on disk.

    any_code: where none has finished with the code of today, take the newest one of other code.
    """
    entries, fingerprints, variants = list[Entry](), dict[str, str](), dict[str, Any]()
    for job in sweep.jobs:
        if job.title not in variants:
            reads = repr((job.config.data, job.config.vectors))
            if reads not in fingerprints:
                fingerprints[reads] = read_inputs(job.config).fingerprint
            variants[job.title] = identify_variant(job.config, fingerprints[reads])
        identity = variants[job.title](job.config)
        path = store.run_dir(sweep.out, identity.run_id)
        if any_code and not store.has_finished(path):
            path = next(iter(store.of_other_code(sweep.out, identity)), path)
        entries.append(Entry(job, identity, path, before=store.has_finished(path)))
    return entries


def notes_on_code(sweep: Sweep, entries: Sequence[Entry]) -> list[str]:
    """A line for each change of the code since runs with these settings finished."""
    taken = [entry.identity for entry in entries if entry.path.name != entry.identity.run_id]
    again = [entry.identity for entry in entries if not entry.before]
    return [
        *(f"{line} They are taken all the same." for line in store.outdated(sweep.out, taken)),
        *(f"{line} --any-code takes those." for line in store.outdated(sweep.out, again)),
    ]


def run_sweep(
    sweep: Sweep,
    *,
    stop_on_error: bool = False,
    any_code: bool = False,
    observe: Observer = lambda entries, executor: None,
    choose: Callable[[Sequence[Entry]], list[Job]] | None = None,
) -> list[Entry]:
    """Run what has not finished; return every entry with its outcome, in the order of the plan.

    stop_on_error: start no run after a failure; entries that were not started have no outcome.
    any_code: as in `scan`. choose: the jobs to do next, given all entries so far, until there are
    none (default: all jobs, once). The executor opens with the first run that is missing and serves
    all later ones.

    Ctrl-C stops the running ones; the `KeyboardInterrupt` says how many have finished.
    """
    executor, entries = None, list[Entry]()
    jobs = choose(entries) if choose else sweep.jobs
    with ExitStack() as stack:
        while jobs:
            found = scan(replace(sweep, jobs=jobs), any_code=any_code)
            missing = [entry for entry in found if not entry.before]
            if missing and executor is None:  # a refused one leaves no study behind
                done = {id(entry.job) for entry in found if entry.before}
                left = [job for job in sweep.jobs if id(job) not in done]
                executor = open_executor(sweep.executor, left)
                stack.callback(executor.close)
            _record(sweep, found)
            for line in notes_on_code(sweep, found):
                progress.note(line)
            for entry in found:
                if entry.before:
                    entry.outcome = _load(entry)
            entries += found
            observe(entries, executor)
            if executor is not None:
                _run(sweep, entries, deque(missing), executor, stop_on_error, observe)
            stopping = stop_on_error and any(isinstance(entry.outcome, str) for entry in entries)
            jobs = choose(entries) if choose and not stopping else []
    return entries


def _record(sweep: Sweep, entries: Sequence[Entry]) -> None:
    """Add runs to the manifest of the study."""
    planned = [
        manifest.Entry(variant=entry.job.label, seed=entry.job.seed, run_id=entry.path.name)
        for entry in entries
    ]
    study = manifest.Manifest(
        variants=sweep.variants,
        commands=[sweep.command],
        runs=planned,
        declaration=sweep.declaration,
    )
    manifest.record(sweep.directory, study)


def _run(
    sweep: Sweep,
    entries: list[Entry],
    todo: deque[Entry],
    executor: Executor,
    stop_on_error: bool,
    observe: Observer,
) -> None:
    running: dict[Any, Entry] = {}
    alone = type(executor) is Executor
    try:
        while todo or running:
            starting = _next(todo, executor.slots - len(running), [*running.values()])
            jobs = [for_executor(entry.job, sweep.executor, alone=alone) for entry in starting]
            if jobs:
                running |= zip(executor.submit(jobs), starting, strict=True)
            elif not running:  # other sweeps do the rest
                time.sleep(0.5)
            for future in executor.wait([*running]) if running else ():
                entry = running.pop(future)
                entry.outcome = _outcome(entry, future)
                if entry.outcome is None:
                    todo.append(entry)
            if stop_on_error and any(isinstance(entry.outcome, str) for entry in entries):
                todo.clear()
            observe(entries, executor)
    except KeyboardInterrupt:
        num_done = sum(isinstance(entry.outcome, Run) for entry in entries)
        raise KeyboardInterrupt(
            f"{num_done} of {len(entries)} runs are done. Run the same command again for the "
            f"other {len(entries) - num_done}."
        ) from None


def _next(todo: deque[Entry], free: int, running: Sequence[Entry]) -> list[Entry]:
    """Entries to start now. Those that someone is doing are put back, finished ones are loaded."""
    chosen: list[Entry] = []
    for _ in range(len(todo)):
        if len(chosen) == free:
            break
        entry = todo.popleft()
        doing = {other.path for other in (*running, *chosen)}  # variants may share a run
        if entry.path in doing or store.is_locked(entry.path):
            todo.append(entry)
        elif store.has_finished(entry.path):
            entry.before, entry.outcome = True, _load(entry)
        else:
            chosen.append(entry)
    return chosen


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
