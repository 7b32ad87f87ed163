"""Executors on this machine: one job after the other in this process, or each in its own."""

import os
import pickle
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from multiprocessing import connection, forkserver, get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple

import torch

from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.config.schema import ExecutorConfig, ExecutorKind
from attnexp.data import encode
from attnexp.sweeps.executor import Executor, Futures, JobKilled, Outcome, num_slots, train_job
from attnexp.sweeps.plan import Job, Jobs

HAS_FORKSERVER = sys.platform == "linux"
CONTEXT: Any = get_context("forkserver" if HAS_FORKSERVER else "spawn")
"""How processes start. A fork of this process, which used torch's threads, may hang. On Linux a
server, which has only imported what a run needs, is forked instead; that import takes seconds."""
if HAS_FORKSERVER:
    CONTEXT.set_forkserver_preload([__name__, "attnexp.sweeps.preload"])


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
    """Block Ctrl-C and SIGHUP; processes that start within inherit this. A terminal sends both to
    all its processes, but here this one decides when the others end."""
    resource_tracker.ensure_running()  # Else `process.start` starts it, which unblocks them.
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
        all_gpus = ",".join(map(str, range(torch.cuda.device_count())))
        self.gpus = os.environ.get("CUDA_VISIBLE_DEVICES", all_gpus).split(",")  # [""] for none
        self.workers: dict[Future[Outcome], Worker] = {}

    def submit(self, jobs: Jobs) -> Futures:
        """Start a process for each job."""
        return [self._start(job) for job in jobs]

    def _start(self, job: Job) -> Future[Outcome]:
        """Start a process, on the GPU with the fewest workers."""
        num_workers = Counter(worker.gpu for worker in self.workers.values())
        gpu = min(self.gpus, key=num_workers.__getitem__)
        environment = dict(os.environ, CUDA_VISIBLE_DEVICES=gpu)
        pipe, end_of_worker = CONTEXT.Pipe(duplex=False)
        # The job is sent as bytes, so that user code is imported once stdout is redirected.
        arguments = (pickle.dumps(job), end_of_worker, environment, encode.last_read)
        process = CONTEXT.Process(target=_work, args=arguments)
        future = Future[Outcome]()
        with _blocked_signals():  # A Ctrl-C comes after it, when `close` can find the process.
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
            except (EOFError, OSError):  # The pipe ended before an outcome, or within it.
                future.set_exception(JobKilled("its process was killed (out of memory?)"))
            worker.pipe.close()
            worker.process.join()
            del self.workers[future]

    def close(self) -> None:
        """End the processes."""
        for worker in self.workers.values():
            worker.process.kill()


def _work(job: bytes, pipe: Connection, environment: dict[str, str], last_read: Any) -> None:
    """Train a pickled job in a process of its own. last_read: data that need no second reading."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ.update(environment)  # The server that was forked has older ones.
    encode.last_read.update(last_read)
    progress.console.quiet = True  # The parent displays progress.
    with redirect_stdout(sys.stderr):  # User code may print, also when it is imported.
        try:
            outcome = train_job(pickle.loads(job))
        except UserError as error:  # The user's code may have changed since the sweep began.
            outcome = str(error)
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
