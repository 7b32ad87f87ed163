"""Executors on this machine; `slurm` and `ray` hold those of a cluster."""

import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent import futures
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from multiprocessing import connection, forkserver, get_context, resource_tracker
from multiprocessing.context import BaseContext
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
    """Jobs in processes, one a slot, so that each ends alone. GPUs are dealt to slots in turn."""

    def __init__(self, config: ExecutorConfig, jobs: Sequence[Job]) -> None:
        super().__init__(config, jobs)
        # A pipe closes when this process ends, however it ends; its processes wait for that.
        lifeline, self.parent_end = get_context("spawn").Pipe(duplex=False)
        gpus = [str(gpu) for gpu in range(torch.cuda.device_count())]
        if "CUDA_VISIBLE_DEVICES" in os.environ:
            gpus = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
        gpus_in_turn = itertools.cycle(gpus or [""])
        gpus_of_slots = itertools.islice(gpus_in_turn, self.slots)
        self.processes = [Slot(gpu, lifeline) for gpu in gpus_of_slots]

    def submit(self, jobs: Sequence[Job]) -> Futures:
        """Start each job in a slot; its future raises `BrokenProcessPool` if the process dies."""
        free_slots = [slot for slot in self.processes if slot.last.done()]
        pairs = zip(free_slots, jobs, strict=False)
        with _blocked_signals():
            return [slot.submit(job) for slot, job in pairs]

    def close(self) -> None:
        """End the processes."""
        self.parent_end.close()
        for slot in self.processes:  # now, since Python's exit stumbles over a pool about to close
            slot.pool.shutdown(cancel_futures=True)


class Slot:
    """A process with a GPU, which trains one job after another. It is replaced where it was killed,
    and after a job with user code, which may have left something behind in a class or module."""

    def __init__(self, gpu: str, lifeline: connection.Connection) -> None:
        arguments = (lifeline, gpu, dict(os.environ), last_read)
        self.make_pool = partial(
            ProcessPoolExecutor, 1, _start_method(), _prepare_process, arguments
        )
        self.pool = self.make_pool()
        self.ran_user_code = False
        self.last = Future[Outcome]()
        self.last.set_result("no job yet")

    def submit(self, job: Job) -> Future[Outcome]:
        """Start a job. The one before it has ended."""
        if self.ran_user_code or isinstance(self.last.exception(), futures.BrokenExecutor):
            self.pool.shutdown()
            self.pool = self.make_pool()
        self.ran_user_code = has_user_code([job])
        self.last = self.pool.submit(train_job, job)
        return self.last


def _start_method() -> BaseContext:
    """How processes start. A fork of this one, which used torch's threads, may hang; on Linux they
    are forks of one that has only imported what a run needs, which takes three seconds."""
    if sys.platform != "linux":
        return get_context("spawn")
    server = get_context("forkserver")
    server.set_forkserver_preload(["attnexp.training.run", "torch._dynamo"])
    return server


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


def warm_up(config: ExecutorConfig, jobs: Sequence[Job]) -> None:
    """Begin to import what processes of `SideBySide` need, while this one reads the data."""
    is_side_by_side = config.kind is ExecutorKind.local and num_slots(config, jobs) > 1
    if is_side_by_side and sys.platform == "linux":
        _start_method()
        with _blocked_signals():
            forkserver.ensure_running()


def _prepare_process(
    lifeline: connection.Connection,
    gpu: str,
    environment: dict[str, str],
    data: dict[Any, Dataset],
) -> None:
    """Prepare a process of `SideBySide`, which has read no data and may have other variables."""

    def end_with_parent() -> None:
        connection.wait([lifeline])  # until the pipe is closed, or the process that has it killed
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    os.environ.update(environment, CUDA_VISIBLE_DEVICES=gpu)
    last_read.update(data)
    progress.console.quiet = True  # the parent displays progress


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
