"""Executors on clusters: a Slurm queue, through submitit, and Ray."""

import logging
import os
import signal
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attnexp.base.errors import UserError, require
from attnexp.config.schema import ExecutorConfig, ExecutorKind
from attnexp.runs.store import RUNS
from attnexp.sweeps.executors import Executor, do, local, wants_gpu
from attnexp.sweeps.plan import Job


def open_executor(config: ExecutorConfig, jobs: Sequence[Job]) -> Executor:
    """The executor that `executor=...` names. Raises `UserError` where it is not available."""
    kinds = {ExecutorKind.local: local, ExecutorKind.slurm: slurm, ExecutorKind.ray: ray}
    return kinds[config.kind](config, jobs)


def sbatch(config: ExecutorConfig, jobs: Sequence[Job]) -> tuple[Path, dict[str, Any]]:
    """Folder of submitit's files, and the request of each run as its `SlurmExecutor` takes it."""
    options = {
        "job_name": "attnexp",
        "time": config.timeout_min,
        "cpus_per_task": config.threads,
        "mem": f"{config.mem_gb}GB",
        "gpus_per_node": 1 if wants_gpu(jobs) else None,
        "partition": config.partition,
        "account": config.account,
        "additional_parameters": config.slurm,
        "array_parallelism": config.workers or len(jobs),
    }
    return Path(jobs[0].config.out).absolute() / RUNS / ".jobs", options


def sbatch_script(config: ExecutorConfig, jobs: Sequence[Job]) -> str:
    """The script that a sweep submits. Needs submitit, but no Slurm."""
    slurm = require("submitit.slurm.slurm", "executor=slurm", "slurm")
    logs, options = sbatch(config, jobs)
    command = f"python -u -m submitit.core._submit {logs}"
    return str(slurm._make_sbatch_string(command, logs, map_count=len(jobs), **options))


def slurm(config: ExecutorConfig, jobs: Sequence[Job]) -> Executor:
    """Executor with one queued job for each run; jobs that start together are one array.

    Raises `UserError` without submitit or Slurm.
    """
    submitit, queued = require("submitit", "executor=slurm", "slurm"), list[Any]()
    logs, options = sbatch(config, jobs)
    try:
        queue = submitit.SlurmExecutor(logs)
    except RuntimeError as error:
        raise UserError(f"{error} Call this on a login node, or use executor=local.") from error
    queue.update_parameters(**options)

    def submit(jobs: Sequence[Job]) -> list[Any]:
        try:
            with queue.batch():
                new = [queue.submit(do, job) for job in jobs]
        except RuntimeError as error:
            raise UserError(f"Slurm refuses these runs: {' '.join(str(error).split())}") from error
        queued.extend(new)
        return new

    def wait(jobs: Sequence[Any]) -> list[Any]:
        time.sleep(1)
        return [job for job in jobs if job.done()]

    def close() -> None:
        for job in queued:
            if not job.done():
                job.cancel(check=False)  # it may just have ended

    return Executor(config.workers or len(jobs), submit, close, wait)


def ray(config: ExecutorConfig, jobs: Sequence[Job]) -> Executor:
    """Executor with one Ray task for each run. Ray repeats a task whose process is killed, once.

    Raises `UserError` without Ray, or if no cluster answers.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage reports
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # no warning of a change
    ray = require("ray", "executor=ray", "ray")
    address = config.address or os.environ.get("RAY_ADDRESS")
    options = {} if address else {"include_dashboard": False}
    on_sigterm = signal.getsignal(signal.SIGTERM)
    try:
        host, _, port = (address or "").removeprefix("ray://").rpartition(":")
        if port.isdigit():  # at once where nobody listens: Ray tries for minutes
            socket.create_connection((host, int(port)), timeout=5).close()
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **options)
    except Exception as error:  # Ray raises bare ones too
        where = f"answers at {address}" if address else "starts here"
        raise UserError(f"No Ray cluster {where}: {str(error).splitlines()[0]}.") from error
    signal.signal(signal.SIGTERM, on_sigterm)  # Ray's own prints addresses and exits with 15
    there = ray.cluster_resources()
    gpus = config.gpu if wants_gpu(jobs) and there.get("GPU") else 0
    fitting = there["GPU"] / gpus if gpus else there.get("CPU", 1) / config.threads
    task = ray.remote(num_cpus=config.threads, num_gpus=gpus, max_retries=1)(do)
    return Executor(
        slots=config.workers or max(int(fitting + 1e-9), 1),
        submit=lambda jobs: [task.remote(job).future() for job in jobs],
        close=ray.shutdown,  # it ends running tasks, and a cluster that was started here
    )
