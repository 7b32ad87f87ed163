"""Turns: how the harness asks, how its workers answer, and that all take turns.

A worker starts once and is then asked for turns (`go` down its stdin, a line of figures up its
stdout), so imports and compilation are never measured, and while one works the others wait. Needs
the standard library alone, for workers in another Python.
"""

import json
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Self, TypedDict


class Answer(TypedDict):
    """What a turn gave."""

    seconds: dict[str, float]
    """By part of the work."""
    figures: dict[str, float]
    """What else stands beside the row: of the last turn."""


class Row(TypedDict):
    """All turns of one row."""

    seconds: dict[str, list[float]]
    """By part of the work: a number a round."""
    figures: dict[str, float]


Turn = Callable[[], Answer]
Tables = dict[str, dict[str, Row]]
"""Rows by the title of their table and their name."""


class Broken(Exception):
    """A row cannot be measured; its text says why."""


def wait() -> None:
    """In a worker: until the next turn; leaves the process when there is none."""
    if not sys.stdin.readline():
        raise SystemExit


def tell(seconds: dict[str, float], **figures: float) -> None:
    """In a worker: what this turn gave."""
    print(json.dumps({"seconds": seconds, "figures": figures}), flush=True)


def peak_mib() -> float:
    """The most memory this process has held (Linux)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def on_cores(command: Sequence[str], cores: Sequence[int]) -> list[str]:
    """The command, kept to these cores, with as many OpenMP threads."""
    pinned = ["taskset", "--cpu-list", ",".join(map(str, cores))]
    return ["env", f"OMP_NUM_THREADS={len(cores)}", *pinned, *command]


class Worker:
    """A worker, seen from the harness."""

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
        """Its last words."""
        self.log.seek(0)
        *_, last = ["a worker ended without a word", *self.log.read().splitlines()]
        return Broken(last)

    def end(self) -> None:
        """Wherever it is."""
        self.process.kill()
        self.process.communicate()
        self.log.close()


class Team:
    """The workers of one row, which work at the same time, each on its cores."""

    def __init__(self, command: Sequence[str], cores: Sequence[Sequence[int]]) -> None:
        """cores: those of each worker."""
        self.workers = [
            Worker(on_cores([*command, f"--seed={seed}"], own)) for seed, own in enumerate(cores)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.end()

    def __call__(self) -> Answer:
        """A turn of all: the seconds in which the team does the work of one worker.

        Two workers that take 3 s each do it in 1.5 s. Figures are means.
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
    """Every row of every table once a round, the first rounds uncounted, and say how it goes.

    A row that breaks is left out, unless it is a table's first, which the others stand over.
    """
    tables: Tables = {title: {} for title in turns}
    left = [(title, name, turn) for title, rows in turns.items() for name, turn in rows.items()]
    for i in range(-warm_up, rounds):
        for title, name, turn in left.copy():
            say(
                f"  {f'round {i + 1}/{rounds}' if i >= 0 else 'warm-up'}  {title:>8}  {name} ",
                end="",
            )
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
                row["figures"] = answer["figures"]
                for part, seconds in answer["seconds"].items():
                    row["seconds"].setdefault(part, []).append(seconds)
    return tables


def say(text: str, end: str = "\n") -> None:
    """Tell whoever waits."""
    print(text, end=end, file=sys.stderr, flush=True)
