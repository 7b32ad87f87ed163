"""Processes on this machine. Each takes one run after another and belongs to one sweep."""

import os
import signal
import sys
import threading
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from attnexp.base import progress
from attnexp.sweeps.executors.task import Failure, Outcome, do
from attnexp.sweeps.plan import Job

_spawn = get_context("spawn")
"""A forked copy of a process that has used torch's threads may hang."""


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    pipe: Connection
    job: Job | None = None


class InThisProcess:
    """One run at a time, here: its own progress is on show, and a debugger gets in."""

    slots = 1

    def __init__(self) -> None:
        self.job: Job | None = None

    def start(self, jobs: list[Job]) -> None:
        """Keep it for `wait`."""
        (self.job,) = jobs

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        """Do it now, however long that takes."""
        if self.job is None:
            return []
        job, self.job = self.job, None
        return [(job, do(job))]

    def close(self) -> None:
        """Nothing is left."""


class Processes:
    """Runs side by side. A process that dies takes its run along and no other."""

    def __init__(self, slots: int, *, gpus: int = 0) -> None:
        """gpus: how many to deal out, by index, to the processes in turn."""
        self.slots = slots
        self.workers: list[_Worker] = []
        self.gpus = gpus
        resource_tracker.ensure_running()  # it unblocks SIGINT, which `start` may find blocked

    def start(self, jobs: list[Job]) -> None:
        """Give each to an idle process, or to a new one where there is none or it is gone."""
        for job in jobs:
            idle = [worker for worker in self.workers if worker.job is None]
            try:
                worker = idle[0] if idle else self._new_worker()
                worker.pipe.send(job)
            except ConnectionError:  # it was ended while it had nothing to do
                self.workers.remove(worker)
                worker.process.join()
                worker = self._new_worker()
                worker.pipe.send(job)
            worker.job = job

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        """What the processes sent; a process that is gone failed its run."""
        busy = {worker.pipe: worker for worker in self.workers if worker.job is not None}
        ended: list[tuple[Job, Outcome]] = []
        for pipe in connection.wait(list(busy), timeout=seconds):
            assert isinstance(pipe, Connection)
            worker = busy[pipe]
            assert worker.job is not None
            job, worker.job = worker.job, None
            try:
                ended.append((job, pipe.recv()))
            except (EOFError, ConnectionResetError):
                self.workers.remove(worker)
                worker.process.join()
                ended.append((job, Failure(job, _cause_of_death(worker.process))))
        return ended

    def close(self) -> None:
        """End every process; one in the middle of a run first writes down how far it came."""
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
            environment["CUDA_VISIBLE_DEVICES"] = _visible_gpus(self.gpus)[index]
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


def _visible_gpus(count: int) -> list[str]:
    """Names of GPUs that CUDA understands: those the user chose, or all."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    return chosen.split(",") if chosen else [str(index) for index in range(count)]


def _work(pipe: Connection, environment: dict[str, str]) -> None:
    """Do what comes through the pipe until it closes."""
    os.environ.update(environment)  # before torch is imported
    threading.Thread(target=_die_with_parent, daemon=True).start()
    progress.console.quiet = True  # the parent shows what happens
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(do(job))
        except (KeyboardInterrupt, BrokenPipeError):  # we are to end; nobody may be left to tell
            return


def _die_with_parent() -> None:
    """Without this a killed sweep would leave its processes training on."""
    parent = parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)  # a run first writes down how far it came


def _cause_of_death(process: BaseProcess) -> str:
    code = process.exitcode
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        memory = " (out of memory?)" if name == "SIGKILL" else ""
        return f"its process was ended by {name}{memory}"
    return f"its process ended with exit code {code}"


def available_cores() -> int:
    """Cores this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
