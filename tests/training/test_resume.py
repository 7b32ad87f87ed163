"""A run that was stopped goes on, and ends as if it had not been."""

import random
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from unittest.mock import DEFAULT, Mock

import pytest
import torch
from conftest import PROGRAM, Patch
from small import SHORT, config_in, without_clock

from attnexp.base.errors import UserError
from attnexp.report.listing import list_runs
from attnexp.runs import predictions, store
from attnexp.runs.result import RunResult
from attnexp.training import loop
from attnexp.training.run import train_run

EVERYTHING = """position=sinusoidal train=holdout train.measure_train=true train.warmup=3
train.schedule=cosine train.clip=0.5 model.dropout=0.3""".split()
STOPS = [
    (loop, "train_epoch", 0, "the start"),
    (torch, "save", 0, "the start"),
    (loop, "measure_epoch", 0, "the end of epoch 1"),
    (loop, "measure_epoch", 0, "the end of epoch 1"),
    (loop, "measure_epoch", 1, "the end of epoch 2"),
    (loop, "train_epoch", 0, "the end of epoch 2"),
    (loop, "measure_epoch", 1, "the end of epoch 3"),
]
"""What is interrupted, after how many calls of it, and from where the run goes on."""


def outcome(path: Path, result: RunResult) -> tuple[object, ...]:
    files = [(path / name).read_bytes() for name in (predictions.WEIGHTS, predictions.FILE)]
    return without_clock(result.epochs), result.test, files


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_a_stopped_run_ends_the_same(optimizer: str, tmp_path: Path, monkeypatch: Patch) -> None:
    """An evaluation that is stopped, even the first or the last one, loses no epoch of training."""
    words = [*EVERYTHING, f"train.optimizer={optimizer}"]
    undisturbed = outcome(*train_run(config_in(tmp_path / "undisturbed", *words)))
    config = config_in(tmp_path / "stopped", *words)
    for module, name, num_calls, moment in STOPS:
        calls = [*[DEFAULT] * num_calls, KeyboardInterrupt]
        with monkeypatch.context() as patch:
            patch.setattr(module, name, Mock(wraps=getattr(module, name), side_effect=calls))
            with pytest.raises(KeyboardInterrupt, match=f"goes on from {moment}"):
                train_run(config)
        torch.rand(7)  # what happens in between must not matter
        assert [*list_runs(tmp_path / "stopped")["state"]] == ["stopped"]

    (folder,) = (tmp_path / "stopped" / store.RUNS).glob("[!.]*")
    with monkeypatch.context() as patch:
        patch.setattr(torch, "load", Mock(return_value={"history": {"another": "field"}}))
        with pytest.raises(UserError, match="Delete it to start over"):
            train_run(config)
    (folder / f".{store.CHECKPOINT}.1234").write_bytes(b"half")  # what a killed process may leave
    (folder / ".config.json.swp").write_bytes(b"of an editor")
    path, result = train_run(config)
    assert outcome(path, result) == undisturbed
    assert result.wall_seconds > sum(row.seconds for row in result.epochs)  # of all processes
    assert result.provenance["resumed"] == [f"the end of epoch {n}" for n in (1, 2, 3)]
    assert len((path / store.METRICS).read_text().splitlines()) == 3
    assert not (path / store.CHECKPOINT).exists()
    assert [file.name for file in path.glob(".*")] == [".config.json.swp"]


def test_a_failed_save_is_told(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(torch, "save", Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(UserError, match="No space left"):
        train_run(config_in(tmp_path))


LONG = ["train=holdout", "position=sinusoidal", "train.epochs=20", "data.limit_train=256"]


def sizes(folder: Path, name: str) -> list[int]:
    """Sizes of the files of this name in the folder of the attempt; none while one is renamed."""
    with suppress(FileNotFoundError):
        return [file.stat().st_size for file in folder.glob(f"{store.RUNS}/*/{name}")]
    return []


@pytest.mark.slow
@pytest.mark.parametrize("name", [f".{store.CHECKPOINT}.*", store.METRICS])
def test_killed_at_any_moment_a_run_ends_with_the_same_figures(tmp_path: Path, name: str) -> None:
    """Inside a save, or at a random moment after an epoch."""
    undisturbed = outcome(*train_run(config_in(tmp_path / "undisturbed", *LONG)))
    folder = tmp_path / "killed"
    command = [PROGRAM, "train", *SHORT, f"out={folder}", *LONG]
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        before = sizes(folder, name)
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and sizes(folder, name) in (before, []):
            pass
        if name == store.METRICS:
            time.sleep(random.uniform(0, 0.5))
        process.send_signal(number)
        assert process.wait(60) in (0, 130, -number)
    path, result = train_run(config_in(folder, *LONG))
    assert outcome(path, result) == undisturbed
    assert not list(path.glob(".*"))
    assert "goes on from" in (path / store.LOG).read_text()
