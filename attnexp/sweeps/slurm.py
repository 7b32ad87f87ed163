"""Executor on a Slurm cluster: a queued job for each run, sent by submitit.

What became of a job is asked of `squeue`, which needs no accounting.
"""

import logging
import os
import re
import shutil
import subprocess
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import redirect_stderr, suppress
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

from attnexp.base import progress
from attnexp.base.errors import UserError, on_one_line, require
from attnexp.config.schema import ExecutorConfig
from attnexp.runs.store import RUNS
from attnexp.sweeps import executors
from attnexp.sweeps.executors import Executor, Futures, JobKilled, Outcome, TimeLimitReached
from attnexp.sweeps.plan import Job

SECONDS_BETWEEN_LOOKS = 12  # at the queue
DEFAULT_MINUTES = 120
LESS_THAN_DEFAULT = r"(0?1:)?\d+:\d+"  # a time as `sinfo` prints it: hours, minutes, seconds
REPLACED_BY = {
    "mem": {"mem_per_cpu", "mem_per_gpu"},
    "gpus_per_node": {"gpus", "gpus_per_task", "gpus_per_socket", "gres"},
}
"""Options that are asked for by default, each with those that Slurm takes in its place."""
UNKNOWN = ["UNKNOWN", "", "0", ""]  # fields of a job that Slurm has forgotten, after minutes
FAILED = ("BOOT_FAIL", "CANCELLED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED",
          "TIMEOUT", "UNKNOWN")  # fmt: skip
"""States of jobs that come to nothing more."""


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
    passed_on: dict[str, Any] = {}  # what submitit has no parameter for
    for option in sorted(options.keys() - parameters.keys()):
        value = options.pop(option)
        if value is not None:
            passed_on[option] = value
    options["additional_parameters"] = passed_on
    return options


def _ask_partition(partition: str | None) -> tuple[str | int, bool]:
    """Time that a run gets in a partition, or the default one, and whether it has GPUs, if told."""
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
    """One queued job for each run; jobs that start together are one array."""

    def __init__(self, config: ExecutorConfig, jobs: Sequence[Job]) -> None:
        super().__init__(config, jobs)
        submitit = require("submitit", "executor=slurm", "slurm")
        logging.getLogger("submitit").handlers.clear()  # they write to stdout
        self.name = f"attnexp-{os.urandom(4).hex()}"  # cancels jobs that submitit does not know yet
        self.folder = _log_folder(self.name, jobs)
        options = sbatch_options(config, jobs, self.name)
        self.submitter = submitit.SlurmExecutor(self.folder)
        self.submitter.update_parameters(**options)
        self.queued: dict[Future[Outcome], Any] = {}  # submitit's jobs
        self.completed: set[str] = set()  # ids of jobs that were so at the last look
        self.next_look = 0.0  # at the queue, by the clock of `time.monotonic`
        self.has_failures = False

    def submit(self, jobs: Sequence[Job]) -> Futures:
        """Queue jobs; a future may raise `JobKilled`. Raises `UserError` where Slurm refuses."""
        submit = partial(self.submitter.submit, executors.train_job, folder=os.getcwd())
        try:
            with redirect_stderr(StringIO()), self.submitter.batch():  # which prints it, too
                queued = [submit(job) for job in jobs]
        except RuntimeError as error:
            raise UserError(f"Slurm refuses these runs: {on_one_line(error)}") from error
        first = queued[0].job_id
        progress.note(f"{len(jobs)} submitted to Slurm, from job {first} on. Logs: {self.folder}")
        futures = [Future[Outcome]() for _ in jobs]
        self.queued |= zip(futures, queued, strict=True)
        self.next_look = time.monotonic() + 3
        return futures

    def wait(self, running: Futures) -> None:
        """Wait a moment, and take what jobs have come to that have ended."""
        time.sleep(0.5)
        ended = self._look_at_queue() if time.monotonic() >= self.next_look else {}
        # listed as a whole: on a shared disk a question for each file would be slow
        files = set(os.listdir(self.folder)) if self.queued else set()
        for future, job in [*self.queued.items()]:
            if job.paths.result_pickle.name in files:
                try:
                    future.set_result(job.result())
                except Exception:  # such as an import that fails on the node
                    reason = f"Slurm's job {job.job_id} failed: {_end_of_log(job)}"
                    future.set_exception(RuntimeError(reason))
                else:
                    for file in self.folder.glob(f"{job.job_id}_*"):
                        file.unlink()
            elif job.job_id in ended:
                future.set_exception(_reason_of_end(job, *ended[job.job_id]))
            else:
                continue
            del self.queued[future]
            self.has_failures |= future.exception() is not None

    def _look_at_queue(self) -> dict[str, list[str]]:
        """Fields of the jobs that Slurm has ended, by id; the status says which wait and why."""
        self.next_look = time.monotonic() + SECONDS_BETWEEN_LOOKS
        columns = "JobArrayID:|,State:|,TimeLimit:|,exit_code:|,Reason:"
        options = f"--noheader --array --states=all --Format={columns} --name={self.name}"
        answer = _ask("squeue", *options.split())
        if answer is None:
            self.status = "squeue does not answer"
            return {}
        rows = {job.job_id: UNKNOWN for job in self.queued.values()}
        for line in answer.splitlines():
            job_id, *fields = line.split("|")
            rows[job_id] = fields
        ids = defaultdict[str, list[str]](list)  # by state
        for job_id, fields in rows.items():
            state = fields[0]
            ids[state].append(job_id)
        self.status = f"Slurm: {len(ids['RUNNING'])} run"
        pending = ids["PENDING"]
        if pending:
            reasons = dict.fromkeys(rows[job_id][3] for job_id in pending)
            self.status += f", {len(pending)} wait ({', '.join(reasons)})"
        # On a shared disk a result may come after its job's end, but hardly by a whole look.
        completed = set(ids["COMPLETED"])
        ended = completed & self.completed
        self.completed = completed
        for state in FAILED:
            ended.update(ids[state])
        return {job_id: rows[job_id] for job_id in ended}

    def close(self) -> None:
        """Cancel the jobs, and delete submitit's files unless a job has failed."""
        cancel = ["scancel", f"--name={self.name}"]
        if subprocess.run(cancel).returncode != 0:
            progress.note(f"Jobs may still be in Slurm's queue. Remove them: {' '.join(cancel)}")
        if not self.has_failures:
            shutil.rmtree(self.folder, ignore_errors=True)
            with suppress(OSError):  # other sweeps have folders there
                self.folder.parent.rmdir()


def _reason_of_end(job: Any, state: str, limit: str, status: str, _: str) -> RuntimeError:
    """Why a job has ended without a result. status: as `os.wait` gives it."""
    if state == "TIMEOUT":
        return TimeLimitReached(f"Slurm's time limit of {limit} ended it")
    if state == "COMPLETED":  # such as where the disk is full
        state += " without a result"
    code = os.waitstatus_to_exitcode(int(status))
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
