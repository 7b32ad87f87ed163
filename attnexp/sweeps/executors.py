"""Where the runs of a sweep take place: in this process, or in others on this machine.

Executors have three functions and give a future for each run. Those of Slurm and Ray are in
`clusters`.
"""

import os
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from attnexp.base import progress
from attnexp.base.errors import Busy
from attnexp.config.schema import Device, ExecutorConfig, ExecutorKind
from attnexp.runs.result import Run
from attnexp.sweeps.plan import Job

_spawn = get_context("spawn")
"""Start method of the processes; a fork of a process that used torch's threads may hang."""

Outcome = Run | str | None
"""A finished run, the reason why it failed, or None while another sweep is doing it."""


def do(job: Job) -> Outcome:
    """Train. An error becomes a reason, so that one run does not end the sweep."""
    from attnexp.training.run import train_run

    try:
        path, result = train_run(job.config)
        return Run(path=path, result=result, label=job.label)
    except Busy:
        return None
    except Exception as error:  # also a full disk, or a bug; run.log has the traceback
        return f"{type(error).__name__}: {error}"


class Executor:
    """Interface of executors. This one does one run at a time in this process."""

    slots = 1
    """Maximum number of runs at a time."""

    def submit(self, jobs: Sequence[Job]) -> Sequence[Any]:
        """Start jobs, at most as many as there are free slots; a future for each."""
        future, console = Future[Outcome](), progress.console
        quiet, console.quiet = console.quiet, console.quiet or not console.is_terminal
        try:
            future.set_result(do(*jobs))
        finally:
            console.quiet = quiet
        return [future]

    def wait(self, futures: Sequence[Any]) -> list[Any]:
        """Futures whose result is there, after at most about a second."""
        return [*wait(futures, timeout=0.5, return_when=FIRST_COMPLETED).done]

    def close(self) -> None:
        """Stop running jobs. They resume when the sweep is repeated."""


class Processes(Executor):
    """Executor of runs side by side. Each slot is a pool of one process, so that a process that is
    killed ends its own run alone, and a slot keeps its GPU."""

    def __init__(self, slots: int, *, gpus: int = 0) -> None:
        """gpus: number of GPUs, dealt to the slots in turn."""
        self.slots = slots
        chosen = os.environ.get("CUDA_VISIBLE_DEVICES")  # by the user
        self.gpus = chosen.split(",") if chosen and gpus else [str(gpu) for gpu in range(gpus)]
        self.lifeline, self.held = _spawn.Pipe(duplex=False)
        self.pools: dict[int, ProcessPoolExecutor] = {}
        self.running: dict[int, Future[Outcome]] = {}

    def submit(self, jobs: Sequence[Job]) -> list[Future[Outcome]]:
        """Send each job to a process that is idle, or to a new one."""
        # Processes inherit that SIGINT is ignored: Ctrl-C reaches all, and this one ends them.
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            return [self._submit(job) for job in jobs]
        finally:
            signal.signal(signal.SIGINT, handler)

    def _submit(self, job: Job) -> Future[Outcome]:
        busy = {slot for slot, future in self.running.items() if not future.done()}
        slot = min({*range(self.slots)} - busy)
        try:
            future = self.pools[slot].submit(do, job)
        except (KeyError, BrokenProcessPool):  # none yet, or a dead one
            gpu = self.gpus[slot % len(self.gpus)] if self.gpus else None
            self.pools[slot] = ProcessPoolExecutor(1, _spawn, _begin, (self.lifeline, gpu))
            future = self.pools[slot].submit(do, job)
        self.running[slot] = future
        return future

    def close(self) -> None:
        """End every process; its run resumes later from the last finished epoch."""
        self.held.close()
        for pool in self.pools.values():
            pool.shutdown(cancel_futures=True)
        self.lifeline.close()


def _begin(lifeline: Connection, gpu: str | None) -> None:
    """Prepare a process of `Processes`, before it uses torch."""

    def end_with_parent() -> None:
        with suppress(EOFError):
            lifeline.recv()  # returns when the pipe has no writer: closed, or its process killed
        os._exit(1)

    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    progress.console.quiet = True  # the parent displays progress
    threading.Thread(target=end_with_parent, daemon=True).start()


def open_executor(config: ExecutorConfig, jobs: Sequence[Job]) -> Executor:
    """The executor that `executor=...` names. Raises `UserError` where it is not available."""
    from attnexp.sweeps import clusters

    if config.kind is not ExecutorKind.local:
        cluster = clusters.Ray if config.kind is ExecutorKind.ray else clusters.Slurm
        return cluster(config, jobs)
    slots = num_slots(config, jobs) or 1
    return Executor() if slots == 1 else Processes(slots, gpus=_num_gpus(jobs))


def num_slots(config: ExecutorConfig, jobs: Sequence[Job]) -> int | None:
    """Number of runs at a time: one for each core of this machine, or share of a GPU; None for a
    cluster, which decides itself."""
    if config.workers is not None:
        fitting = config.workers
    elif config.kind is not ExecutorKind.local:
        return None
    elif gpus := _num_gpus(jobs):
        fitting = gpus * int(1 / config.gpu + 1e-9)  # ten of 0.1
    else:
        has_affinity = hasattr(os, "sched_getaffinity")  # Linux
        cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
        fitting = cores // config.threads
    return max(1, min(fitting, len(jobs)))


def wants_gpu(jobs: Sequence[Job]) -> bool:
    """Whether any of the jobs may use a GPU: all but those of train.device=cpu."""
    return any(job.config.train.device is not Device.cpu for job in jobs)


def _num_gpus(jobs: Sequence[Job]) -> int:
    import torch

    return torch.cuda.device_count() if wants_gpu(jobs) else 0
