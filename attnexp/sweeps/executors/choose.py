"""The executor that `executor=...` names, and the number of jobs this machine takes at a time."""

import sys
from dataclasses import replace
from pathlib import Path

from attnexp.config.schema import Device, ExecutorConfig, ExecutorKind
from attnexp.runs.store import RUNS
from attnexp.sweeps.executors.cluster import Cluster
from attnexp.sweeps.executors.local import InThisProcess, Processes, available_cores
from attnexp.sweeps.executors.queue import Queue
from attnexp.sweeps.executors.task import Executor
from attnexp.sweeps.plan import Job

DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
"""Device files of CUDA, ROCm and WSL. Without them Linux has no GPU that torch could use."""


def open_executor(config: ExecutorConfig, jobs: list[Job]) -> Executor:
    """Open the executor for these jobs. Raises `UserError` where it is not available."""
    devices = {job.config.train.device for job in jobs}
    match config.kind:
        case ExecutorKind.local:
            slots = local_slots(config, jobs)
            return InThisProcess() if slots == 1 else Processes(slots, gpus=_gpus(jobs))
        case ExecutorKind.submitit | ExecutorKind.slurm:
            local = config.kind is ExecutorKind.submitit
            slots = config.workers or (local_slots(config, jobs) if local else len(jobs))
            logs = Path(jobs[0].config.out) / RUNS / ".jobs"
            # A queue may have no GPUs, so one is asked for where it must be one.
            return Queue(config, slots=slots, logs=logs, gpu=Device.cuda in devices and not local)
        case ExecutorKind.ray:
            return Cluster(config, gpu=devices != {Device.cpu})


def local_slots(config: ExecutorConfig, jobs: list[Job]) -> int:
    """Number of runs that this machine takes at a time: one for each core, or share of a GPU."""
    if config.workers is not None:
        fitting = config.workers
    elif gpus := _gpus(jobs):
        fitting = gpus * int(1 / config.gpu)
    else:
        fitting = available_cores() // config.threads
    return max(1, min(fitting, len(jobs)))


def for_executor(job: Job, config: ExecutorConfig, *, alone: bool) -> Job:
    """The job as the executor gets it: with its number of threads and, off this machine, an
    absolute path.

    alone: it has the machine to itself, and torch may choose the number of threads.
    """
    threads = job.config.train.threads
    if threads is None and not alone:
        threads = config.threads
    out = job.config.out
    if config.kind is not ExecutorKind.local:
        out = str(Path(out).absolute())
    train = replace(job.config.train, threads=threads)
    return replace(job, config=replace(job.config, train=train, out=out))


def _gpus(jobs: list[Job]) -> int:
    """Number of GPUs that the jobs may use here. Torch is imported only where there may be one."""
    if all(job.config.train.device is Device.cpu for job in jobs):
        return 0
    if sys.platform == "linux" and not any(Path(driver).exists() for driver in DRIVERS):
        return 0
    import torch

    return torch.cuda.device_count()
