"""Executor on a Ray cluster, the one at `$RAY_ADDRESS` or one that is started here."""

import logging
import os
import signal
from collections.abc import Sequence
from concurrent.futures import Future

from attnexp.base.errors import require
from attnexp.config.schema import ExecutorConfig
from attnexp.sweeps.executors import (
    Executor,
    Outcome,
    num_slots,
    num_threads,
    train_job_in,
    want_gpu,
)
from attnexp.sweeps.plan import Job


class RayTasks(Executor):
    """One Ray task for each run. Ray repeats a task whose process is killed, once."""

    def __init__(self, config: ExecutorConfig, jobs: Sequence[Job]) -> None:
        super().__init__(num_slots(config, jobs))
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage reports
        self.ray = require("ray", "executor=ray", "ray")
        on_sigterm = signal.getsignal(signal.SIGTERM)
        self.ray.init(log_to_driver=False, logging_level=logging.ERROR)
        signal.signal(signal.SIGTERM, on_sigterm)  # Ray's own prints addresses and exits with 15
        has_gpus = bool(self.ray.cluster_resources().get("GPU"))
        resources = {
            "num_cpus": num_threads(jobs),
            "num_gpus": config.gpu if want_gpu(jobs) and has_gpus else 0,
        }
        self.task = self.ray.remote(max_retries=1, **resources)(train_job_in)

    def submit(self, jobs: Sequence[Job]) -> Sequence[Future[Outcome]]:
        """Start a task for each job."""
        return [self.task.remote(os.getcwd(), job).future() for job in jobs]

    def close(self) -> None:
        """End running tasks, and a cluster that was started here."""
        self.ray.shutdown()
