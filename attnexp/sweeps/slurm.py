"""Executor on a Slurm cluster: a queued job for each run, sent by submitit.

What became of a job is asked of `squeue` and `scontrol`, which need no accounting.
"""

import logging
import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from attnexp.base import progress
from attnexp.base.errors import UserError, require
from attnexp.config.schema import ExecutorConfig
from attnexp.runs.store import RUNS
from attnexp.sweeps import executors
from attnexp.sweeps.executors import Executor, Futures, JobKilled, Outcome, TimeLimitReached
from attnexp.sweeps.plan import Job

SECONDS_BETWEEN_LOOKS = 12  # at the queue
DEFAULT_MINUTES = 120
REPLACED_BY = {
    "mem": ("mem_per_cpu", "mem_per_gpu"),
    "gpus_per_node": ("gpus", "gpus_per_task", "gpus_per_socket", "gres"),
}
"""Options that are asked for by default, each with those that Slurm takes in its place."""


def sbatch_options(config: ExecutorConfig, jobs: Sequence[Job], job_name: str) -> dict[str, Any]:
    """What is asked for each run, as submitit takes it: the user's options win, null for none."""
    slurm = require("submitit.slurm.slurm", "executor=slurm", "slurm")
    chosen = {option.replace("-", "_"): value for option, value in config.slurm.items()}
    if isinstance(chosen.get("setup"), str):
        chosen["setup"] = [chosen["setup"]]
    minutes, has_gpus = _ask_partition(chosen.get("partition"))
    options = {
        "time": min(DEFAULT_MINUTES, minutes),
        "cpus_per_task": executors.num_threads(jobs),
        "mem": "8GB",
        "gpus_per_node": 1 if executors.want_gpu(jobs) and has_gpus else None,
        "array_parallelism": executors.num_slots(config, jobs),
    }
    for option, alternatives in REPLACED_BY.items():
        if not chosen.keys().isdisjoint(alternatives):
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
    """Minutes that a partition gives, or the default one, and whether it has GPUs, if told."""
    words = [f"--partition={partition}"] if partition else []
    answer = _ask("sinfo", "--noheader", "--format=%P|%l|%G", *words) or ""
    rows = [line.split("|") for line in answer.splitlines() if partition or "*|" in line]
    minutes = float("inf")
    has_gpus = not rows
    for _, limit, generic in rows:
        minutes = min(minutes, _minutes(limit))
        has_gpus = has_gpus or "gpu" in generic
    return minutes, has_gpus


def _minutes(limit: str) -> float:
    """Minutes of a time as `sinfo` prints it: `30:00`, `3:00:00`, `1-00:00:00`, `infinite`."""
    clock = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):\d+", limit)
    if clock is None:
        return float("inf")
    days, hours, minutes = (int(part or 0) for part in clock.groups())
    return 60 * (24 * days + hours) + minutes


def _ask(*words: str) -> str | None:
    """What a command of Slurm answers; None if it fails."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def _log_folder(name: str, jobs: Sequence[Job]) -> Path:
    """Folder of the files that submitit writes for a sweep, the jobs' logs among them."""
    return Path(jobs[0].config.out, RUNS, ".jobs", name).absolute()


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
        super().__init__(executors.num_slots(config, jobs))
        submitit = require("submitit", "executor=slurm", "slurm")
        logging.getLogger("submitit").handlers.clear()  # they write to stdout
        self.name = f"attnexp-{os.urandom(4).hex()}"  # cancels jobs that submitit does not know yet
        self.folder = _log_folder(self.name, jobs)
        self.submitter = submitit.SlurmExecutor(self.folder)
        self.submitter.update_parameters(**sbatch_options(config, jobs, self.name))
        self.queued: dict[Future[Outcome], Any] = {}  # submitit's jobs
        self.next_look = 0.0  # at the queue, by the clock of `time.monotonic`
        self.has_failures = False

    def submit(self, jobs: Sequence[Job]) -> Futures:
        """Queue jobs; a future raises `JobKilled` if Slurm ends its job. Raises `UserError` where
        Slurm refuses them."""
        try:
            with self.submitter.batch():
                queued = [
                    self.submitter.submit(executors.train_job_in, os.getcwd(), job) for job in jobs
                ]
        except RuntimeError as error:
            raise UserError(f"Slurm refuses these runs: {' '.join(str(error).split())}") from error
        first = queued[0].job_id
        progress.note(f"{len(jobs)} submitted to Slurm, from job {first} on. Logs: {self.folder}")
        futures = [Future[Outcome]() for _ in jobs]
        self.queued |= zip(futures, queued, strict=True)
        self.next_look = time.monotonic() + 3
        return futures

    def wait(self, running: Futures) -> None:
        """Wait a moment, and take what jobs have come to that have ended."""
        time.sleep(0.5)
        names = set(os.listdir(self.folder)) if self.queued else set()
        for future, job in [*self.queued.items()]:
            if job.paths.result_pickle.name in names:
                self._take_result(future, job)
        if self.queued and time.monotonic() >= self.next_look:
            self._look_at_queue()
            self.next_look = time.monotonic() + SECONDS_BETWEEN_LOOKS

    def _take_result(self, future: Future[Outcome], job: Any) -> None:
        try:
            outcome = job.result()
        except Exception:  # such as an import that fails on the node
            self._fail(future, RuntimeError(f"Slurm's job {job.job_id} failed: {_end_of_log(job)}"))
            return
        del self.queued[future]
        future.set_result(outcome)
        for file in self.folder.glob(f"{job.job_id}_*"):
            file.unlink()

    def _fail(self, future: Future[Outcome], error: Exception) -> None:
        del self.queued[future]
        self.has_failures = True
        future.set_exception(error)

    def _look_at_queue(self) -> None:
        """Ask which jobs wait and why, and take those that Slurm has ended."""
        answer = _ask("squeue", "--noheader", "--array", f"--name={self.name}", "--format=%i|%T|%r")
        if answer is None:
            self.status = "squeue does not answer"
            return
        waiting: list[str] = []
        listed: set[str] = set()
        for line in answer.splitlines():
            job_id, state, reason = line.split("|", 2)
            listed.add(job_id)
            if state == "PENDING":
                waiting.append(reason)
        self.status = f"Slurm: {len(listed) - len(waiting)} run"
        if waiting:
            self.status += f", {len(waiting)} wait ({', '.join(dict.fromkeys(waiting))})"
        for future, job in [*self.queued.items()]:
            if job.job_id not in listed and not job.paths.result_pickle.exists():
                error = _reason_of_end(job)
                if error is not None:
                    self._fail(future, error)

    def close(self) -> None:
        """Cancel the jobs, and delete submitit's files unless a job has failed."""
        subprocess.run(["scancel", f"--name={self.name}"])
        if not self.has_failures:
            shutil.rmtree(self.folder, ignore_errors=True)
            with suppress(OSError):  # other sweeps have folders there
                self.folder.parent.rmdir()


def _reason_of_end(job: Any) -> Exception | None:
    """Why a job has ended without a result; None for one that is back in the queue."""
    answer = _ask("scontrol", "--oneliner", "show", "job", job.job_id) or ""
    fields = dict(word.split("=", 1) for word in answer.split() if "=" in word)
    state = fields.get("JobState", "UNKNOWN")  # after minutes Slurm forgets a job
    if state in ("PENDING", "RUNNING", "COMPLETING"):
        return None
    if state == "TIMEOUT":
        return TimeLimitReached(f"Slurm's time limit of {fields['TimeLimit']} ended it")
    code = fields.get("ExitCode", "unknown")
    kind = RuntimeError if state == "CANCELLED" else JobKilled
    return kind(f"Slurm ended job {job.job_id}: {state}, exit code {code}. {_end_of_log(job)}")


def _end_of_log(job: Any) -> str:
    """The last lines that a job wrote to stderr, and the file."""
    try:
        lines = job.paths.stderr.read_text(errors="replace").splitlines()
    except OSError:
        return f"It left no log at {job.paths.stderr}"
    last = [line.strip() for line in lines if line.strip()][-3:]
    return f"Its log ends: {' | '.join(last)} ({job.paths.stderr})"
