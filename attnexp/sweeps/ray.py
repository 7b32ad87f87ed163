"""Executor on a Ray cluster, the one at `$RAY_ADDRESS` or one that is started here."""

import logging
import os
import signal
import socket
import time
from collections.abc import Sequence

from attnexp.base.errors import RunFailed, require
from attnexp.config.schema import ExecutorConfig
from attnexp.sweeps import executors
from attnexp.sweeps.executors import Executor, Futures
from attnexp.sweeps.plan import Job

PATIENCE = 30  # seconds without an answer of the head; Ray itself waits for minutes, and exits


class RayTasks(Executor):
    """Executor with one Ray task for each run. Ray repeats once a task whose process is killed."""

    def __init__(self, config: ExecutorConfig, jobs: Sequence[Job]) -> None:
        super().__init__(config, jobs)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Nothing is reported to anybody.
        self.ray = require("ray", "executor=ray", "ray")
        self.address = os.environ.get("RAY_ADDRESS", "").removeprefix("ray://")
        self.last_answer = time.monotonic()
        while ":" in self.address and not self._head_answers():
            time.sleep(1)
        on_sigterm = signal.getsignal(signal.SIGTERM)
        self.ray.init(log_to_driver=False, logging_level=logging.ERROR)
        signal.signal(signal.SIGTERM, on_sigterm)  # Ray's own prints addresses and exits with 15.
        if ":" not in self.address:
            self.address = self.ray.get_runtime_context().gcs_address
        has_gpus = executors.want_gpu(jobs) and self.ray.cluster_resources().get("GPU")
        task = self.ray.remote(
            num_cpus=executors.num_threads(jobs),
            num_gpus=config.gpu if has_gpus else 0,
            max_retries=1,
            max_calls=1,  # A process does one job.
        )
        self.task = task(executors.train_job)

    def submit(self, jobs: Sequence[Job]) -> Futures:
        """Start a task for each job."""
        return [self.task.remote(job, os.getcwd()).future() for job in jobs]

    def wait(self, running: Futures) -> None:
        """Wait as every executor does. Raises `RunFailed` if Ray's head is gone."""
        super().wait(running)
        if time.monotonic() > self.last_answer + 5:
            self._head_answers()

    def _head_answers(self) -> bool:
        """Whether Ray's head takes a connection. Raises `RunFailed` if it has not for long."""
        host, _, port = self.address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
        except (OSError, ValueError) as error:
            if time.monotonic() < self.last_answer + PATIENCE:
                return False
            raise RunFailed(
                f"No Ray head answers at {self.address} ({error}). Start one, or unset "
                "RAY_ADDRESS; then run the same command again."
            ) from error
        self.last_answer = time.monotonic()
        return True

    def close(self) -> None:
        """End running tasks, and a cluster that was started here."""
        self.ray.shutdown()
