"""Protocol between the benchmark and its workers, which take turns.

A worker process starts once. For each turn it reads the line `go` from stdin and writes a line of
JSON to stdout, so imports and compilation are never measured; while one works, the others wait.
Only the standard library is imported, because some workers run in another environment.
"""

import json
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self, TypedDict


class Answer(TypedDict):
    """Measurements of one turn."""

    seconds: dict[str, float]
    """Seconds by part of the work."""
    figures: dict[str, float]
    """Other columns of the row, such as accuracy."""


class Row(TypedDict):
    """Measurements of all turns of one row."""

    seconds: dict[str, list[float]]
    """Seconds of each round, by part of the work."""
    figures: dict[str, float]
    """Other columns, from the last turn."""


Turn = Callable[[], Answer]
Tables = dict[str, dict[str, Row]]
"""Rows, by title of the table, then by name of the row."""


class Broken(Exception):
    """Raised when a row cannot be measured, with the reason."""


def wait() -> None:
    """Wait, in a worker, for the next turn; exit if there is none."""
    if not sys.stdin.readline():
        raise SystemExit


def report(seconds: dict[str, float], **figures: float) -> None:
    """Send, from a worker, the measurements of this turn."""
    print(json.dumps({"seconds": seconds, "figures": figures}), flush=True)


def peak_mib() -> float:
    """Peak memory of this process in MiB (Linux). `getrusage` counts that of its parent, too."""
    (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(peak) / 1024


def on_cores(command: Sequence[str], cores: Sequence[int]) -> list[str]:
    """The command, pinned to these cores, with one OpenMP thread per core."""
    pinned = ["taskset", "--cpu-list", ",".join(map(str, cores))]
    return ["env", f"OMP_NUM_THREADS={len(cores)}", *pinned, *command]


class Worker:
    """Worker process, seen from the benchmark."""

    def __init__(self, command: Sequence[str]) -> None:
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True
        )

    def go(self) -> None:
        """Ask for a turn."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self.broken() from None

    def answer(self) -> Answer:
        """Wait for the turn to end."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise self.broken()
        answer: Answer = json.loads(line)
        return answer

    def broken(self) -> Broken:
        """Error with the last line of its log."""
        self.log.seek(0)
        *_, last = ["a worker ended without a word", *self.log.read().splitlines()]
        return Broken(last)

    def end(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.communicate()
        self.log.close()


class Team:
    """Workers of one row, which run at the same time, each on its own cores."""

    def __init__(self, command: Sequence[str], cores: Sequence[Sequence[int]]) -> None:
        """cores: core numbers of each worker."""
        self.workers = [
            Worker(on_cores([*command, f"--seed={seed}"], own)) for seed, own in enumerate(cores)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.end()

    def __call__(self) -> Answer:
        """Take one turn with all workers; returns the seconds per unit of work of the whole team.

        Two workers that take 3 s each count as 1.5 s. Figures are means.
        """
        for worker in self.workers:
            worker.go()
        answers = [worker.answer() for worker in self.workers]
        seconds = [answer["seconds"] for answer in answers]
        figures = [answer["figures"] for answer in answers]
        return {
            "seconds": {part: 1 / sum(1 / s[part] for s in seconds) for part in seconds[0]},
            "figures": {name: statistics.fmean(f[name] for f in figures) for name in figures[0]},
        }


def take_turns(turns: Mapping[str, Mapping[str, Turn]], rounds: int, *, warm_up: int = 1) -> Tables:
    """Measure every row of every table once a round, and print progress. Warm-up does not count.

    A row that fails is left out, unless it is the first of its table, the reference of the ratios.
    """
    tables: Tables = {title: {} for title in turns}
    left = []
    for title, rows in turns.items():
        left += [(title, name, turn) for name, turn in rows.items()]
    for i in range(-warm_up, rounds):
        heading = f"round {i + 1}/{rounds}" if i >= 0 else "warm-up"
        for title, name, turn in left.copy():
            say(f"  {heading}  {title:>8}  {name} ", end="")
            try:
                answer = turn()
            except Broken as reason:
                if name == next(iter(turns[title])):
                    raise
                say(f"is left out: {reason}")
                left.remove((title, name, turn))
                tables[title].pop(name, None)
                continue
            say(", ".join(f"{part} {s:.3g} s" for part, s in answer["seconds"].items()))
            if i >= 0:
                row = tables[title].setdefault(name, {"seconds": {}, "figures": {}})
                add_answer(row, answer)
    return tables


def add_answer(row: Row, answer: Answer) -> None:
    """Add one turn to the measurements of a row."""
    row["figures"] = answer["figures"]
    for part, seconds in answer["seconds"].items():
        row["seconds"].setdefault(part, []).append(seconds)


def say(text: str, end: str = "\n") -> None:
    """Print progress to stderr."""
    print(text, end=end, file=sys.stderr, flush=True)
