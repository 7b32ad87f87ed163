"""One run of a sweep as executors do it, and the interface of executors."""

from dataclasses import dataclass
from typing import Protocol

from attnexp.base.errors import Busy, RunFailed, UserError
from attnexp.runs.result import Run
from attnexp.sweeps.plan import Job


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that failed."""

    job: Job
    reason: str


class Elsewhere:
    """A run that another sweep is doing or has just finished."""


Outcome = Run | Failure | Elsewhere


class Executor(Protocol):
    """Interface: starts jobs and returns their outcomes."""

    slots: int
    """Maximum number of runs at a time."""

    def start(self, jobs: list[Job]) -> None:
        """Start jobs, at most as many as there are free slots. SIGINT is blocked meanwhile."""

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        """Outcomes of jobs that have ended, after at most about `seconds`."""

    def close(self) -> None:
        """Stop running jobs and release all resources."""


def do(job: Job) -> Outcome:
    """Train; an error becomes a `Failure`, so that one run does not end the sweep."""
    from attnexp.training.run import open_run, prepare, train

    try:
        with open_run(prepare(job.config), overrides=job.overrides, planned=job.identity) as run:
            result = train(run)
    except Busy:
        return Elsewhere()
    except (UserError, RunFailed) as error:
        return Failure(job, str(error))
    except Exception as error:  # such as a full disk or a bug; run.log has the traceback
        return Failure(job, f"{type(error).__name__}: {error}")
    return Run(path=run.path, result=result)
