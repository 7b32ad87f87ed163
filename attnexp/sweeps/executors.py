"""Where the runs of a sweep take place: in this process, or in others on this machine.

Slurm and Ray are in `clusters`.
"""

import os
import signal
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from typing import Any

from attnexp.base import progress
from attnexp.base.errors import Busy, RunFailed, UserError
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
    except (UserError, RunFailed) as error:
        return str(error)
    except Exception as error:  # such as a full disk or a bug; run.log has the traceback
        return f"{type(error).__name__}: {error}"


@dataclass(frozen=True, slots=True)
class Executor:
    """The three functions of an executor, and the number of runs that it takes at a time."""

    slots: int
    submit: Callable[[Sequence[Job]], Sequence[Any]]
    """Start jobs, at most as many as there are free slots; a future for each."""
    close: Callable[[], object] = lambda: None
    """Stop running jobs, which resume when the sweep is repeated."""
    wait: Callable[[Sequence[Any]], Collection[Any]] = lambda futures: (
        wait(futures, timeout=0.5, return_when=FIRST_COMPLETED).done
    )
    """Futures whose result is there, after at most about a second."""


def local(config: ExecutorConfig, jobs: Sequence[Job]) -> Executor:
    """Executor on this machine: this process, or several if runs are to go side by side."""
    slots = num_slots(config, jobs) or 1
    return Executor(1, _do_here) if slots == 1 else processes(slots, gpus=_num_gpus(jobs))


def _do_here(jobs: Sequence[Job]) -> list[Future[Outcome]]:
    """Do the one job now, however long it takes; without a terminal it prints nothing."""
    future, console = Future[Outcome](), progress.console
    quiet, console.quiet = console.quiet, console.quiet or not console.is_terminal
    try:
        future.set_result(do(*jobs))
    finally:
        console.quiet = quiet
    return [future]


def processes(slots: int, *, gpus: int = 0) -> Executor:
    """Executor of runs side by side. Each slot is a pool of one process, so that a process that is
    killed ends its own run alone, and a slot keeps its GPU.

    gpus: number of GPUs, dealt to the slots in turn.
    """
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")  # by the user
    names = chosen.split(",") if chosen and gpus else [str(gpu) for gpu in range(gpus)]
    with suppress(ImportError):  # Windows has none
        resource_tracker.ensure_running()  # now, since it unblocks SIGINT
    lifeline, held = _spawn.Pipe(duplex=False)
    pools, running = dict[int, ProcessPoolExecutor](), dict[int, Future[Outcome]]()

    def start(job: Job) -> Future[Outcome]:
        busy = {slot for slot, future in running.items() if not future.done()}
        slot = min({*range(slots)} - busy)
        try:
            running[slot] = pools[slot].submit(do, job)
        except (KeyError, BrokenProcessPool):  # none yet, or a dead one
            gpu = names[slot % len(names)] if names else None
            pools[slot] = ProcessPoolExecutor(1, _spawn, _begin, (lifeline, gpu))
            running[slot] = pools[slot].submit(do, job)
        return running[slot]

    def submit(jobs: Sequence[Job]) -> list[Future[Outcome]]:
        # Ctrl-C reaches all processes. They inherit that it is blocked; this one, which is to end
        # them, hears of it when none is half started.
        received, can_block = list[int](), hasattr(signal, "pthread_sigmask")  # not on Windows
        handler = signal.signal(signal.SIGINT, lambda number, frame: received.append(number))
        if can_block:
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            return [start(job) for job in jobs]
        finally:
            if can_block:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
            signal.signal(signal.SIGINT, handler)
            if received:
                raise KeyboardInterrupt

    def close() -> None:
        held.close()
        for pool in pools.values():
            pool.shutdown(cancel_futures=True)
        lifeline.close()

    return Executor(slots, submit, close)


def _begin(lifeline: Connection, gpu: str | None) -> None:
    """Prepare a process of `processes`, before it uses torch."""

    def end_with_parent() -> None:
        with suppress(EOFError, OSError):
            lifeline.recv()  # returns when the pipe has no writer: closed, or its process killed
        os._exit(1)

    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    progress.console.quiet = True  # the parent displays progress
    threading.Thread(target=end_with_parent, daemon=True).start()


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
