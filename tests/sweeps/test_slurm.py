"""Sweeps on a real Slurm, that of `slurm_node`. The counts are in docs/reliability.md."""

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from samples import outcomes, sweeping
from slurm_node import MAX_MINUTES, NoSlurm, await_empty, slurm_node

from attnexp.runs import store

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("KILLS", "2"))
TINY = ["data=contrast", "train.epochs=6", "train.threads=1", "data.limit_train=512",
        "data.limit_test=256"]  # fmt: skip
EIGHT = [*TINY, "position=none,sinusoidal", "seed=range(4)"]
TWO = [*TINY, "position=sinusoidal", "seed=0,1"]
SLURM = ["executor=slurm", "executor.mem_gb=1"]

Environment = dict[str, str]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    pytest.importorskip("submitit")
    try:
        with slurm_node(tmp_path_factory.mktemp("slurm")) as environment:
            yield environment
    except NoSlurm as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """The eight, by processes here."""
    folder = tmp_path_factory.mktemp("local")
    code, message = outcome(sweeping(folder, EIGHT))
    assert code == 0, message
    return outcomes(folder)


def outcome(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit code, and what was told."""
    message = process.communicate(timeout=400)[1]
    assert "Traceback" not in message
    assert "sacct" not in message
    return process.returncode, message


def test_slurm_gives_the_figures_of_processes_here(
    tmp_path: Path, slurm: Environment, undisturbed: dict[str, object]
) -> None:
    code, message = outcome(sweeping(tmp_path, [*EIGHT, *SLURM], slurm))
    assert code == 0, message
    assert outcomes(tmp_path) == undisturbed
    assert "are PENDING: Resources" in message


def test_a_killed_sweep_goes_on(
    tmp_path: Path, slurm: Environment, undisturbed: dict[str, object]
) -> None:
    """At any moment, kill -9 (its jobs go on) and kill -15 (they leave the queue) in turn."""
    seconds, chance, counts = 20.0, random.Random(2), Counter[str]()
    for trial in range(KILLS):
        folder = tmp_path / str(trial)
        number = (signal.SIGKILL, signal.SIGTERM)[trial % 2]
        first = sweeping(folder, [*TWO, *SLURM], slurm)
        time.sleep(chance.uniform(0.1, 0.9) * seconds)
        first.send_signal(number)
        code, message = outcome(first)
        assert code in (0, 130, -number), message
        if number is signal.SIGTERM:
            await_empty(slurm)
        counts[f"{number.name} {code}"] += 1
        counts["finished before"] += len(outcomes(folder))
        began = time.monotonic()
        code, message = outcome(sweeping(folder, [*TWO, *SLURM], slurm))
        assert code == 0, message
        seconds = max(seconds, time.monotonic() - began)
        found = outcomes(folder)
        assert len(found) == 2
        assert found.items() <= undisturbed.items()
        logs = "".join(file.read_text() for file in folder.rglob(store.LOG))
        counts["went on"] += logs.count("\ngoes on from")
        await_empty(slurm)
        assert outcomes(folder) == found
    print(dict(counts))


@pytest.mark.parametrize(
    ("words", "told_of"),
    [
        ([f"executor.timeout_min={MAX_MINUTES + 1}"], "PENDING, PartitionTimeLimit"),
        (["executor.partition=nowhere"], "invalid partition specified: nowhere"),
        (["executor.mem_gb=9999999"], "Memory specification can not be satisfied"),
    ],
)
def test_what_slurm_will_never_start_is_reported(
    tmp_path: Path, slurm: Environment, words: list[str], told_of: str
) -> None:
    code, message = outcome(sweeping(tmp_path, [*TWO, *SLURM, *words], slurm))
    assert code == 2
    assert told_of in message
    assert f"asks for {words[0]}" in message or f", {words[0]}" in message
    assert message.count("Error:") == 1
    await_empty(slurm)


def test_a_job_that_slurm_ends_fails_its_run(tmp_path: Path, slurm: Environment) -> None:
    process = sweeping(tmp_path, [*TWO, "train.epochs=100000", *SLURM], slurm)
    deadline = time.monotonic() + 120
    while not list(tmp_path.rglob("metrics.jsonl")):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    subprocess.run(["scancel", "--name=attnexp"], env=slurm, check=True)
    code, message = outcome(process)
    assert code == 1
    assert all(f"seed {seed} failed: job " in message for seed in (0, 1))
    assert message.count(" CANCELLED; see ") == 4  # as it happens, and at the end
