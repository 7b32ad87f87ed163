"""Execution of a sweep: finished runs are loaded, others started, or awaited."""

import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from attnexp.base import progress, reads
from attnexp.base.errors import UserError
from attnexp.config.schema import ExecutorConfig, ExecutorKind
from attnexp.runs import store
from attnexp.runs.identity import identify
from attnexp.runs.manifest import Manifest, PlannedRun, record_runs
from attnexp.runs.result import Run
from attnexp.sweeps.executor import Executor, JobKilled, Outcome, num_slots
from attnexp.sweeps.folder import manifest_of
from attnexp.sweeps.local import OneByOne, SideBySide
from attnexp.sweeps.plan import Job, Jobs, Sweep
from attnexp.sweeps.ray import RayTasks
from attnexp.sweeps.slurm import SlurmQueue


@dataclass(slots=True, eq=False)
class SweepEntry:
    """A job and what became of it."""

    job: Job
    run_id: str
    path: Path  # folder of the run, finished or not
    finished_before: bool  # whether the run had finished before this sweep began
    outcome: Outcome | None = None  # the finished run, or why it failed; None until it has ended
    epochs_at_last_kill: int | None = None  # those done when its process was killed last

    @property
    def run(self) -> Run | None:
        """The finished run."""
        return self.outcome if isinstance(self.outcome, Run) else None

    @property
    def failure(self) -> str | None:
        """Why the run failed."""
        return self.outcome if isinstance(self.outcome, str) else None


Entries = list[SweepEntry]
Running = dict[Future[Outcome], SweepEntry]
Observer = Callable[[Entries, str], None]  # is called at every change; the text: what is awaited


def scan(sweep: Sweep, jobs: Jobs | None = None, *, any_code: bool = False) -> Entries:
    """Identify runs and find the finished ones; note how many had finished before code or files
    changed. jobs: by default all of the sweep. any_code: whether the newest of those counts."""
    entries = []
    num_outdated = Counter[str]()  # by what changed since, as in `x.py changed`
    newest_runs = store.newest_finished(sweep.directory.parent)
    for job in sweep.jobs if jobs is None else jobs:
        identity = identify(job.config, sweep.fingerprints[job.inputs_key])
        path, change = store.choose_folder(job.config.out, identity.run_id)
        outdated = newest_runs.get(identity.settings_digest)
        if outdated and not store.has_finished(path):
            num_outdated[change or "attnexp or Python changed"] += 1
            path = outdated if any_code else path
        has_finished = store.has_finished(path)
        entries.append(SweepEntry(job, identity.run_id, path, finished_before=has_finished))
    hint = "They are taken." if any_code else "--any-code takes such runs."
    for change, number in num_outdated.items():
        progress.note(f"{change} since {number} of these runs finished. {hint}")
    return entries


def open_executor(config: ExecutorConfig, jobs: Jobs, planned: Jobs) -> Executor:
    """The executor for `jobs`, the unfinished ones of `planned`: this process if there are none, or
    if they run one by one and no user code is planned. Raises `UserError` without Slurm or Ray."""
    # User code, which planning has imported, may have changed torch in this process.
    has_user_code = any(job.config.user_code for job in planned)
    is_one_by_one = config.kind is ExecutorKind.local and num_slots(config, jobs) == 1
    if not jobs or (is_one_by_one and not has_user_code):
        return OneByOne(config, jobs)
    kinds = {"local": SideBySide, "slurm": SlurmQueue, "ray": RayTasks}
    try:
        return kinds[config.kind](config, jobs)
    except (RuntimeError, ConnectionError) as error:
        raise UserError(f"executor={config.kind} is not here: {error}") from error


def run_sweep(
    sweep: Sweep,
    jobs: Jobs | None = None,
    *,
    any_code: bool = False,
    observe: Observer = lambda entries, status: None,
) -> Entries:
    """Run what has not finished; return the entries with their outcomes. Parameters: see `scan`."""
    entries = scan(sweep, jobs, any_code=any_code)
    missing = [entry.job for entry in entries if not entry.finished_before]
    with redirect_stdout(sys.stderr):  # What a cluster's library prints is not the answer.
        executor = open_executor(sweep.executor, missing, sweep.jobs)
        record_runs(sweep.directory, manifest_of_entries(sweep, entries), has_ended=False)
        try:
            _run_entries(entries, executor, observe)
        finally:
            executor.close()  # Before the record, which may wait for the study's lock.
            record_runs(sweep.directory, manifest_of_entries(sweep, entries), has_ended=True)
    return entries


def manifest_of_entries(sweep: Sweep, entries: Entries) -> Manifest:
    """The manifest of a sweep with the runs of these entries."""
    runs = []
    for entry in entries:
        job = entry.job
        run = PlannedRun(variant=job.label, seed=job.seed_name, run_id=entry.path.name)
        runs.append(run)
    return manifest_of(sweep, runs)


def _run_entries(entries: Entries, executor: Executor, observe: Observer) -> None:
    """Load what has finished; run the rest as slots get free, or wait for other sweeps that do."""
    for entry in entries:
        if entry.finished_before:
            _load(entry)
    observe(entries, "")
    running: Running = {}
    while any(entry.outcome is None for entry in entries):
        starting, locked = _load_or_choose(entries, running, executor.slots - len(running))
        if starting:
            futures = executor.submit([entry.job for entry in starting])
            running |= zip(futures, starting, strict=True)
        executor.wait(list(running))
        for future in list(running):
            if future.done():
                _take_outcome(running.pop(future), future)
        observe(entries, _describe_locked(locked[0]) if locked else executor.status)


def _load(entry: SweepEntry) -> None:
    result = store.load_result(entry.path)
    entry.outcome = Run(path=entry.path, result=result, variant=entry.job.label)


def _load_or_choose(entries: Entries, running: Running, num_free: int) -> tuple[Entries, Entries]:
    """Load what other sweeps have finished. Return entries to start, and those that others do."""
    starting: Entries = []
    locked: Entries = []
    idle = [entry for entry in entries if entry.outcome is None and entry not in running.values()]
    for entry in idle:
        if len(starting) == num_free:
            break
        # Another sweep may have finished this run. If it read other files, ours is ID-2.
        entry.path, _ = store.choose_folder(entry.job.config.out, entry.run_id)
        if store.has_finished(entry.path):
            _load(entry)
        elif store.is_locked(entry.path):
            locked.append(entry)
        else:
            starting.append(entry)
    return starting, locked


def _describe_locked(entry: SweepEntry) -> str:
    return f"another sweep does {entry.job} ({store.lock_file(entry.path)} is locked)"


def _take_outcome(entry: SweepEntry, future: Future[Outcome]) -> None:
    """Take the outcome of a job. A killed one goes on, unless it is killed twice at one epoch."""
    try:
        entry.outcome = _refuse_other_files(entry, future.result())
    except JobKilled as error:
        metrics = entry.path / store.METRICS
        num_epochs = metrics.read_text().count("\n") if metrics.exists() else 0
        if num_epochs == entry.epochs_at_last_kill:
            entry.outcome = f"killed again before an epoch was done: {error}"
        else:
            entry.epochs_at_last_kill = num_epochs
            progress.note(f"{entry.job}: {error}. It goes on from epoch {num_epochs}.")
    except Exception as error:  # A cluster may do anything to a job.
        first_line, _, _ = str(error).strip().partition("\n")
        entry.outcome = first_line or type(error).__name__


def _refuse_other_files(entry: SweepEntry, outcome: Outcome) -> Outcome:
    """The outcome, or a failure where the run read other files than those of the plan."""
    if isinstance(outcome, Run):
        what_changed = reads.first_that_differs(outcome.result.read_files)
        if not what_changed and outcome.path.name != entry.path.name:
            what_changed = "the code or the data"
        if what_changed:
            return f"{what_changed} changed since the sweep began. Give the command again."
    return outcome
