"""Executors on this machine: this process, or several that each do one run after another."""

import os
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from attnexp.base import progress
from attnexp.sweeps.executors.task import Failure, Outcome, do
from attnexp.sweeps.plan import Job

_spawn = get_context("spawn")
"""Start method of the processes; a fork of a process that used torch's threads may hang."""


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    pipe: Connection
    job: Job | None = None


class InThisProcess:
    """Executor of one run at a time in this process, with its progress shown."""

    slots = 1

    def __init__(self) -> None:
        self.job: Job | None = None

    def start(self, jobs: list[Job]) -> None:
        """Keep the job for `wait`."""
        (self.job,) = jobs

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        """Do the job now, however long it takes."""
        if self.job is None:
            return []
        job, self.job = self.job, None
        return [(job, do(job))]

    def close(self) -> None:
        """Do nothing: no process was started."""


class Processes:
    """Executor of runs side by side. If a process dies, only its own run fails."""

    def __init__(self, slots: int, *, gpus: int = 0) -> None:
        """gpus: number of GPUs, assigned to the processes in turn."""
        self.slots = slots
        self.workers: list[_Worker] = []
        self.gpus = gpus
        with suppress(ImportError):  # Windows has none
            resource_tracker.ensure_running()  # now, since it unblocks SIGINT

    def start(self, jobs: list[Job]) -> None:
        """Send each job to an idle process, or to a new one if none is alive."""
        for job in jobs:
            idle = [worker for worker in self.workers if worker.job is None]
            try:
                worker = idle[0] if idle else self._new_worker()
                worker.pipe.send(job)
            except ConnectionError:  # the process ended while it was idle
                self.workers.remove(worker)
                worker.process.join()
                worker = self._new_worker()
                worker.pipe.send(job)
            worker.job = job

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        """Outcomes that processes sent; the run of a process that ended has failed."""
        busy = [(worker, worker.job) for worker in self.workers if worker.job is not None]
        ready = connection.wait([worker.pipe for worker, _ in busy], timeout=seconds)
        ended: list[tuple[Job, Outcome]] = []
        for worker, job in busy:
            if worker.pipe not in ready:
                continue
            worker.job = None
            try:
                ended.append((job, worker.pipe.recv()))
            except (EOFError, ConnectionResetError):
                self.workers.remove(worker)
                worker.process.join()
                ended.append((job, Failure(job, _cause_of_death(worker.process))))
        return ended

    def close(self) -> None:
        """Terminate every process; its run resumes later from the last finished epoch."""
        for worker in self.workers:
            worker.process.terminate()
        for worker in self.workers:
            worker.process.join()
            worker.pipe.close()
        self.workers = []

    def _new_worker(self) -> _Worker:
        here, there = _spawn.Pipe()
        environment = {}
        if self.gpus:
            taken = [0] * self.gpus
            for worker in self.workers:
                taken[int(worker.process.name)] += 1
            index = taken.index(min(taken))
            chosen = os.environ.get("CUDA_VISIBLE_DEVICES")  # by the user
            environment["CUDA_VISIBLE_DEVICES"] = chosen.split(",")[index] if chosen else str(index)
        else:
            index = len(self.workers)
        process = _spawn.Process(
            target=_work, args=(there, environment), name=str(index), daemon=True
        )
        process.start()
        there.close()
        worker = _Worker(process, here)
        self.workers.append(worker)
        return worker


def _work(pipe: Connection, environment: dict[str, str]) -> None:
    """Do jobs from the pipe until it closes."""
    os.environ.update(environment)  # before torch is imported
    threading.Thread(target=_die_with_parent, daemon=True).start()
    progress.console.quiet = True  # the parent displays progress
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(do(job))
        except (KeyboardInterrupt, BrokenPipeError):  # the parent stops us, or has gone
            return


def _die_with_parent() -> None:
    """End this process with its parent; otherwise a killed sweep would train on."""
    parent = parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)


def _cause_of_death(process: BaseProcess) -> str:
    code = process.exitcode
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        memory = " (out of memory?)" if name == "SIGKILL" else ""
        return f"its process was ended by {name}{memory}"
    return f"its process ended with exit code {code}"


def available_cores() -> int:
    """Number of cores that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
