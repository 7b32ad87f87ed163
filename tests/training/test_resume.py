"""A run that was stopped goes on, and ends as if it had not been."""

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from conftest import Patch
from small import config_in, without_clock

from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.report.listing import list_runs
from attnexp.runs import predictions, store
from attnexp.runs.result import RunResult
from attnexp.training import loop
from attnexp.training.run import train_run

EVERYTHING = """position=sinusoidal train=holdout train.measure_train=true train.warmup=3
train.schedule=cosine train.clip=0.5 model.dropout=0.3""".split()


def outcome(path: Path, result: RunResult) -> tuple[object, ...]:
    files = [(path / name).read_bytes() for name in (predictions.WEIGHTS, predictions.FILE)]
    return without_clock(result.epochs), result.test, files


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_a_stopped_run_ends_the_same(optimizer: str, tmp_path: Path, monkeypatch: Patch) -> None:
    """An evaluation that is stopped, even the first or the last one, loses no epoch of training."""
    words = [*EVERYTHING, f"train.optimizer={optimizer}"]
    undisturbed = outcome(*train_run(config_in(tmp_path / "undisturbed", *words)))
    config = config_in(tmp_path / "stopped", *words)

    def stopped(num_calls: int, at: str) -> None:
        """Train until so many calls of training or measuring an epoch are done."""
        calls = count()

        def stopping(call: Callable[..., Any]) -> Callable[..., Any]:
            def call_or_stop(*given: Any) -> Any:
                if next(calls) == num_calls:
                    raise KeyboardInterrupt
                return call(*given)

            return call_or_stop

        with monkeypatch.context() as patch:
            patch.setattr(loop, "train_epoch", stopping(loop.train_epoch))
            patch.setattr(loop, "measure_epoch", stopping(loop.measure_epoch))
            with pytest.raises(KeyboardInterrupt, match=f"goes on from the {at}"):
                train_run(config)
        torch.rand(7)  # what happens in between must not matter
        assert [*list_runs(tmp_path / "stopped")["state"]] == ["stopped"]

    for num_calls, epoch in ((0, 0), (1, 1), (1, 1), (2, 2), (1, 2), (2, 3)):
        stopped(num_calls, f"end of epoch {epoch}" if epoch else "start")
    (folder,) = (tmp_path / "stopped" / store.RUNS).glob("[!.]*")
    (folder / f".{store.CHECKPOINT}.1234").write_bytes(b"half")  # what a killed process may leave
    (folder / ".config.json.swp").write_bytes(b"of an editor")
    path, result = train_run(config)
    assert outcome(path, result) == undisturbed
    assert result.wall_seconds > sum(row.seconds for row in result.epochs)  # of all processes
    assert result.provenance["resumed"] == [f"the end of epoch {n}" for n in (1, 2, 3)]
    assert len((path / store.METRICS).read_text().splitlines()) == 3
    assert not (path / store.CHECKPOINT).exists()
    assert [file.name for file in path.glob(".*")] == [".config.json.swp"]


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_a_failed_save_is_told(tmp_path: Path, monkeypatch: Patch, raised: BaseException) -> None:
    monkeypatch.setattr(torch, "save", Mock(side_effect=raised))
    with pytest.raises((KeyboardInterrupt, UserError), match=r"goes on from|No space left"):
        train_run(config_in(tmp_path))


LONG = ["train=holdout", "position=sinusoidal", "train.epochs=8", "data.limit_train=640"]

_server = get_context("forkserver")
_server.set_forkserver_preload(["attnexp.training.run", "torch._dynamo"])


def work(folder: Path) -> None:
    """One attempt at the run, in a process of its own."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    progress.console.quiet = True
    with suppress(KeyboardInterrupt):
        train_run(config_in(folder, *LONG))


def sizes(folder: Path, name: str) -> list[int]:
    """Sizes of the files of this name in the folder of the attempt; none while one is renamed."""
    with suppress(FileNotFoundError):
        return [file.stat().st_size for file in sorted(folder.glob(f"{store.RUNS}/*/{name}"))]
    return []


@pytest.mark.slow
@pytest.mark.parametrize("name", [f".{store.CHECKPOINT}.*", store.METRICS])
def test_killed_at_any_moment_a_run_ends_with_the_same_figures(tmp_path: Path, name: str) -> None:
    """Inside a save, or at a random moment after an epoch."""
    undisturbed = outcome(*train_run(config_in(tmp_path / "undisturbed", *LONG)))
    folder = tmp_path / "killed"
    chance = random.Random(0)
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        before = sizes(folder, name)
        process = _server.Process(target=work, args=(folder,))
        process.start()
        while process.is_alive() and sizes(folder, name) in (before, []):
            time.sleep(0.0002)
        time.sleep(chance.uniform(0, 0.5) * (name == store.METRICS))
        assert process.pid is not None
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)
        process.join(60)
        assert process.exitcode in (0, -number)
    path, result = train_run(config_in(folder, *LONG))
    assert outcome(path, result) == undisturbed
    assert not list(path.glob(".*"))
    assert "goes on from" in (path / store.LOG).read_text()
