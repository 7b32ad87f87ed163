"""Executor on a Slurm cluster: a queued job for each run, sent by submitit.

What became of a job is asked of `squeue` and `scontrol`, which need no accounting.
"""

import logging
import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from attnexp.base import progress
from attnexp.base.errors import UserError, require
from attnexp.config.schema import ExecutorConfig
from attnexp.runs.store import RUNS
from attnexp.sweeps.executors import (
    Executor,
    JobKilled,
    Outcome,
    TimeLimitReached,
    num_slots,
    num_threads,
    train_job_in,
    want_gpu,
)
from attnexp.sweeps.plan import Job

SECONDS_BETWEEN_LOOKS = 12
"""How often Slurm is asked after the jobs of a sweep."""

DEFAULT_MINUTES = 120

REPLACED_BY = {
    "mem": ("mem_per_cpu", "mem_per_gpu"),
    "gpus_per_node": ("gpus", "gpus_per_task", "gpus_per_socket", "gres"),
}
"""Options that are asked for by default, each with those that Slurm takes in its place."""


def sbatch_options(config: ExecutorConfig, jobs: Sequence[Job], job_name: str) -> dict[str, Any]:
    """What is asked for each run, as submitit's `SlurmExecutor` takes it. The user's options win
    but for the jobs' name; null takes one away."""
    slurm = require("submitit.slurm.slurm", "executor=slurm", "slurm")
    chosen = {option.replace("-", "_"): value for option, value in config.slurm.items()}
    if isinstance(chosen.get("setup"), str):
        chosen["setup"] = [chosen["setup"]]
    minutes, has_gpus = _ask_partition(chosen.get("partition"))
    options = {
        "time": min(DEFAULT_MINUTES, minutes),
        "cpus_per_task": num_threads(jobs),
        "mem": "8GB",
        "gpus_per_node": 1 if want_gpu(jobs) and has_gpus else None,
        "array_parallelism": num_slots(config, jobs),
    }
    for option, alternatives in REPLACED_BY.items():
        if any(alternative in chosen for alternative in alternatives):
            del options[option]
    # Instead of a signal that lets submitit send the job again: `SlurmQueue` does so, from the
    # checkpoint, once the limit has ended the job.
    others = {"signal": "URG@10"}
    for option, value in chosen.items():
        if option in slurm._get_default_parameters():
            options[option] = value
        elif value is not None:
            others[option.replace("_", "-")] = value
    return {**options, "job_name": job_name, "additional_parameters": others}


def _ask_partition(partition: str | None) -> tuple[float, bool]:
    """Time limit of a partition, or the default one, in minutes, and whether it has GPUs. Without
    an answer nothing is ruled out."""
    words = [f"--partition={partition}"] if partition else []
    answer = _ask("sinfo", "--noheader", "--format=%P|%l|%G", *words) or ""
    rows = [line.split("|") for line in answer.splitlines()]
    rows = [row for row in rows if partition or row[0].endswith("*")]
    if not rows:
        return DEFAULT_MINUTES, True
    minutes = min(_minutes(limit) for _, limit, _ in rows)
    return minutes, any("gpu" in generic for _, _, generic in rows)


def _minutes(limit: str) -> float:
    """Minutes of a time as `sinfo` prints it: `30:00`, `3:00:00`, `1-00:00:00`, `infinite`."""
    days, _, clock = limit.rpartition("-")
    try:
        seconds = 0
        for part in clock.split(":"):
            seconds = 60 * seconds + int(part)
        return 24 * 60 * int(days or 0) + seconds // 60
    except ValueError:
        return float("inf")


def _ask(*words: str) -> str | None:
    """What a command of Slurm answers; None if it fails."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def _log_folder(name: str, jobs: Sequence[Job]) -> str:
    """Folder of submitit's files, the jobs' logs among them, of the sweep with this name."""
    return os.path.abspath(f"{jobs[0].config.out}/{RUNS}/.jobs/{name}")


def sbatch_script(config: ExecutorConfig, jobs: Sequence[Job]) -> str:
    """The script that a sweep submits, but for its name. Needs submitit, but no Slurm."""
    slurm = require("submitit.slurm.slurm", "executor=slurm", "slurm")
    folder = _log_folder("attnexp", jobs)
    command = f"python -u -m submitit.core._submit {folder}"
    options = sbatch_options(config, jobs, "attnexp")
    return str(slurm._make_sbatch_string(command, folder, map_count=len(jobs), **options))


class SlurmQueue(Executor):
    """One queued job for each run; jobs that start together are one array."""

    def __init__(self, config: ExecutorConfig, jobs: Sequence[Job]) -> None:
        super().__init__(num_slots(config, jobs))
        submitit = require("submitit", "executor=slurm", "slurm")
        logging.getLogger("submitit").handlers.clear()  # they write to stdout
        self.name = f"attnexp-{os.urandom(4).hex()}"  # cancels jobs that submitit does not know yet
        self.folder = Path(_log_folder(self.name, jobs))
        self.submitter = submitit.SlurmExecutor(self.folder)
        self.submitter.update_parameters(**sbatch_options(config, jobs, self.name))
        self.queued: dict[Future[Outcome], Any] = {}  # submitit's jobs
        self.next_look = 0.0  # at the queue, by the clock of `time.monotonic`
        self.has_failures = False

    def submit(self, jobs: Sequence[Job]) -> Sequence[Future[Outcome]]:
        """Queue jobs. Raises `UserError` where Slurm refuses them. The futures of jobs that Slurm
        ends raise `JobKilled`."""
        try:
            with self.submitter.batch():
                queued = [self.submitter.submit(train_job_in, os.getcwd(), job) for job in jobs]
        except RuntimeError as error:
            message = " ".join(str(error).split())
            raise UserError(f"Slurm refuses these runs: {message}") from error
        count = f"{len(jobs)} submitted to Slurm, from job {queued[0].job_id} on"
        progress.note(f"{count}. Logs: {self.folder}")
        futures = [Future[Outcome]() for _ in jobs]
        self.queued |= zip(futures, queued, strict=True)
        self.next_look = time.monotonic() + 3
        return futures

    def wait(self, running: Sequence[Future[Outcome]]) -> None:
        """Wait a moment, and take what jobs have come to that have ended."""
        time.sleep(0.5)
        names = set(os.listdir(self.folder)) if self.queued else set()
        for future, job in [*self.queued.items()]:
            if job.paths.result_pickle.name in names:
                self._take_result(future)
        if self.queued and time.monotonic() >= self.next_look:
            self._look_at_queue()
            self.next_look = time.monotonic() + SECONDS_BETWEEN_LOOKS

    def _take_result(self, future: Future[Outcome]) -> None:
        job = self.queued.pop(future)
        try:
            outcome = job.result()
        except Exception:  # such as an import that fails on the node
            self._fail(future, RuntimeError(f"Slurm's job {job.job_id} failed: {_end_of_log(job)}"))
            return
        future.set_result(outcome)
        for file in self.folder.glob(f"{job.job_id}_*"):
            file.unlink()

    def _look_at_queue(self) -> None:
        """Ask which jobs wait and why, and take those that Slurm has ended."""
        answer = _ask("squeue", "--noheader", "--array", f"--name={self.name}", "--format=%i|%T|%r")
        if answer is None:
            self.status = "squeue does not answer"
            return
        rows = [line.split("|", 2) for line in answer.splitlines()]
        waiting = [reason for _, state, reason in rows if state == "PENDING"]
        self.status = f"Slurm: {len(rows) - len(waiting)} run"
        if waiting:
            self.status += f", {len(waiting)} wait ({', '.join(Counter(waiting))})"
        listed = {job_id for job_id, _, _ in rows}
        for future, job in [*self.queued.items()]:
            if job.job_id not in listed and not job.paths.result_pickle.exists():
                self._take_end(future)

    def _take_end(self, future: Future[Outcome]) -> None:
        """Say why a job has ended without a result, unless it is back in the queue."""
        job = self.queued[future]
        answer = _ask("scontrol", "--oneliner", "show", "job", job.job_id) or ""
        fields = dict(word.split("=", 1) for word in answer.split() if "=" in word)
        state = fields.get("JobState", "UNKNOWN")  # after minutes Slurm forgets a job
        if state in ("PENDING", "RUNNING", "COMPLETING"):
            return
        del self.queued[future]
        code = fields.get("ExitCode", "unknown")
        message = f"Slurm ended job {job.job_id}: {state}, exit code {code}. {_end_of_log(job)}"
        if state == "TIMEOUT":
            message = f"Slurm's time limit of {fields['TimeLimit']} ended it"
            self._fail(future, TimeLimitReached(message))
        elif state == "CANCELLED":
            self._fail(future, RuntimeError(message))
        else:
            self._fail(future, JobKilled(message))

    def _fail(self, future: Future[Outcome], error: Exception) -> None:
        self.has_failures = True
        future.set_exception(error)

    def close(self) -> None:
        """Cancel the jobs, and delete submitit's files unless a job has failed."""
        subprocess.run(["scancel", f"--name={self.name}"])
        if not self.has_failures:
            shutil.rmtree(self.folder, ignore_errors=True)
            with suppress(OSError):  # other sweeps have folders there
                self.folder.parent.rmdir()


def _end_of_log(job: Any) -> str:
    """The last lines that a job wrote to stderr, and the file."""
    try:
        lines = job.paths.stderr.read_text(errors="replace").splitlines()
    except OSError:
        return f"It left no log at {job.paths.stderr}"
    last = [line.strip() for line in lines if line.strip()][-3:]
    return f"Its log ends: {' | '.join(last)} ({job.paths.stderr})"
