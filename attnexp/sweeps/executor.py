"""What all executors share: the interface, and how a job is trained, wherever it runs."""

import os
import time
from collections.abc import Sequence
from concurrent import futures

import torch

from attnexp.base.errors import Busy, RunFailed, UserError
from attnexp.config.schema import Device, ExecutorConfig, ExecutorKind
from attnexp.runs.result import Run
from attnexp.sweeps.plan import Job, Jobs
from attnexp.training.run import train_run

Outcome = Run | str  # a finished run, or the reason why it failed
Futures = Sequence[futures.Future[Outcome]]


class JobKilled(RuntimeError):
    """A job was ended before it had an outcome, say by a time limit; the message says how."""


class Executor:
    """Trains jobs, `slots` at a time. Futures may end only in `wait`, so call it until all have."""

    def __init__(self, config: ExecutorConfig, jobs: Jobs) -> None:
        self.slots = num_slots(config, jobs)
        self.status = ""  # what jobs wait for, to be shown

    def submit(self, jobs: Jobs) -> Futures:
        """Start jobs, as many as slots are free at most. Their futures may raise `JobKilled`."""
        raise NotImplementedError

    def wait(self, running: Futures) -> None:
        """Wait until a job ends, or for half a second. running: all that have not ended."""
        if running:
            futures.wait(running, timeout=0.5, return_when=futures.FIRST_COMPLETED)
        else:
            time.sleep(0.5)

    def close(self) -> None:
        """Stop what runs; it resumes when the sweep is repeated."""


def train_job(job: Job, folder: str = ".") -> Outcome:
    """Train, or wait for another sweep that does so; an error becomes the reason of a failure.
    folder: where the sweep runs, for another machine, since `out` may be relative."""
    os.chdir(folder)
    torch.set_num_threads(1)  # for runs that do not set train.threads
    while True:
        try:
            path, result = train_run(job.config)
            return Run(path=path, result=result, variant=job.label)
        except Busy:
            time.sleep(1)
        except (UserError, RunFailed) as error:
            return str(error)
        except Exception as error:  # A full disk or a bug; run.log has the traceback.
            return f"{type(error).__name__}: {error}"


def num_slots(config: ExecutorConfig, jobs: Jobs) -> int:
    """Runs at a time: `executor.workers`; else on a cluster all, here as cores or GPUs allow."""
    num_gpus = torch.cuda.device_count() if want_gpu(jobs) else 0
    if config.workers is not None:
        fitting = config.workers
    elif config.kind is not ExecutorKind.local:
        fitting = len(jobs)
    elif num_gpus:
        fitting = num_gpus * int(1 / config.gpu)
    else:
        num_cores = os.cpu_count() or 1
        if hasattr(os, "sched_getaffinity"):  # Linux may leave this process fewer.
            num_cores = len(os.sched_getaffinity(0))
        fitting = num_cores // num_threads(jobs)
    return max(1, min(fitting, len(jobs)))


def num_threads(jobs: Jobs) -> int:
    """CPU threads of the job that wants most."""
    return max((job.config.train.threads or 1 for job in jobs), default=1)


def want_gpu(jobs: Jobs) -> bool:
    """Whether any job takes a GPU where there is one."""
    return any(job.config.train.device is not Device.cpu for job in jobs)
