"""Executor on a Slurm cluster: a queued job for each run, sent by submitit."""

import os
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from attnexp.base.errors import UserError, require
from attnexp.config.schema import ExecutorConfig
from attnexp.runs.store import RUNS
from attnexp.sweeps.executors import (
    Executor,
    Outcome,
    num_slots,
    num_threads,
    train_job_in,
    want_gpu,
)
from attnexp.sweeps.plan import Job


def sbatch_options(config: ExecutorConfig, jobs: Sequence[Job]) -> dict[str, Any]:
    """What is asked for each run, as submitit's `SlurmExecutor` takes it."""
    return {
        "job_name": "attnexp",
        "time": 120,  # minutes
        "cpus_per_task": num_threads(jobs),
        "mem": "8GB",
        "gpus_per_node": 1 if want_gpu(jobs) else None,
        "array_parallelism": num_slots(config, jobs),
        "additional_parameters": config.slurm,  # these win; `SlurmQueue` names the job
    }


def log_folder(jobs: Sequence[Job]) -> str:
    """Folder of submitit's files, the jobs' logs among them."""
    return os.path.abspath(f"{jobs[0].config.out}/{RUNS}/.jobs")


def sbatch_script(config: ExecutorConfig, jobs: Sequence[Job]) -> str:
    """The script that a sweep submits, but for the job's name. Needs submitit, but no Slurm."""
    slurm = require("submitit.slurm.slurm", "executor=slurm", "slurm")
    folder = log_folder(jobs)
    command = f"python -u -m submitit.core._submit {folder}"
    options = sbatch_options(config, jobs)
    return str(slurm._make_sbatch_string(command, folder, map_count=len(jobs), **options))


class SlurmQueue(Executor):
    """One queued job for each run; jobs that start together are one array."""

    def __init__(self, config: ExecutorConfig, jobs: Sequence[Job]) -> None:
        super().__init__(num_slots(config, jobs))
        submitit = require("submitit", "executor=slurm", "slurm")
        self.name = f"attnexp-{os.urandom(4).hex()}"  # cancels jobs that submitit does not know yet
        self.submitter = submitit.SlurmExecutor(log_folder(jobs))
        options = sbatch_options(config, jobs)
        options["additional_parameters"] = config.slurm | {"job_name": self.name}
        self.submitter.update_parameters(**options)
        self.queued: dict[Future[Outcome], Any] = {}  # submitit's jobs

    def submit(self, jobs: Sequence[Job]) -> Sequence[Future[Outcome]]:
        """Queue jobs. Raises `UserError` where Slurm refuses them."""
        try:
            with self.submitter.batch():
                queued = [self.submitter.submit(train_job_in, os.getcwd(), job) for job in jobs]
        except RuntimeError as error:
            message = " ".join(str(error).split())
            raise UserError(f"Slurm refuses these runs: {message}") from error
        running = [Future[Outcome]() for _ in jobs]
        self.queued |= zip(running, queued, strict=True)
        return running

    def wait(self, running: Sequence[Future[Outcome]]) -> None:
        """Wait a moment, and take the results of jobs that have ended."""
        time.sleep(0.5)
        for future in [future for future, job in self.queued.items() if job.done()]:
            job = self.queued.pop(future)
            try:
                future.set_result(job.result())
            except Exception as error:
                future.set_exception(error)

    def close(self) -> None:
        """Cancel the jobs."""
        subprocess.run(["scancel", f"--name={self.name}"])
