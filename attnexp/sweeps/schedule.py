"""A sweep, carried out: what has finished before is taken up, what another sweep does is awaited,
the rest is started wherever a slot is free."""

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum, auto
from pathlib import Path

from attnexp.config.schema import OnError
from attnexp.runs import manifest, store
from attnexp.runs.result import Run
from attnexp.sweeps.executors.choose import local_slots, open_executor, settle
from attnexp.sweeps.executors.local import InThisProcess
from attnexp.sweeps.executors.task import Elsewhere, Executor, Failure, Outcome
from attnexp.sweeps.plan import Job, Sweep
from attnexp.training.run import prepare

SECONDS_BETWEEN_LOOKS = 0.5
SECONDS_TO_TRY_AGAIN = 2.0
"""For a run that another sweep is doing."""


class Status(StrEnum):
    """Where a run stands."""

    waiting = auto()
    running = auto()
    elsewhere = auto()
    done = auto()
    failed = auto()


@dataclass(slots=True, eq=False)
class Entry:
    """A job on the list."""

    job: Job
    run_id: str
    status: Status = Status.waiting
    outcome: Run | Failure | None = None
    before: bool = False
    """It had finished before this sweep came to it."""
    not_before: float = 0.0
    """When to look again at what is being done elsewhere."""

    @property
    def folder(self) -> Path:
        """Where runs of this sweep are."""
        return Path(self.job.config.out) / self.job.folder

    @property
    def path(self) -> Path:
        """The folder that the run has, or will have."""
        job = self.job
        return store.run_dir(job.config, self.run_id, folder=job.folder, label=job.label)


Watch = Callable[[list[Entry], Executor | None], None]
"""Called whenever something may have changed; without an executor while none is at work."""


def survey(sweep: Sweep) -> list[Entry]:
    """Every run with its id, and whether it has finished before. Changes nothing on disk."""
    entries = []
    for job in sweep.jobs:
        entry = Entry(job, prepare(job.config).run_id)
        if store.find_finished(entry.folder, entry.run_id):
            entry.status, entry.before = Status.done, True
        entries.append(entry)
    return entries


def carry_out(
    sweep: Sweep,
    *,
    on_error: OnError = OnError.proceed,
    watch: Watch = lambda entries, executor: None,
) -> list[Entry]:
    """Do what is missing; return every entry with its outcome, in the order of the plan.

    An entry without an outcome was not begun, because another failed and `on_error` is `stop`. On
    Ctrl-C what runs is stopped, and the `KeyboardInterrupt` says how far the sweep came.
    """
    entries = survey(sweep)
    if sweep.study is not None:
        manifest.save(sweep.directory, sweep.study)
    wanted = {(entry.run_id, entry.job.label) for entry in entries}
    for entry in entries:
        if entry.before:
            entry.outcome = _take_up(entry, wanted)
    watch(entries, None)
    missing = [entry for entry in entries if not entry.before]
    # Variants may differ in name alone: one of them is run, and the others are copies.
    firsts = {entry.run_id: entry for entry in reversed(missing)}
    todo = [entry for entry in missing if firsts[entry.run_id] is entry]
    if todo:
        executor = _open(sweep, todo)
        try:
            _work_off(entries, deque(todo), executor, wanted, on_error, watch)
        except KeyboardInterrupt:
            num_done = Counter(entry.status for entry in entries)[Status.done]
            raise KeyboardInterrupt(
                f"{num_done} of {len(entries)} runs are done and kept. The same command does "
                f"the other {len(entries) - num_done}."
            ) from None
        finally:
            executor.close()
    for entry in missing:
        first = firsts[entry.run_id]
        if entry is not first:
            _settle(entry, first.outcome, wanted)
    watch(entries, None)
    return entries


def _open(sweep: Sweep, todo: list[Entry]) -> Executor:
    executor = open_executor(sweep.executor, [entry.job for entry in todo])
    for entry in todo:
        alone = isinstance(executor, InThisProcess)
        entry.job = settle(entry.job, sweep.executor, alone=alone)
    return executor


def _work_off(
    entries: list[Entry],
    todo: deque[Entry],
    executor: Executor,
    wanted: set[tuple[str, str]],
    on_error: OnError,
    watch: Watch,
) -> None:
    running: dict[str, Entry] = {}
    while todo or running:
        starting = _next(todo, executor.slots - len(running), wanted)
        for entry in starting:
            entry.status, running[entry.run_id] = Status.running, entry
        watch(entries, executor)
        if starting:
            executor.start([entry.job for entry in starting])
        if not running:
            time.sleep(SECONDS_BETWEEN_LOOKS)
            continue
        by_job = {id(entry.job): entry for entry in running.values()}
        for job, outcome in executor.wait(SECONDS_BETWEEN_LOOKS):
            entry = by_job[id(job)]
            del running[entry.run_id]
            if isinstance(outcome, Elsewhere):
                _later(entry, todo)
                continue
            _settle(entry, outcome, wanted)
            if entry.status is Status.failed and on_error is OnError.stop:
                todo.clear()
    watch(entries, executor)


def _next(todo: deque[Entry], free: int, wanted: set[tuple[str, str]]) -> list[Entry]:
    """Entries to start now. Those that another sweep is at, or has done, are seen to."""
    chosen: list[Entry] = []
    for _ in range(len(todo)):
        if len(chosen) == free:
            break
        entry = todo.popleft()
        if entry.not_before > time.monotonic():
            todo.append(entry)
        elif store.is_claimed(entry.folder, entry.run_id):
            _later(entry, todo)
        elif store.find_finished(entry.folder, entry.run_id):
            entry.before = True
            entry.status, entry.outcome = Status.done, _take_up(entry, wanted)
        else:
            chosen.append(entry)
    return chosen


def _later(entry: Entry, todo: deque[Entry]) -> None:
    entry.status = Status.elsewhere
    entry.not_before = time.monotonic() + SECONDS_TO_TRY_AGAIN
    todo.append(entry)


def _settle(entry: Entry, outcome: Outcome | None, wanted: set[tuple[str, str]]) -> None:
    match outcome:
        case Run():
            entry.status, entry.outcome = Status.done, _take_up(entry, wanted)
        case Failure(reason=reason):
            entry.status, entry.outcome = Status.failed, Failure(entry.job, reason)


def _take_up(entry: Entry, wanted: set[tuple[str, str]]) -> Run:
    """A finished run as this sweep's: under its label, in a folder of that name."""
    found = store.find_finished(entry.folder, entry.run_id)
    job = entry.job
    own = [run for run in found if run.result.label == job.label]
    free = [run for run in found if (entry.run_id, run.result.label) not in wanted]
    source = (own or free or found)[0]
    if own and source.result.order == job.order:
        return source
    path = source.path if own else entry.path
    copy = not own and not free
    return store.adopt(source, path, label=job.label, order=job.order, copy=copy)


def slots(sweep: Sweep, todo: list[Entry]) -> int | None:
    """Runs at a time as far as one can say without opening the executor."""
    if sweep.executor.workers or sweep.executor.kind in ("local", "submitit"):
        return local_slots(sweep.executor, [entry.job for entry in todo])
    return None
