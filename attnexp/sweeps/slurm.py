"""Executor on a Slurm cluster, by submitit and by `squeue`, which needs no accounting."""

import os
import shutil
import subprocess
import time
from collections import Counter
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from attnexp.base import progress
from attnexp.base.errors import UserError, on_one_line, require
from attnexp.config.schema import Device, ExecutorConfig
from attnexp.config.settings import Tree
from attnexp.runs.store import RUNS
from attnexp.sweeps.executor import Executor, Futures, JobKilled, Outcome, num_threads, train_job
from attnexp.sweeps.plan import Jobs

SECONDS_BETWEEN_QUERIES = 12  # of the queue
UNKNOWN = "UNKNOWN"  # state of a job that Slurm has forgotten, minutes after its end
FAILED = """BOOT_FAIL CANCELLED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED TIMEOUT
UNKNOWN""".split()
"""States of jobs that come to nothing more; the result of a COMPLETED one may yet appear."""


def sbatch_options(config: ExecutorConfig, jobs: Jobs) -> Tree:
    """What is asked of `sbatch` for each run: the user's options win, null takes one away."""
    # Slurm refuses a job that asks for a GPU where it has none, so device=auto asks for none.
    wants_gpu = any(job.config.train.device is Device.cuda for job in jobs)
    options: Tree = {
        "time": 120,
        "cpus_per_task": num_threads(jobs),
        "mem": "8GB",
        "gpus_per_node": 1 if wants_gpu else None,
        "signal": "URG@10",  # Jobs ignore SIGURG; at its own signal submitit would requeue them.
    }
    options |= {option.replace("-", "_"): value for option, value in config.slurm.items()}
    return {option: value for option, value in options.items() if value is not None}


class SlurmQueue(Executor):
    """Executor with one queued job for each run; jobs that start together are one array."""

    def __init__(self, config: ExecutorConfig, jobs: Jobs) -> None:
        super().__init__(config, jobs)
        submitit = require("submitit", "executor=slurm", "slurm")
        self.name = f"attnexp-{os.urandom(4).hex()}"  # cancels jobs that submitit does not know yet
        self.folder = Path(jobs[0].config.out, RUNS, ".jobs", self.name).absolute()
        options = sbatch_options(config, jobs)
        setup = options.pop("setup", [])
        self.submitter = submitit.SlurmExecutor(self.folder)
        self.submitter.update_parameters(
            array_parallelism=self.slots,
            setup=[setup] if isinstance(setup, str) else setup,
            additional_parameters=options | {"job_name": self.name},
        )
        self.slurm_jobs: dict[Future[Outcome], Any] = {}  # submitit's jobs that have not ended
        self.states: dict[str, str] = {}  # of jobs in the queue, by id
        self.next_query = time.monotonic() + 3  # Slurm knows by then why jobs wait.
        self.has_lost_jobs = False

    def submit(self, jobs: Jobs) -> Futures:
        """Queue jobs. Raises `UserError` where Slurm refuses."""
        send = self.submitter.submit
        try:
            with self.submitter.batch():
                slurm_jobs = [send(train_job, job, os.getcwd()) for job in jobs]
        except RuntimeError as error:
            raise UserError(f"Slurm refuses these runs: {on_one_line(error)}") from error
        first = slurm_jobs[0].job_id
        progress.note(f"{len(jobs)} submitted to Slurm, from job {first} on. Logs: {self.folder}")
        futures = [Future[Outcome]() for _ in jobs]
        self.slurm_jobs |= zip(futures, slurm_jobs, strict=True)
        return futures

    def wait(self, running: Futures) -> None:
        """Wait a moment, then give the futures of ended jobs their outcomes."""
        time.sleep(0.5)
        if time.monotonic() >= self.next_query:
            self.next_query = time.monotonic() + SECONDS_BETWEEN_QUERIES
            self._query_states()
        # The folder is listed as a whole, since a question for each file is slow on a shared disk.
        files = set(os.listdir(self.folder)) if self.slurm_jobs else set()
        for future, slurm_job in list(self.slurm_jobs.items()):
            if slurm_job.paths.result_pickle.name in files:
                _take_result(future, slurm_job)
            elif (state := self.states.get(slurm_job.job_id, "")) in FAILED:
                # What Slurm has killed is sent again; what somebody has cancelled is not.
                kind = RuntimeError if state == "CANCELLED" else JobKilled
                future.set_exception(kind(_describe_end(slurm_job, state)))
            if future.done():
                del self.slurm_jobs[future]
                self.has_lost_jobs |= future.exception() is not None

    def _query_states(self) -> None:
        """Ask for the states of the jobs in the queue; `status` then says how many wait and why."""
        columns = "JobArrayID:|,State:|,Reason:"  # each with what is printed behind it
        options = f"--noheader --array --states=all --Format={columns} --name={self.name}"
        query = subprocess.run(["squeue", *options.split()], capture_output=True, text=True)
        if query.returncode != 0:
            self.status = "squeue does not answer"
            return
        states = {job.job_id: UNKNOWN for job in self.slurm_jobs.values()}
        reasons: dict[str, None] = {}  # why jobs wait
        for line in query.stdout.splitlines():
            job_id, state, reason = line.split("|")
            states[job_id] = state
            if state == "PENDING":
                reasons[reason] = None
        self.states = states
        counts = Counter(states.values())
        self.status = f"Slurm: {counts['RUNNING']} run"
        if reasons:
            self.status += f", {counts['PENDING']} wait ({', '.join(reasons)})"

    def close(self) -> None:
        """Cancel the jobs, and delete submitit's files unless a job ended without outcome."""
        cancel = ["scancel", f"--name={self.name}"]
        if subprocess.run(cancel).returncode != 0:
            progress.note(f"Jobs may still be in Slurm's queue. Remove them: {' '.join(cancel)}")
        if not self.has_lost_jobs:
            shutil.rmtree(self.folder, ignore_errors=True)


def _take_result(future: Future[Outcome], job: Any) -> None:
    """Give a future the job's result, or the error that it wrote, such as a failed import."""
    try:
        future.set_result(job.result())
    except Exception:  # The job's own, whatever it is; its log has the traceback.
        future.set_exception(RuntimeError(_describe_end(job, "FAILED")))


def _describe_end(job: Any, state: str) -> str:
    return f"Slurm's job {job.job_id} ended: {state}. Its log: {job.paths.stderr}"
