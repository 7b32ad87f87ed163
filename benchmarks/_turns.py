"""How a measuring process and its workers talk: `go` down stdin, seconds up stdout.

A worker starts once and is then asked for turns, so imports and compilation are never measured, and
while one works the others wait. Needs the standard library alone, for workers in another Python.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Self


def wait() -> None:
    """In a worker: until the next turn; leaves the process when there is none."""
    if not sys.stdin.readline():
        raise SystemExit


def report(**seconds: float) -> None:
    """In a worker: how long each part of this turn took."""
    print(json.dumps(seconds), flush=True)


class Worker:
    """A worker, seen from the measuring process: call it for a turn."""

    def __init__(self, command: Sequence[str]) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()  # closes its stdin, at which it leaves

    def __call__(self) -> dict[str, float]:
        """One turn: seconds by part."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"A worker broke off: {self.process.args!r}")
        seconds: dict[str, float] = json.loads(line)
        return seconds
