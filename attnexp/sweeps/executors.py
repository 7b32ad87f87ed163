"""Where the runs of a sweep take place: here, in processes side by side, on Slurm or on Ray."""

import itertools
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from multiprocessing import connection, get_context, resource_tracker
from typing import Any

import torch

from attnexp.base import progress
from attnexp.base.errors import Busy, RunFailed, UserError, require
from attnexp.config.schema import Device, ExecutorConfig, ExecutorKind
from attnexp.runs.result import Run
from attnexp.runs.store import RUNS
from attnexp.sweeps.plan import Job
from attnexp.training.run import train_run

Outcome = Run | str
"""A finished run, or the reason why it failed."""


def do(job: Job) -> Outcome:
    """Train, or wait for another sweep that does so; an error becomes the reason of a failure."""
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


@dataclass(frozen=True, slots=True)
class Executor:
    """What every executor does with runs, and the number that it takes at a time."""

    slots: int
    submit: Callable[[Sequence[Job]], Sequence[Any]]  # start as many as slots are free: futures
    close: Callable[[], object] = lambda: None  # stop; what ran resumes when the sweep is repeated


def open_executor(config: ExecutorConfig, jobs: Sequence[Job]) -> Executor:
    """The executor that `executor=...` names. Raises `UserError` where it is not available."""
    if jobs and config.kind is not ExecutorKind.local:
        try:
            return {ExecutorKind.slurm: _slurm, ExecutorKind.ray: _ray}[config.kind](config, jobs)
        except (RuntimeError, ConnectionError) as error:
            raise UserError(f"executor={config.kind} is not here: {error}") from error
    slots = num_slots(config, jobs)
    return Executor(1, _do_here) if slots == 1 else processes(slots)


def num_slots(config: ExecutorConfig, jobs: Sequence[Job]) -> int:
    """Runs at a time: one for each core here, or share of a GPU; on a cluster, all."""
    if config.workers is not None:
        fitting = config.workers
    elif config.kind is not ExecutorKind.local:
        fitting = len(jobs)
    elif _want_gpu(jobs) and (gpus := torch.cuda.device_count()):
        fitting = gpus * int(1 / config.gpu + 1e-9)  # ten of 0.1
    else:
        is_linux = hasattr(os, "sched_getaffinity")
        cores = len(os.sched_getaffinity(0)) if is_linux else os.cpu_count() or 1
        fitting = cores // _num_threads(jobs)
    return max(1, min(fitting, len(jobs)))


def _num_threads(jobs: Sequence[Job]) -> int:
    return max((job.config.train.threads or 1 for job in jobs), default=1)


def _want_gpu(jobs: Sequence[Job]) -> bool:
    return any(job.config.train.device is not Device.cpu for job in jobs)


def _do_here(jobs: Sequence[Job]) -> list[Future[Outcome]]:
    """Do the one job now, however long it takes; without a terminal it prints nothing."""
    future = Future[Outcome]()
    with nullcontext() if progress.console.is_terminal else progress.console.capture():
        future.set_result(do(*jobs))
    return [future]


def processes(slots: int) -> Executor:
    """Runs side by side, to which the GPUs are dealt in turn. Each slot has a process of its own:
    one that is killed ends its own run alone, which is tried once more in another."""
    all_gpus = ",".join(map(str, range(torch.cuda.device_count())))
    gpus = itertools.cycle(os.environ.get("CUDA_VISIBLE_DEVICES", all_gpus).split(","))
    spawn = get_context("spawn")  # a fork of a process that used torch's threads may hang
    lifeline, held = spawn.Pipe(duplex=False)
    slot, pools = threading.local(), ExitStack()

    def begin() -> None:
        # Ctrl-C reaches all processes. They inherit that it is blocked; this one ends them.
        resource_tracker.ensure_running()  # now, since it unblocks
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        slot.gpu = next(gpus)
        renew()

    def renew() -> None:
        slot.pool = pools.enter_context(ProcessPoolExecutor(1, spawn, _begin, (lifeline, slot.gpu)))

    def work(job: Job) -> Outcome:
        for _ in range(2):
            try:
                outcome: Outcome = slot.pool.submit(do, job).result()
                return outcome
            except BrokenProcessPool:
                if held.closed:
                    raise
                progress.note(f"{job}: its process was killed.")
                renew()
        return "its process was killed twice (out of memory?)"

    def close() -> None:
        held.close()  # which ends the processes
        threads.shutdown(cancel_futures=True)
        pools.close()  # now, since Python's exit stumbles over a pool that is about to close

    threads = ThreadPoolExecutor(slots, initializer=begin)
    return Executor(slots, lambda jobs: [threads.submit(work, job) for job in jobs], close)


def _begin(lifeline: connection.Connection, gpu: str) -> None:
    """Prepare a process of `processes`."""

    def end_with_parent() -> None:
        connection.wait([lifeline])  # until the pipe is closed, or the process that has it killed
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    progress.console.quiet = True  # the parent displays progress


def _do_there(job: Job, folder: str) -> Outcome:
    """Train on a cluster."""
    os.chdir(folder)  # `out` may be relative
    return do(job)


def _sbatch(config: ExecutorConfig, jobs: Sequence[Job]) -> tuple[str, dict[str, Any]]:
    """Folder of submitit's files, and the request of each run as its `SlurmExecutor` takes it."""
    options = {
        "job_name": "attnexp",
        "time": 120,  # minutes
        "cpus_per_task": _num_threads(jobs),
        "mem": "8GB",
        "gpus_per_node": 1 if _want_gpu(jobs) else None,
        "additional_parameters": config.slurm,  # these win; `_slurm` names the job
        "array_parallelism": num_slots(config, jobs),
    }
    return os.path.abspath(f"{jobs[0].config.out}/{RUNS}/.jobs"), options


def sbatch_script(config: ExecutorConfig, jobs: Sequence[Job]) -> str:
    """The script that a sweep submits, but for the job's name. Needs submitit, but no Slurm."""
    slurm = require("submitit.slurm.slurm", "executor=slurm", "slurm")
    logs, options = _sbatch(config, jobs)
    command = f"python -u -m submitit.core._submit {logs}"
    return str(slurm._make_sbatch_string(command, logs, map_count=len(jobs), **options))


def _slurm(config: ExecutorConfig, jobs: Sequence[Job]) -> Executor:
    """Executor with one queued job for each run; jobs that start together are one array."""
    submitit = require("submitit", "executor=slurm", "slurm")
    logs, options = _sbatch(config, jobs)
    name = f"attnexp-{os.urandom(4).hex()}"  # to cancel jobs that submitit does not know yet
    options["additional_parameters"] = config.slurm | {"job_name": name}
    queue = submitit.SlurmExecutor(logs)
    queue.update_parameters(**options)

    def submit(jobs: Sequence[Job]) -> list[Any]:
        try:
            with queue.batch():
                return [queue.submit(_do_there, job, os.getcwd()) for job in jobs]
        except RuntimeError as error:
            raise UserError(f"Slurm refuses these runs: {' '.join(str(error).split())}") from error

    def close() -> None:
        subprocess.run(["scancel", f"--name={name}"])

    return Executor(num_slots(config, jobs), submit, close)


def _ray(config: ExecutorConfig, jobs: Sequence[Job]) -> Executor:
    """Executor with one Ray task for each run, on the cluster at `$RAY_ADDRESS` or one started
    here. Ray repeats a task whose process is killed, once."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage reports
    ray, on_sigterm = require("ray", "executor=ray", "ray"), signal.getsignal(signal.SIGTERM)
    ray.init(log_to_driver=False, logging_level=logging.ERROR)
    signal.signal(signal.SIGTERM, on_sigterm)  # Ray's own prints addresses and exits with 15
    gpu = config.gpu if _want_gpu(jobs) and ray.cluster_resources().get("GPU") else 0
    task = ray.remote(num_cpus=_num_threads(jobs), num_gpus=gpu, max_retries=1)(_do_there)
    return Executor(
        slots=num_slots(config, jobs),
        submit=lambda jobs: [task.remote(job, os.getcwd()).future() for job in jobs],
        close=ray.shutdown,  # it ends running tasks, and a cluster that was started here
    )
