"""Executors on this machine; `slurm` and `ray` hold those of a cluster."""

import os
import pickle
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent import futures
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from multiprocessing import connection, forkserver, get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple

import torch

from attnexp.base import progress
from attnexp.base.errors import Busy, RunFailed, UserError
from attnexp.config.schema import Device, ExecutorConfig, ExecutorKind
from attnexp.data.encode import last_read
from attnexp.runs.result import Run
from attnexp.sweeps.plan import Job, Jobs
from attnexp.training.run import train_run

Outcome = Run | str  # a finished run, or the reason why it failed
Futures = Sequence[Future[Outcome]]

HAS_FORKSERVER = sys.platform == "linux"
CONTEXT: Any = get_context("forkserver" if HAS_FORKSERVER else "spawn")
"""How processes start. A fork of this process, which used torch's threads, may hang. On Linux a
server, which has only imported what a run needs, is forked instead; that import takes seconds."""
if HAS_FORKSERVER:
    CONTEXT.set_forkserver_preload([__name__, "attnexp.sweeps.preload"])


def train_job(job: Job, folder: str = ".") -> Outcome:
    """Train, or wait for another sweep that does so; an error becomes the reason of a failure.
    folder: where the sweep runs, for another machine, since `out` may be relative."""
    os.chdir(folder)
    torch.set_num_threads(1)  # for runs that do not set train.threads
    while True:
        try:
            path, result = train_run(job.config)
            return Run(path=path, result=result, variant=job.label)
        except Busy:
            time.sleep(1)
        except (UserError, RunFailed) as error:
            return str(error)
        except Exception as error:  # A full disk or a bug; run.log has the traceback.
            return f"{type(error).__name__}: {error}"


def num_slots(config: ExecutorConfig, jobs: Jobs) -> int:
    """Runs at a time: as many as get the cores or GPU share that each needs; on a cluster, all."""
    num_gpus = torch.cuda.device_count() if want_gpu(jobs) else 0
    if config.workers is not None:
        fitting = config.workers
    elif config.kind is not ExecutorKind.local:
        fitting = len(jobs)
    elif num_gpus:
        fitting = num_gpus * int(1 / config.gpu)
    else:
        num_cores = os.cpu_count() or 1
        if hasattr(os, "sched_getaffinity"):  # Linux may leave this process fewer.
            num_cores = len(os.sched_getaffinity(0))
        fitting = num_cores // num_threads(jobs)
    return max(1, min(fitting, len(jobs)))


def num_threads(jobs: Jobs) -> int:
    """CPU threads of the job that wants most."""
    return max((job.config.train.threads or 1 for job in jobs), default=1)


def want_gpu(jobs: Jobs) -> bool:
    """Whether any job takes a GPU where there is one."""
    return any(job.config.train.device is not Device.cpu for job in jobs)


class JobKilled(RuntimeError):
    """A job was ended before it had an outcome, say by a time limit; the message says how."""


class Executor:
    """Something that trains jobs, `slots` at a time. `submit` starts them and returns futures; what
    completes these may be `wait`, so it is called as long as any is pending."""

    def __init__(self, config: ExecutorConfig, jobs: Jobs) -> None:
        self.slots = num_slots(config, jobs)
        self.status = ""  # what jobs wait for, to be shown

    def submit(self, jobs: Jobs) -> Futures:
        """Start jobs, as many as slots are free at most."""
        raise NotImplementedError

    def wait(self, running: Futures) -> None:
        """Wait until a job ends, or for half a second."""
        if running:
            futures.wait(running, timeout=0.5, return_when=futures.FIRST_COMPLETED)
        else:
            time.sleep(0.5)

    def close(self) -> None:
        """Stop what runs; it resumes when the sweep is repeated."""


class OneByOne(Executor):
    """Executor in this process; without a terminal its jobs print nothing."""

    def submit(self, jobs: Jobs) -> Futures:
        """Train the one job, however long it takes."""
        (job,) = jobs
        future = Future[Outcome]()
        with nullcontext() if progress.console.is_terminal else progress.console.capture():
            future.set_result(train_job(job))
        return [future]


@contextmanager
def _blocked_signals() -> Iterator[None]:
    """Block Ctrl-C and SIGHUP for processes that start within, and for the server they are forked
    from, whose mask they have. Both reach every process of a terminal; this one ends the others."""
    resource_tracker.ensure_running()  # It would unblock them when it starts.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGHUP])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


class Worker(NamedTuple):
    """A process that trains one job."""

    process: BaseProcess
    pipe: Connection  # brings the outcome, and ends without it if the process is killed
    gpu: str


class SideBySide(Executor):
    """Executor with a process for each job, so that each ends alone and leaves nothing behind."""

    def __init__(self, config: ExecutorConfig, jobs: Jobs) -> None:
        super().__init__(config, jobs)
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        all_gpus = [str(gpu) for gpu in range(torch.cuda.device_count())]
        self.gpus = all_gpus if visible is None else visible.split(",")
        self.workers: dict[Future[Outcome], Worker] = {}

    def submit(self, jobs: Jobs) -> Futures:
        """Start a process for each job."""
        return [self._start(job) for job in jobs]

    def _start(self, job: Job) -> Future[Outcome]:
        """Start a process, on the GPU that has the fewest."""
        num_workers = Counter(worker.gpu for worker in self.workers.values())
        gpu = min(self.gpus, key=num_workers.__getitem__, default="")
        environment = dict(os.environ, CUDA_VISIBLE_DEVICES=gpu)
        pipe, end_of_worker = CONTEXT.Pipe(duplex=False)
        # The job is sent as bytes, so that user code is imported once stdout is redirected.
        arguments = (pickle.dumps(job), end_of_worker, environment, last_read)
        process = CONTEXT.Process(target=_work, args=arguments)
        future = Future[Outcome]()
        with _blocked_signals():  # A Ctrl-C meanwhile comes when `close` knows the process.
            process.start()
            self.workers[future] = Worker(process, pipe, gpu)
        end_of_worker.close()  # The worker has the only one now, so the pipe ends with it.
        return future

    def wait(self, running: Futures) -> None:
        """Wait until a process has ended, or for half a second, and take outcomes."""
        pipes = [worker.pipe for worker in self.workers.values()]
        ready = connection.wait(pipes, timeout=0.5)
        for future, worker in list(self.workers.items()):
            if worker.pipe not in ready:
                continue
            try:
                future.set_result(worker.pipe.recv())
            except (EOFError, OSError):  # without an outcome, or in the middle of one
                future.set_exception(JobKilled("its process was killed (out of memory?)"))
            worker.pipe.close()
            worker.process.join()
            del self.workers[future]

    def close(self) -> None:
        """End the processes."""
        for worker in self.workers.values():
            worker.process.kill()


def _work(
    job: bytes, pipe: Connection, environment: dict[str, str], datasets: dict[Any, Any]
) -> None:
    """Train a pickled job in a process of its own. datasets: those that the sweep has read."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ.update(environment)  # The server that was forked may have others.
    last_read.update(datasets)
    progress.console.quiet = True  # The parent displays progress.
    with redirect_stdout(sys.stderr):  # User code may print, also when it is imported.
        outcome = train_job(pickle.loads(job))
    with suppress(BrokenPipeError):  # The parent may have ended.
        pipe.send(outcome)


def _end_with_parent() -> None:
    """End this process as soon as the one that started it has ended, however it did."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def warm_up(config: ExecutorConfig, jobs: Jobs) -> None:
    """Let the server of processes import what a run needs, while this process reads the data."""
    is_side_by_side = config.kind is ExecutorKind.local and num_slots(config, jobs) > 1
    if is_side_by_side and HAS_FORKSERVER:
        with _blocked_signals():
            forkserver.ensure_running()
