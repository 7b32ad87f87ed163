"""Executor on a Ray cluster, the one at `$RAY_ADDRESS` or one that is started here."""

import logging
import os
import signal

from attnexp.base.errors import require
from attnexp.config.schema import ExecutorConfig
from attnexp.sweeps.executor import Executor, Futures, num_threads, train_job, want_gpu
from attnexp.sweeps.plan import Jobs


class RayTasks(Executor):
    """Executor with one Ray task for each run. Ray repeats once a task whose process is killed."""

    def __init__(self, config: ExecutorConfig, jobs: Jobs) -> None:
        super().__init__(config, jobs)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Nothing is reported to anybody.
        self.ray = require("ray", "executor=ray", "ray")
        on_sigterm = signal.getsignal(signal.SIGTERM)
        self.ray.init(log_to_driver=False, logging_level=logging.ERROR)
        signal.signal(signal.SIGTERM, on_sigterm)  # Ray's own prints addresses and exits with 15.
        has_gpus = want_gpu(jobs) and self.ray.cluster_resources().get("GPU")
        task = self.ray.remote(
            num_cpus=num_threads(jobs),
            num_gpus=config.gpu if has_gpus else 0,
            max_retries=1,
            max_calls=1,  # A process does one job.
        )
        self.task = task(train_job)

    def submit(self, jobs: Jobs) -> Futures:
        """Start a task for each job."""
        return [self.task.remote(job, os.getcwd()).future() for job in jobs]

    def close(self) -> None:
        """End running tasks, and a cluster that was started here."""
        self.ray.shutdown()
