"""Sweeps that train nothing, and sweeps under way in processes of their own."""

import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import PROGRAM

from attnexp.config.compose import compose
from attnexp.config.schema import RunConfig, to_dict
from attnexp.runs import store
from attnexp.runs.identity import identify
from attnexp.runs.result import Run
from attnexp.sweeps import local
from attnexp.sweeps.executor import Outcome
from attnexp.sweeps.folder import assign_folder
from attnexp.sweeps.plan import Job, Sweep, plan
from attnexp.sweeps.schedule import SweepEntry
from attnexp.training.inputs import read_inputs
from attnexp.training.run import train_run

SMOKE = ["experiment=smoke", "train.threads=1"]
SIX = [*SMOKE, "position=none,sinusoidal", "seed=range(3)", "train.device=cpu", "train.epochs=6"]
TWO_AT_A_TIME = [*SIX, "executor.workers=2"]
Figures = dict[str, object]
Pretend = Callable[..., list[str]]


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = f"out={tmp_path_factory.mktemp('template')}"
    path, result = train_run(compose(*SMOKE, "train.epochs=2", "data.limit_train=64", out))
    return Run(path=path, result=result)


@pytest.fixture
def pretend(template: Run, monkeypatch: pytest.MonkeyPatch) -> Pretend:
    """Let sweeps in this process make their results up: accuracy 0.9 where the learning rate is
    high, else 0.5, and a little chance. The list that it returns gets a line for each run."""

    def begin(fails: Callable[[RunConfig], Any] = lambda config: False) -> list[str]:
        done = list[str]()

        def train_job(job: Job) -> Outcome:
            done.append(f"{job.config.position.name} {job.config.seed}")
            if fails(job.config):
                return "the loss is nan"
            identity = identify(job.config, read_inputs(job.config).fingerprint)
            level = 0.9 if job.config.train.lr > 1e-3 else 0.5
            accuracy = level + (7 * job.config.seed % 5 - 2) / 1000
            rows = [replace(row, val_accuracy=accuracy) for row in template.result.epochs]
            result = replace(
                template.result,
                run_id=identity.run_id, code=identity.code, seed=job.config.seed,
                config=to_dict(job.config), epochs=rows, own_best=rows[-1], final=rows[-1],
            )  # fmt: skip
            path = store.run_dir(job.config.out, identity.run_id)
            path.mkdir(parents=True)
            store.save_result(path, result)
            return Run(path=path, result=result, variant=job.label)

        monkeypatch.setattr(local, "train_job", train_job)
        return done

    return begin


@pytest.fixture
def done(pretend: Pretend) -> list[str]:
    """Positions and seeds of the runs that a sweep does, as they come; nothing is trained."""
    return pretend()


def small(folder: Path, *words: str) -> Sweep:
    return assign_folder(plan([*SMOKE, f"out={folder}", "executor.workers=1", *words]))


def finished(entries: list[SweepEntry]) -> list[Run]:
    return [entry.outcome for entry in entries if isinstance(entry.outcome, Run)]


def sweeping(folder: Path, *words: str, **environment: str) -> subprocess.Popen[str]:
    """A sweep under way, in processes of its own; its stderr is kept."""
    return subprocess.Popen(
        [PROGRAM, "sweep", *words, f"out={folder}"], env={**os.environ, **environment},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def message_of(process: subprocess.Popen[str], *codes: int) -> str:
    try:
        message = process.communicate(timeout=300)[1]
    finally:
        process.kill()  # where it did not end; its own processes end with it
    assert "Traceback" not in message, message
    assert process.returncode in (codes or [0]), message
    return message


def outcomes(folder: Path) -> Figures:
    figures: Figures = {}
    for file in folder.glob(f"runs/*/{store.RESULT}"):
        result = store.load_result(file.parent)
        rows = [replace(row, seconds=0, examples_per_second=0) for row in result.epochs]
        figures[file.parent.name] = (rows, result.test)
    return figures


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Figures:
    """Figures of the six, by two processes here."""
    folder = tmp_path_factory.mktemp("undisturbed")
    message_of(sweeping(folder, *TWO_AT_A_TIME))
    return outcomes(folder)
