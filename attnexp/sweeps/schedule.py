"""Execution of a sweep. Finished runs are loaded, runs of another sweep are awaited, and the others
start wherever a slot is free."""

import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum, auto
from pathlib import Path
from typing import Any

from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.runs import manifest, store
from attnexp.runs.identity import Identity, identify
from attnexp.runs.result import Run
from attnexp.sweeps.executors.choose import for_executor, local_slots, open_executor
from attnexp.sweeps.executors.local import InThisProcess
from attnexp.sweeps.executors.task import Elsewhere, Executor, Failure, Outcome
from attnexp.sweeps.plan import Job, Sweep
from attnexp.training.inputs import read_inputs

SECONDS_BETWEEN_LOOKS = 0.5
SECONDS_TO_TRY_AGAIN = 2.0
"""Interval of checks on a run that another sweep is doing."""


class Status(StrEnum):
    """Status of a run."""

    waiting = auto()
    running = auto()
    elsewhere = auto()
    done = auto()
    failed = auto()


@dataclass(slots=True, eq=False)
class Entry:
    """A job with its status and outcome."""

    job: Job
    identity: Identity
    status: Status = Status.waiting
    outcome: Run | Failure | None = None
    studies: tuple[Path, ...] = ()
    """Folders of the studies that the run belongs to."""
    before: bool = False
    """Whether the run had finished before this sweep got to it."""
    not_before: float = 0.0
    """Monotonic time of the next check on a run that another sweep is doing."""

    @property
    def path(self) -> Path:
        """Folder of the run, finished or not."""
        return store.run_dir(self.job.config.out, self.identity.run_id)


Observer = Callable[[list[Entry], Executor | None], None]
"""Callback after every possible change; the executor is None while none is open."""


def scan(sweep: Sweep) -> list[Entry]:
    """Identify every run and find those that have finished. Changes nothing on disk."""
    entries, fingerprints = [], dict[Any, str]()
    directory = sweep.directory
    for job in sweep.jobs:
        reads = (job.config.data, job.config.vectors)
        if reads not in fingerprints:
            fingerprints[reads] = read_inputs(job.config).fingerprint
        identity = identify(job.config, fingerprints[reads])
        entries.append(Entry(replace(job, identity=identity), identity, studies=(directory,)))
    finished = store.finished(sweep.out, (entry.identity.run_id for entry in entries))
    for entry in entries:
        if entry.identity.run_id in finished:
            entry.status, entry.before = Status.done, True
    return entries


def run_sweep(
    sweep: Sweep, *, stop_on_error: bool = False, observe: Observer = lambda entries, executor: None
) -> list[Entry]:
    """Run what has not finished; return every entry with its outcome, in the order of the plan.

    An entry without an outcome was not started, because another failed and `stop_on_error` is set.
    Ctrl-C stops the running ones; the `KeyboardInterrupt` says how many runs have finished.
    """
    entries = scan(sweep)
    missing = [entry for entry in entries if not entry.before]
    # Variants that differ only in name share a run.
    firsts = {entry.path: entry for entry in reversed(missing)}
    todo = [entry for entry in missing if firsts[entry.path] is entry]
    # A refused executor leaves no study behind.
    executor = open_executor(sweep.executor, [entry.job for entry in todo]) if todo else None
    planned = [
        manifest.Entry(variant=entry.job.label, seed=entry.job.seed, run_id=entry.identity.run_id)
        for entry in entries
    ]
    manifest.record(
        sweep.directory,
        manifest.Manifest(
            variants=sweep.variants,
            commands=[sweep.command],
            runs=planned,
            declaration=sweep.declaration,
        ),
    )
    for reason in store.outdated(sweep.out, (e.identity for e in entries if not e.before)):
        progress.note(reason)
    for entry in entries:
        if entry.before:
            _load_finished(entry)
    observe(entries, None)
    if executor:
        alone = isinstance(executor, InThisProcess)
        for entry in todo:
            entry.job = for_executor(entry.job, sweep.executor, alone=alone)
        try:
            try:
                _run_pending(entries, deque(todo), executor, stop_on_error, observe)
            finally:
                executor.close()  # which a second Ctrl-C may interrupt
        except KeyboardInterrupt:
            num_done = Counter(entry.status for entry in entries)[Status.done]
            raise KeyboardInterrupt(
                f"{num_done} of {len(entries)} runs are done. Run the same command again for "
                f"the other {len(entries) - num_done}."
            ) from None
    for entry in missing:
        first = firsts[entry.path]
        if entry is not first:
            _record(entry, first.outcome)
    observe(entries, None)
    return entries


def _run_pending(
    entries: list[Entry],
    todo: deque[Entry],
    executor: Executor,
    stop_on_error: bool,
    observe: Observer,
) -> None:
    running: dict[int, Entry] = {}
    stopping = False
    while todo or running:
        starting = _next(todo, executor.slots - len(running))
        for entry in starting:
            entry.status, running[id(entry.job)] = Status.running, entry
        observe(entries, executor)
        if starting:
            with _signals_deferred():
                executor.start([entry.job for entry in starting])
        if not running:
            time.sleep(SECONDS_BETWEEN_LOOKS)
            continue
        for job, outcome in executor.wait(SECONDS_BETWEEN_LOOKS):
            entry = running.pop(id(job))
            if isinstance(outcome, Elsewhere):
                _postpone(entry, todo)
                continue
            _record(entry, outcome)
            stopping = stopping or (stop_on_error and entry.status is Status.failed)
        if stopping:  # runs of other sweeps may have been put back
            todo.clear()
    observe(entries, executor)


def _next(todo: deque[Entry], free: int) -> list[Entry]:
    """Entries to start now. Those of another sweep are put back, finished ones are loaded."""
    chosen: list[Entry] = []
    for _ in range(len(todo)):
        if len(chosen) == free:
            break
        entry = todo.popleft()
        if entry.not_before > time.monotonic():
            todo.append(entry)
        elif store.is_locked(entry.path):
            _postpone(entry, todo)
        elif store.has_finished(entry.path):
            entry.before = True
            _load_finished(entry)
        else:
            chosen.append(entry)
    return chosen


def _postpone(entry: Entry, todo: deque[Entry]) -> None:
    entry.status = Status.elsewhere
    entry.not_before = time.monotonic() + SECONDS_TO_TRY_AGAIN
    todo.append(entry)


def _load_finished(entry: Entry) -> None:
    """Load the result of a finished run; one that cannot be read counts as failed."""
    try:
        outcome: Outcome = Run(path=entry.path, result=store.load(entry.path))
    except UserError as error:
        outcome = Failure(entry.job, str(error))
    _record(entry, outcome)


def _record(entry: Entry, outcome: Outcome | None) -> None:
    """Set the outcome and status of an entry, under its own label."""
    match outcome:
        case Run():
            entry.status = Status.done
            entry.outcome = replace(outcome, label=entry.job.label, studies=entry.studies)
        case Failure(reason=reason):
            entry.status, entry.outcome = Status.failed, Failure(entry.job, reason)


def slots(sweep: Sweep, todo: list[Entry]) -> int | None:
    """Number of runs at a time, if it is known without opening the executor."""
    if sweep.executor.workers or sweep.executor.kind in ("local", "submitit"):
        return local_slots(sweep.executor, [entry.job for entry in todo])
    return None


@contextmanager
def _signals_deferred() -> Iterator[None]:
    """Raise `KeyboardInterrupt` for SIGINT and SIGTERM only at the end of the block: a process that
    is half started would print a traceback of its own.

    SIGINT is blocked as well, which the started processes inherit: Ctrl-C in a terminal reaches all
    processes, but only this one is to end the others.
    """
    received: list[int] = []
    in_main = threading.current_thread() is threading.main_thread()  # no other handles signals
    numbers = (signal.SIGINT, signal.SIGTERM) if in_main else ()
    handlers = {number: signal.getsignal(number) for number in numbers}
    for number, handler in handlers.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, lambda number, frame: received.append(number))
    can_block = hasattr(signal, "pthread_sigmask")  # not on Windows
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT]) if can_block else set()
    try:
        yield
    finally:
        if can_block:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if received:
        raise KeyboardInterrupt
