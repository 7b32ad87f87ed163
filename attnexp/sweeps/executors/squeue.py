"""States of Slurm jobs from `squeue`. (`sacct` needs accounting, which many clusters lack.)"""

import math
import os
import re
import subprocess
import time
from collections import Counter
from collections.abc import Collection

from attnexp.base import progress
from attnexp.base.errors import UserError

NAME = "attnexp"
"""Name of every job."""
SECONDS_BETWEEN_LOOKS = 5.0
SECONDS_FOR_FILES = 15.0
"""Maximum delay of a job's files on this machine after its end is reported."""

GONE = "is no longer in the queue"
ENDED = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
     "PREEMPTED", "REVOKED", "TIMEOUT", GONE}
)  # fmt: skip
NEVER = re.compile(
    r"AccountNotAllowed|BadConstraints|Invalid(Account|QOS)|PartitionTimeLimit"
    r"|QOSNotAllowed|QOSMin\w+|(Assoc|QOS)Max\w+Per(Job|Node)\w*"
)
"""Pending reasons that lie in the request itself. Others clear when jobs end or nodes return, as do
the limits of a group or a user (https://slurm.schedmd.com/job_reason_codes.html)."""


class Squeue:
    """Calls `squeue` every few seconds and tells the user why jobs wait."""

    def __init__(self) -> None:
        self.looked = -math.inf
        self.ended: dict[str, tuple[float, str]] = {}
        self.told: set[str] = set()

    def lost(self, job_ids: Collection[str], asked: str) -> dict[str, str]:
        """Jobs among these that ended without a result; state keyed by id.

        asked: description of each job's request. Raises `UserError` if Slurm will never start one.
        """
        now = time.monotonic()
        if now - self.looked >= SECONDS_BETWEEN_LOOKS:
            self.looked = now
            self._look(job_ids, now, asked)
        return {
            job_id: state
            for job_id, (since, state) in self.ended.items()
            if now - since >= SECONDS_FOR_FILES
        }

    def _look(self, job_ids: Collection[str], now: float, asked: str) -> None:
        done = subprocess.run(
            ["squeue", "--noheader", "--array", "--states=all", f"--user={os.getuid()}",
             f"--name={NAME}", "--format=%i|%T|%r"],
            capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode != 0:  # the controller may return
            self._tell(f"squeue does not answer: {' '.join(done.stderr.split())}. Retrying")
            return
        rows = [line.split("|", 2) for line in done.stdout.splitlines()]
        listed = {job_id: (state, reason) for job_id, state, reason in rows}
        found = {job_id: listed.get(job_id, (GONE, "")) for job_id in job_ids}
        self.ended = {
            job_id: (self.ended.get(job_id, (now, state))[0], state)
            for job_id, (state, _) in found.items()
            if state in ENDED  # requeued jobs drop out
        }
        waiting = Counter(reason for state, reason in found.values() if state == "PENDING")
        for reason, count in waiting.items():
            if NEVER.fullmatch(reason):
                raise UserError(
                    f"Slurm will never start {count} of these runs: PENDING, {reason}. Each asks "
                    f"for {asked}. Ask for what `scontrol show partition` and your account allow."
                )
            if reason != "None":
                self._tell(f"{count} of {len(found)} runs are PENDING: {reason}")

    def _tell(self, line: str) -> None:
        """Print a line once for each reason, since the counts change all the time."""
        reason = line.rpartition(": ")[2]
        if reason not in self.told:
            self.told.add(reason)
            progress.note(f"Slurm: {line}.")
