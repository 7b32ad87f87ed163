"""Executor on a Slurm cluster: a queued job for each run, sent by submitit.

What became of a job is asked of `squeue`, which needs no accounting.
"""

import logging
import os
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import redirect_stderr, suppress
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from attnexp.base import progress
from attnexp.base.errors import UserError, on_one_line, require
from attnexp.config.schema import ExecutorConfig
from attnexp.runs.store import RUNS
from attnexp.sweeps import executors
from attnexp.sweeps.executors import Executor, Futures, JobKilled, Outcome, TimeLimitReached
from attnexp.sweeps.plan import Job

SECONDS_BETWEEN_QUERIES = 12  # of the queue
DEFAULT_MINUTES = 120
LESS_THAN_DEFAULT = r"(0?1:)?\d+:\d+"  # a time as `sinfo` prints it: hours, minutes, seconds
REPLACED_BY = {
    "mem": {"mem_per_cpu", "mem_per_gpu"},
    "gpus_per_node": {"gpus", "gpus_per_task", "gpus_per_socket", "gres"},
}
"""Options that are asked for by default, each with those that Slurm takes in its place."""
FAILED = ("BOOT_FAIL", "CANCELLED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED",
          "TIMEOUT", "UNKNOWN")  # fmt: skip
"""States of jobs that come to nothing more."""


class QueuedJob(NamedTuple):
    """What `squeue` says of a job; by default what is known of one that Slurm has forgotten."""

    state: str = "UNKNOWN"
    limit: str = ""  # of its time
    status: str = "0"  # as `os.wait` gives it
    reason: str = ""  # why it waits


def sbatch_options(config: ExecutorConfig, jobs: Sequence[Job], job_name: str) -> dict[str, Any]:
    """What is asked for each run, as submitit takes it: the user's options win, null for none."""
    slurm = require("submitit.slurm.slurm", "executor=slurm", "slurm")
    chosen = {option.replace("-", "_"): value for option, value in config.slurm.items()}
    limit, has_gpus = _ask_partition(chosen.get("partition"))
    gets_gpu = has_gpus and executors.want_gpu(jobs)
    options: dict[str, Any] = {
        "time": limit,
        "cpus_per_task": executors.num_threads(jobs),
        "mem": "8GB",
        "gpus_per_node": 1 if gets_gpu else None,
        "array_parallelism": executors.num_slots(config, jobs),
        # Instead of a signal that lets submitit send the job again: `SlurmQueue` does so, from the
        # checkpoint, once the limit has ended the job.
        "signal": "URG@10",
    }
    for option, alternatives in REPLACED_BY.items():
        if alternatives & chosen.keys():
            del options[option]
    options |= chosen | {"job_name": job_name}
    if isinstance(options.get("setup"), str):
        options["setup"] = [options["setup"]]
    parameters = slurm._get_default_parameters()
    passed_on: dict[str, Any] = {}  # options for which submitit has no parameter
    for option in sorted(options.keys() - parameters.keys()):
        value = options.pop(option)
        if value is not None:
            passed_on[option] = value
    options["additional_parameters"] = passed_on
    return options


def _ask_partition(partition: str | None) -> tuple[str | int, bool]:
    """Time that a run gets in a partition, or the default one, and whether it has GPUs, which is
    assumed where Slurm does not say."""
    words = [f"--partition={partition}"] if partition else []
    answer = _ask("sinfo", "--noheader", "--format=%P|%l|%G", *words)
    time_limit: str | int = DEFAULT_MINUTES
    generic_resources = []
    for line in (answer or "").splitlines():
        name, limit, resources = line.split("|")
        if partition or name.endswith("*"):
            generic_resources.append(resources)
            if re.fullmatch(LESS_THAN_DEFAULT, limit):
                time_limit = limit
    is_unknown = not generic_resources and answer != ""  # "": no such partition
    has_gpus = is_unknown or "gpu" in str(generic_resources)
    return time_limit, has_gpus


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
    script = slurm._make_sbatch_string(command, folder, map_count=len(jobs), **options)
    return str(script)


class SlurmQueue(Executor):
    """Executor with one queued job for each run; jobs that start together are one array."""

    def __init__(self, config: ExecutorConfig, jobs: Sequence[Job]) -> None:
        super().__init__(config, jobs)
        submitit = require("submitit", "executor=slurm", "slurm")
        logging.getLogger("submitit").handlers.clear()  # They write to stdout.
        self.name = f"attnexp-{os.urandom(4).hex()}"  # cancels jobs that submitit does not know yet
        self.folder = _log_folder(self.name, jobs)
        options = sbatch_options(config, jobs, self.name)
        self.submitter = submitit.SlurmExecutor(self.folder)
        self.submitter.update_parameters(**options)
        self.submitted: dict[Future[Outcome], Any] = {}  # submitit's jobs that have not ended
        self.completed: set[str] = set()  # ids of jobs that were so at the last query
        self.next_query = 0.0  # by the clock of `time.monotonic`
        self.has_failures = False

    def submit(self, jobs: Sequence[Job]) -> Futures:
        """Queue jobs; a future may raise `JobKilled`. Raises `UserError` where Slurm refuses."""
        submit = partial(self.submitter.submit, executors.train_job, folder=os.getcwd())
        try:
            with redirect_stderr(StringIO()), self.submitter.batch():  # It prints the error, too.
                submitted = [submit(job) for job in jobs]
        except RuntimeError as error:
            raise UserError(f"Slurm refuses these runs: {on_one_line(error)}") from error
        first = submitted[0].job_id
        progress.note(f"{len(jobs)} submitted to Slurm, from job {first} on. Logs: {self.folder}")
        futures = [Future[Outcome]() for _ in jobs]
        self.submitted |= zip(futures, submitted, strict=True)
        self.next_query = time.monotonic() + 3
        return futures

    def wait(self, running: Futures) -> None:
        """Wait a moment, and take what jobs have come to that have ended."""
        time.sleep(0.5)
        ended: dict[str, QueuedJob] = {}
        if time.monotonic() >= self.next_query:
            self.next_query = time.monotonic() + SECONDS_BETWEEN_QUERIES
            ended = self._find_ended()
        # The folder is listed as a whole, since a question for each file is slow on a shared disk.
        files = set(os.listdir(self.folder)) if self.submitted else set()
        for future, job in list(self.submitted.items()):
            if job.paths.result_pickle.name in files:
                self._take_result(future, job)
            elif job.job_id in ended:
                future.set_exception(_reason_of_end(job, ended[job.job_id]))
            if future.done():
                del self.submitted[future]
                self.has_failures |= future.exception() is not None

    def _take_result(self, future: Future[Outcome], job: Any) -> None:
        """Take the result that a job has written, and delete its files; those of an error stay."""
        try:
            future.set_result(job.result())
        except Exception:  # attnexp cannot be imported on the node, for example.
            reason = f"Slurm's job {job.job_id} failed: {_end_of_log(job)}"
            future.set_exception(RuntimeError(reason))
            return
        for file in self.folder.glob(f"{job.job_id}_*"):
            file.unlink()

    def _find_ended(self) -> dict[str, QueuedJob]:
        """The jobs that Slurm has ended, by id; the status says which wait and why."""
        columns = "JobArrayID:|,State:|,TimeLimit:|,exit_code:|,Reason:"
        options = f"--noheader --array --states=all --Format={columns} --name={self.name}"
        answer = _ask("squeue", *options.split())
        if answer is None:
            self.status = "squeue does not answer"
            return {}
        jobs = {job.job_id: QueuedJob() for job in self.submitted.values()}
        for line in answer.splitlines():
            job_id, *fields = line.split("|")
            jobs[job_id] = QueuedJob(*fields)
        states = Counter(job.state for job in jobs.values())
        self.status = f"Slurm: {states['RUNNING']} run"
        reasons = dict.fromkeys(job.reason for job in jobs.values() if job.state == "PENDING")
        if reasons:
            self.status += f", {states['PENDING']} wait ({', '.join(reasons)})"
        # On a shared disk a result may come after its job's end, but hardly by a whole query.
        completed = {job_id for job_id, job in jobs.items() if job.state == "COMPLETED"}
        without_result = completed & self.completed
        self.completed = completed
        return {
            job_id: job
            for job_id, job in jobs.items()
            if job.state in FAILED or job_id in without_result
        }

    def close(self) -> None:
        """Cancel the jobs, and delete submitit's files unless a job has failed."""
        cancel = ["scancel", f"--name={self.name}"]
        if subprocess.run(cancel).returncode != 0:
            progress.note(f"Jobs may still be in Slurm's queue. Remove them: {' '.join(cancel)}")
        if not self.has_failures:
            shutil.rmtree(self.folder, ignore_errors=True)
            with suppress(OSError):  # Other sweeps have folders there.
                self.folder.parent.rmdir()


def _reason_of_end(job: Any, queued: QueuedJob) -> RuntimeError:
    """Why a job has ended without a result."""
    if queued.state == "TIMEOUT":
        return TimeLimitReached(f"Slurm's time limit of {queued.limit} ended it")
    state = queued.state
    if state == "COMPLETED":
        state += " without a result"
    code = os.waitstatus_to_exitcode(int(queued.status))
    log = _end_of_log(job)
    kind = RuntimeError if state == "CANCELLED" else JobKilled
    return kind(f"Slurm ended job {job.job_id}: {state}, exit code {code}. {log}")


def _end_of_log(job: Any) -> str:
    """The last lines that a job wrote to stderr, and the file."""
    file = job.paths.stderr
    text = file.read_text(errors="replace") if file.exists() else ""
    lines = [line.strip() for line in text.split("\n")]
    last_lines = [line for line in lines if line][-3:]
    if not last_lines:
        return f"It left no log at {file}"
    return f"Its log ends: {' | '.join(last_lines)} ({file})"
