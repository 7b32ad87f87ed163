"""Jobs of a Slurm cluster, or processes that act as such, through submitit."""

import time
from pathlib import Path
from typing import Any

from attnexp.config.schema import ExecutorConfig, ExecutorKind
from attnexp.errors import UserError
from attnexp.sweeps.executors.task import Failure, Outcome, do
from attnexp.sweeps.plan import Job


class Queue:
    """One job of the queue for each run; Slurm gets all that start together as one array."""

    def __init__(self, config: ExecutorConfig, *, slots: int, logs: Path, gpu: bool) -> None:
        """logs: where submitit keeps what the jobs print. gpu: ask for one. Raises `UserError`
        without submitit, or without Slurm."""
        try:
            import submitit
        except ImportError as error:
            raise UserError(
                f"executor={config.kind} needs submitit, which is not installed. Install it: "
                f"pip install 'attnexp[slurm]'."
            ) from error

        slurm = config.kind is ExecutorKind.slurm
        try:
            self.executor = submitit.AutoExecutor(logs, cluster="slurm" if slurm else "local")
        except RuntimeError as error:
            raise UserError(
                f"executor=slurm, but Slurm's commands are not on this machine ({error}). Call "
                f"this from a login node, or use executor=local."
            ) from error
        options: dict[str, Any] = {"timeout_min": config.timeout_min, "name": "attnexp"}
        if slurm:
            options |= {"cpus_per_task": config.threads, "mem_gb": config.mem_gb}
            options |= {"slurm_partition": config.partition} if config.partition else {}
            options |= {"slurm_account": config.account} if config.account else {}
            options |= {"slurm_array_parallelism": slots}
        if gpu:
            options["gpus_per_node"] = 1
        self.executor.update_parameters(**options)
        self.slots = slots
        self.seconds_between_looks = 5.0 if slurm else 0.2
        self.running: list[tuple[Job, Any]] = []

    def start(self, jobs: list[Job]) -> None:
        """Submit them."""
        with self.executor.batch():
            submitted = [self.executor.submit(do, job) for job in jobs]
        self.running += zip(jobs, submitted, strict=True)

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        """Look whether jobs have ended."""
        time.sleep(min(seconds, self.seconds_between_looks))
        done, running = list[tuple[Job, Any]](), list[tuple[Job, Any]]()
        for job, submitted in self.running:
            (done if submitted.done() else running).append((job, submitted))
        self.running = running
        return [(job, _outcome(job, submitted)) for job, submitted in done]

    def close(self) -> None:
        """Take everything from the queue, what runs and what waits."""
        for _, submitted in self.running:
            submitted.cancel()
        self.running = []


def _outcome(job: Job, submitted: Any) -> Outcome:
    try:
        outcome: Outcome = submitted.result()
    except Exception as error:  # whatever a queue may do to a job
        reason = str(error).strip().splitlines()[0]
        return Failure(job, f"job {submitted.job_id} {submitted.state}: {reason}")
    return outcome
