"""Executor on a Slurm cluster, or on local processes in its place, through submitit."""

import io
import math
import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Collection
from contextlib import redirect_stderr, suppress
from pathlib import Path
from typing import Any

from attnexp.base import progress
from attnexp.base.errors import UserError, require
from attnexp.config.schema import ExecutorConfig, ExecutorKind
from attnexp.sweeps.executors.task import Failure, Outcome, do
from attnexp.sweeps.plan import Job

NAME = "attnexp"
"""Name of every job."""
SECONDS_BETWEEN_LOOKS = 5.0
SECONDS_FOR_FILES = 15.0
"""Maximum delay of a job's files on this machine after its end is reported."""

GONE = "is no longer in the queue"
ENDED = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
     "PREEMPTED", "REVOKED", "TIMEOUT", GONE}
)  # fmt: skip
NEVER = re.compile(
    r"AccountNotAllowed|BadConstraints|Invalid(Account|QOS)|PartitionTimeLimit"
    r"|QOSNotAllowed|QOSMin\w+|(Assoc|QOS)Max\w+Per(Job|Node)\w*"
)
"""Pending reasons that lie in the request itself. Others clear when jobs end or nodes return, as do
the limits of a group or a user (https://slurm.schedmd.com/job_reason_codes.html)."""
SECONDS_TO_ASK_AGAIN = 5.0
"""Time for a process to end before SIGTERM is repeated."""


class Queue:
    """Executor with one queued job for each run; jobs that start together are one array."""

    def __init__(self, config: ExecutorConfig, *, slots: int, logs: Path, gpu: bool) -> None:
        """logs: folder for the output of jobs. gpu: whether each job requests a GPU. Raises
        `UserError` without submitit or Slurm."""
        submitit = require("submitit", f"executor={config.kind}", "slurm")
        slurm = config.kind is ExecutorKind.slurm
        try:
            self.executor = submitit.AutoExecutor(logs, cluster="slurm" if slurm else "local")
        except RuntimeError as error:
            raise UserError(
                f"executor=slurm, but Slurm's commands are not on this machine ({error}). Call "
                f"this from a login node, or use executor=local."
            ) from error
        options: dict[str, Any] = {"timeout_min": config.timeout_min, "name": NAME}
        if slurm:
            options |= {"cpus_per_task": config.threads, "mem_gb": config.mem_gb}
            options |= {"slurm_partition": config.partition} if config.partition else {}
            options |= {"slurm_account": config.account} if config.account else {}
            options |= {"slurm_array_parallelism": slots}
        if gpu:
            options["gpus_per_node"] = 1
        self.executor.update_parameters(**options)
        self.slots = slots
        self.squeue = Squeue() if slurm else None
        self.asked = ", ".join(
            f"executor.{name}={value}"
            for name in ("partition", "account", "timeout_min", "threads", "mem_gb")
            if (value := getattr(config, name)) is not None
        )
        self.running: list[tuple[Job, Any]] = []

    def start(self, jobs: list[Job]) -> None:
        """Submit the jobs. Raises `UserError` if Slurm refuses them."""
        try:
            with redirect_stderr(io.StringIO()), self.executor.batch():  # it prints what it raises
                submitted = [self.executor.submit(do, job) for job in jobs]
        except RuntimeError as error:
            raise UserError(
                f"Slurm refuses these runs: {' '.join(str(error).split())}. Each asks for "
                f"{self.asked}; executor.workers={len(jobs)} submits so many."
            ) from error
        self.running += zip(jobs, submitted, strict=True)

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        """Outcomes of jobs that have ended, checked after `seconds`."""
        time.sleep(seconds)
        answered = self._answered()
        silent = [job.job_id for _, job in self.running if job.job_id not in answered]
        lost = self.squeue.lost(silent, self.asked) if self.squeue and silent else {}
        ended, running = list[tuple[Job, Outcome]](), list[tuple[Job, Any]]()
        for job, submitted in self.running:
            if submitted.job_id in answered:
                try:
                    ended.append((job, submitted.result()))
                except Exception as error:  # whatever a queue may do to a job
                    reason = str(error).strip().splitlines()[0]
                    ended.append((job, _failure(job, submitted, reason)))
            elif submitted.job_id in lost:
                ended.append((job, _failure(job, submitted, lost[submitted.job_id])))
            else:
                running.append((job, submitted))
        self.running = running
        return ended

    def close(self) -> None:
        """Cancel all running and waiting jobs."""
        jobs = [submitted for _, submitted in self.running]
        self.running = []
        if self.squeue is None:
            _terminate(jobs)
        else:
            for submitted in jobs:
                submitted.cancel(check=False)  # it may have ended

    def _answered(self) -> set[str]:
        """Ids of jobs whose result exists. (For Slurm jobs submitit would call `sacct`.)"""
        if self.squeue is None:
            return {submitted.job_id for _, submitted in self.running if submitted.done()}
        names = set(os.listdir(self.executor.folder))  # fresh over NFS too, where exists() is not
        return {
            submitted.job_id
            for _, submitted in self.running
            if submitted.paths.result_pickle.name in names
        }


def _terminate(jobs: list[Any]) -> None:
    """Terminate local processes. (submitit would interrupt them, and each would print a traceback.)

    SIGTERM is repeated, because submitit has a process ignore it until its run starts."""
    while alive := [submitted for submitted in jobs if not submitted.done()]:
        for submitted in alive:
            with suppress(ProcessLookupError):
                os.kill(int(submitted.job_id), signal.SIGTERM)
        deadline = time.monotonic() + SECONDS_TO_ASK_AGAIN
        while time.monotonic() < deadline and not all(submitted.done() for submitted in alive):
            time.sleep(0.05)


def _failure(job: Job, submitted: Any, reason: str) -> Failure:
    return Failure(job, f"job {submitted.job_id} {reason}; see {submitted.paths.stderr}")


class Squeue:
    """States of jobs from `squeue`, asked every few seconds, and why they wait, for the user.

    (`sacct` needs accounting, which many clusters lack.)
    """

    def __init__(self) -> None:
        self.looked = -math.inf
        self.ended: dict[str, tuple[float, str]] = {}
        self.reported: set[str] = set()

    def lost(self, job_ids: Collection[str], asked: str) -> dict[str, str]:
        """Jobs among these that ended without a result; state keyed by id.

        asked: description of each job's request. Raises `UserError` if Slurm will never start one.
        """
        now = time.monotonic()
        if now - self.looked >= SECONDS_BETWEEN_LOOKS:
            self.looked = now
            self._look(job_ids, now, asked)
        return {
            job_id: state
            for job_id, (since, state) in self.ended.items()
            if now - since >= SECONDS_FOR_FILES
        }

    def _look(self, job_ids: Collection[str], now: float, asked: str) -> None:
        done = subprocess.run(
            ["squeue", "--noheader", "--array", "--states=all", f"--user={os.getuid()}",
             f"--name={NAME}", "--format=%i|%T|%r"],
            capture_output=True, encoding="utf-8",
        )  # fmt: skip
        if done.returncode != 0:  # the controller may return
            self._tell(f"squeue does not answer: {' '.join(done.stderr.split())}. Retrying")
            return
        rows = [line.split("|", 2) for line in done.stdout.splitlines()]
        listed = {job_id: (state, reason) for job_id, state, reason in rows}
        found = {job_id: listed.get(job_id, (GONE, "")) for job_id in job_ids}
        self.ended = {
            job_id: (self.ended.get(job_id, (now, state))[0], state)
            for job_id, (state, _) in found.items()
            if state in ENDED  # requeued jobs drop out
        }
        waiting = Counter(reason for state, reason in found.values() if state == "PENDING")
        for reason, count in waiting.items():
            if NEVER.fullmatch(reason):
                raise UserError(
                    f"Slurm will never start {count} of these runs: PENDING, {reason}. Each asks "
                    f"for {asked}. Ask for what `scontrol show partition` and your account allow."
                )
            if reason != "None":
                self._tell(f"{count} of {len(found)} runs are PENDING: {reason}")

    def _tell(self, line: str) -> None:
        """Print a line once for each reason, since the counts change all the time."""
        reason = line.rpartition(": ")[2]
        if reason not in self.reported:
            self.reported.add(reason)
            progress.note(f"Slurm: {line}.")
