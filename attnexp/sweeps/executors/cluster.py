"""Executor on a Ray cluster, an existing one or one started on this machine."""

import logging
import os
import signal
import socket
from typing import Any

from attnexp.base.errors import UserError, require
from attnexp.config.schema import ExecutorConfig
from attnexp.sweeps.executors.task import Failure, Outcome, do
from attnexp.sweeps.plan import Job


class Cluster:
    """Executor with one Ray task for each run."""

    def __init__(self, config: ExecutorConfig, *, gpu: bool) -> None:
        """gpu: whether runs take the share `config.gpu` of a GPU if the cluster has any. Raises
        `UserError` without Ray, or if no cluster answers."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage reports
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # no warning of a change
        self.ray = ray = require("ray", "executor=ray", "ray")
        address = config.address or os.environ.get("RAY_ADDRESS")
        options: dict[str, Any] = {} if address else {"include_dashboard": False}
        on_sigterm = signal.getsignal(signal.SIGTERM)
        try:
            host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
            if colon and port.isdigit():  # at once where nobody listens: Ray tries for minutes
                socket.create_connection((host, int(port)), timeout=5).close()
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **options)
        except Exception as error:  # Ray raises bare ones too
            reason = str(error).splitlines()[0]
            if address:
                raise UserError(
                    f"No Ray cluster answers at {address} ({reason}). Start one with `ray start "
                    f"--head`, or leave executor.address out to use this machine alone. One that "
                    f"wants a token (see ~/.ray/auth_token) needs RAY_AUTH_MODE=token here too."
                ) from error
            raise UserError(
                f"Ray does not start here ({reason}). Its logs are under /tmp/ray/session_latest; "
                f"executor=local needs no Ray."
            ) from error
        signal.signal(signal.SIGTERM, on_sigterm)  # Ray's own prints addresses and exits with 15
        there = self.ray.cluster_resources()
        gpus = config.gpu if gpu and there.get("GPU", 0) else 0
        fitting = int(there.get("CPU", 1) // config.threads)
        if gpus:
            fitting = min(fitting, int(there["GPU"] // gpus))
        self.slots = config.workers or max(fitting, 1)
        self.task = self.ray.remote(num_cpus=config.threads, num_gpus=gpus, max_retries=0)(do)
        self.running: dict[Any, Job] = {}

    def start(self, jobs: list[Job]) -> None:
        """Submit the jobs to Ray."""
        for job in jobs:
            self.running[self.task.remote(job)] = job

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        """Outcomes of tasks that are ready."""
        ready, _ = self.ray.wait(list(self.running), num_returns=1, timeout=seconds)
        ended: list[tuple[Job, Outcome]] = []
        for ref in ready:
            job = self.running.pop(ref)
            try:
                ended.append((job, self.ray.get(ref)))
            except self.ray.exceptions.RayError as error:  # a node or a process that was lost
                ended.append((job, Failure(job, str(error).strip().splitlines()[0])))
        return ended

    def close(self) -> None:
        """Disconnect, which ends running tasks and a cluster that was started here.

        Tasks are not cancelled first: Ray aborts the process if one ends at that moment.
        """
        self.running = {}
        self.ray.shutdown()
