"""Executors on this machine; `slurm` and `ray` hold those of a cluster."""

import os
import pickle
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent import futures
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext, redirect_stdout
from multiprocessing import connection, get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from attnexp.base import progress
from attnexp.base.errors import Busy, RunFailed, UserError
from attnexp.config.schema import Device, ExecutorConfig, ExecutorKind, foreign_code, to_dict
from attnexp.data.encode import Dataset
from attnexp.runs.result import Run
from attnexp.sweeps.plan import Job
from attnexp.training.run import last_read, train_run

Outcome = Run | str  # a finished run, or the reason why it failed
Futures = Sequence[Future[Outcome]]

START = get_context("forkserver" if sys.platform == "linux" else "spawn")
"""How processes start. A fork of this one, which used torch's threads, may hang; on Linux they are
forks of one that has only imported what a run needs, which takes three seconds."""
if sys.platform == "linux":
    START.set_forkserver_preload(["attnexp.training.run", "torch._dynamo"])


def train_job(job: Job, folder: str = ".") -> Outcome:
    """Train, or wait for another sweep that does so; an error becomes the reason of a failure.
    folder: where the sweep runs, for another machine, since `out` may be relative."""
    os.chdir(folder)
    torch.set_num_threads(1)  # for runs that do not set train.threads
    while True:
        try:
            path, result = train_run(job.config)
            return Run(path=path, result=result, label=job.label)
        except Busy:
            time.sleep(1)
        except (UserError, RunFailed) as error:
            return str(error)
        except Exception as error:  # such as a full disk or a bug; run.log has the traceback
            return f"{type(error).__name__}: {error}"


class JobKilled(RuntimeError):
    """A job was ended before it had an outcome; the message says how."""


class TimeLimitReached(JobKilled):
    """A cluster's time limit, which the message names, has ended a job."""


class Executor:
    """Place where jobs are trained, `slots` at a time."""

    def __init__(self, config: ExecutorConfig, jobs: Sequence[Job]) -> None:
        self.slots = num_slots(config, jobs)
        self.status = ""  # what jobs wait for, to be shown

    def submit(self, jobs: Sequence[Job]) -> Futures:
        """Start jobs, as many as slots are free at most."""
        raise NotImplementedError

    def wait(self, running: Futures) -> None:
        """Wait until a job has ended, or for half a second."""
        if running:
            futures.wait(running, timeout=0.5, return_when=futures.FIRST_COMPLETED)
        else:
            time.sleep(0.5)

    def close(self) -> None:
        """Stop what runs; it resumes when the sweep is repeated."""


class OneByOne(Executor):
    """Jobs in this process; without a terminal they print nothing."""

    def submit(self, jobs: Sequence[Job]) -> Futures:
        """Train the one job, however long it takes."""
        (job,) = jobs
        future = Future[Outcome]()
        with nullcontext() if progress.console.is_terminal else progress.console.capture():
            future.set_result(train_job(job))
        return [future]


class SideBySide(Executor):
    """A process for each job, so that each ends alone and leaves nothing behind. GPUs take turns."""

    def __init__(self, config: ExecutorConfig, jobs: Sequence[Job]) -> None:
        super().__init__(config, jobs)
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        self.gpus = visible.split(",") if visible else list(map(str, range(torch.cuda.device_count())))
        self.processes: dict[Future[Outcome], tuple[BaseProcess, Connection, str]] = {}

    def submit(self, jobs: Sequence[Job]) -> Futures:
        """Start a process for each job."""
        futures = []
        for job in jobs:
            used = Counter(gpu for _, _, gpu in self.processes.values())
            gpu = min(self.gpus, key=used.__getitem__, default="")
            ours, theirs = START.Pipe(duplex=False)
            arguments = (pickle.dumps(job), theirs, dict(os.environ, CUDA_VISIBLE_DEVICES=gpu), last_read)
            process = START.Process(target=_work, args=arguments)
            with _blocked_signals():
                process.start()
            theirs.close()
            futures.append(Future[Outcome]())
            self.processes[futures[-1]] = (process, ours, gpu)
        return futures

    def wait(self, running: Futures) -> None:
        """Take the outcomes of processes that have ended, for half a second at most."""
        pipes = [pipe for _, pipe, _ in self.processes.values()]
        ready = connection.wait(pipes, timeout=0.5)
        for future, (process, pipe, _) in [*self.processes.items()]:
            if pipe in ready:
                try:
                    future.set_result(pipe.recv())
                except EOFError:
                    future.set_exception(JobKilled("its process was killed (out of memory?)"))
                process.join()
                del self.processes[future]

    def close(self) -> None:
        """End the processes."""
        for process, _, _ in self.processes.values():
            process.kill()


def _work(job: bytes, pipe: Connection, environment: dict[str, str], data: dict[Any, Dataset]) -> None:
    """Train a job in a process of its own, which ends with the one that started it."""

    def end_with_parent() -> None:
        parent_process().join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    os.environ.update(environment)
    last_read.update(data)
    progress.console.quiet = True  # the parent displays progress
    with redirect_stdout(sys.stderr):  # User code may print, also when it is imported.
        pipe.send(train_job(pickle.loads(job)))


@contextmanager
def _blocked_signals() -> Iterator[None]:
    """Ctrl-C and the end of a terminal reach all of its processes. Those that start within inherit
    that both are blocked: this one ends them."""
    resource_tracker.ensure_running()  # now, since it unblocks
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGHUP])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def num_slots(config: ExecutorConfig, jobs: Sequence[Job]) -> int:
    """Runs at a time: one for each core here, or share of a GPU; on a cluster, all."""
    num_gpus = torch.cuda.device_count() if want_gpu(jobs) else 0
    if config.workers is not None:
        fitting = config.workers
    elif config.kind is not ExecutorKind.local:
        fitting = len(jobs)
    elif num_gpus:
        fitting = num_gpus * int(1 / config.gpu + 1e-9)  # ten of 0.1
    else:
        is_linux = hasattr(os, "sched_getaffinity")
        num_cores = len(os.sched_getaffinity(0)) if is_linux else os.cpu_count() or 1
        fitting = num_cores // num_threads(jobs)
    return max(1, min(fitting, len(jobs)))


def has_user_code(jobs: Iterable[Job]) -> bool:
    """Whether any job runs code that is not attnexp's."""
    return any(foreign_code(to_dict(job.config)) for job in jobs)


def num_threads(jobs: Iterable[Job]) -> int:
    """CPU threads of the job that wants most."""
    return max((job.config.train.threads or 1 for job in jobs), default=1)


def want_gpu(jobs: Iterable[Job]) -> bool:
    """Whether any job takes a GPU where there is one."""
    return any(job.config.train.device is not Device.cpu for job in jobs)
