"""One run of a sweep, done wherever an executor puts it, and what all executors can do."""

from dataclasses import dataclass
from typing import Protocol

from attnexp.base.errors import Busy, RunFailed, UserError
from attnexp.runs.result import Run
from attnexp.sweeps.plan import Job


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that came to nothing."""

    job: Job
    reason: str


class Elsewhere:
    """A run that another sweep is doing, or has just done."""


Outcome = Run | Failure | Elsewhere


class Executor(Protocol):
    """Starts jobs and hands over what became of them."""

    slots: int
    """Runs at a time."""

    def start(self, jobs: list[Job]) -> None:
        """Begin these, no more than there are free slots. SIGINT is blocked meanwhile."""

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        """What has ended, after at most about this long."""

    def close(self) -> None:
        """Stop whatever still runs, and give everything back."""


def do(job: Job) -> Outcome:
    """Train, and turn whatever happens into an outcome: one run must not end a sweep."""
    from attnexp.training.run import open_run, prepare, train

    try:
        with open_run(prepare(job.config), overrides=job.overrides, planned=job.identity) as run:
            result = train(run)
    except Busy:
        return Elsewhere()
    except (UserError, RunFailed) as error:
        return Failure(job, str(error))
    except Exception as error:  # a full disk, a lack of memory, a mistake of ours: see run.log
        return Failure(job, f"{type(error).__name__}: {error}")
    return Run(path=run.path, result=result)
