"""A run that was stopped goes on, and ends as if it had not been."""

import json
import os
import re
import shutil
import signal
from pathlib import Path

import pytest
import torch
from conftest import Command
from samples import SMALL_RUN, examples, interrupted, shuffle, without_clock

from attnexp.config.compose import compose
from attnexp.config.schema import RunConfig
from attnexp.model.classifier import build_model
from attnexp.model.init import named_seed
from attnexp.runs import checkpoint, store
from attnexp.training.loop import Examples, start
from attnexp.training.run import fit, open_run, prepare, train, train_run
from attnexp.training.state import State

CPU = torch.device("cpu")


def begin(*words: str) -> tuple[State, Examples, Examples, RunConfig]:
    config = compose([*SMALL_RUN, "train.epochs=3", *words])
    torch.manual_seed(named_seed(config.seed, "dropout"))
    data = examples(37)
    state = start(build_model(config), data, config.train, shuffle(config.seed))
    return state, data, examples(70, seed=1), config


@pytest.mark.parametrize("epoch", [1, 2])
@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_from_any_epoch_training_ends_with_the_same_figures_to_the_bit(
    epoch: int, optimizer: str
) -> None:
    words = [f"train.optimizer={optimizer}", "position=sinusoidal", "train.measure_train=true",
             "train.warmup=3", "train.schedule=cosine", "train.clip=0.5"]  # fmt: skip
    state, data, val, config = begin(*words)
    undisturbed = [row for row, _ in fit(state, data, val, config.train)]
    weights = {name: tensor.clone() for name, tensor in state.tensors(CPU).items()}

    state, data, val, config = begin(*words)
    rows = fit(state, data, val, config.train)
    for _ in range(epoch):
        next(rows)
    kept = {name: tensor.clone() for name, tensor in state.tensors(CPU).items()}
    numbers = json.loads(json.dumps(state.numbers()))

    state, *_ = begin(*words, "seed=7")
    torch.rand(9)
    state.restore(kept, numbers, CPU)
    found = [row for row, _ in fit(state, data, val, config.train)]
    assert without_clock(found) == without_clock(undisturbed)[epoch:]
    assert all(torch.equal(tensor, weights[name]) for name, tensor in state.tensors(CPU).items())


def small(tmp_path: Path, *words: str) -> RunConfig:
    size = ["model.d_model=8", "model.d_head=4", "data.limit_train=64", "data.limit_test=64"]
    return compose(["experiment=smoke", "train.threads=1", "train.epochs=3", f"out={tmp_path}",
                    "train=holdout", *size, *words])  # fmt: skip


def stopped(config: RunConfig, after: str = "epoch 1/") -> Path:
    """The folder of a run that was told to end when it said that."""
    with open_run(prepare(config)) as run:
        note = run.recorder.note

        def stop(line: str) -> None:
            note(line)
            if line.startswith(after):
                raise KeyboardInterrupt

        run.recorder.note = stop
        with pytest.raises(KeyboardInterrupt, match="goes on from"):
            train(run)
    return run.path


def printed(part: Path) -> str:
    """What a run's log says."""
    (log,) = part.parent.rglob(store.LOG)
    return log.read_text()


def test_a_run_goes_on_from_the_epochs_that_it_has(tmp_path: Path) -> None:
    """Whatever a killed process left beside the last whole checkpoint."""
    _, undisturbed = train_run(small(tmp_path / "undisturbed"))
    config = small(tmp_path / "stopped")
    ends = [1, 2]
    for line in (f"epoch {n}/" for n in ends):
        part = stopped(config, after=line)
        assert not list(part.parent.rglob(store.RESULT))
    (part / f".{checkpoint.FILE}.1234").write_bytes(b"half")
    run_dir, result = train_run(config)
    assert without_clock(result.epochs) == without_clock(undisturbed.epochs)
    assert result.test == undisturbed.test
    assert result.provenance["resumed"] == [f"the end of epoch {n}" for n in ends]
    assert result.wall_seconds > sum(row.seconds for row in result.epochs)
    assert {path.name for path in run_dir.iterdir()} == {*result.files, store.LOG, store.RESULT}
    assert len((run_dir / store.METRICS).read_text().splitlines()) == 3
    assert f"goes on from the end of epoch {ends[-1]}" in printed(part)


def test_a_damaged_checkpoint_is_not_used(tmp_path: Path) -> None:
    file = stopped(small(tmp_path)) / checkpoint.FILE
    whole = file.read_bytes()
    for position in (0, 40, len(whole) // 2, -1):
        content = bytearray(whole)
        content[position] ^= 1
        file.write_bytes(content)
        with pytest.raises(ValueError, match="it is damaged"):
            checkpoint.load(file.parent)
    _, result = train_run(small(tmp_path))
    assert "not used: it is damaged. Starts over." in printed(file.parent)
    assert result.provenance["resumed"] == []


def test_what_would_give_other_figures_is_not_used_and_said(tmp_path: Path) -> None:
    part = stopped(small(tmp_path, "train.threads=2"))
    _, result = train_run(small(tmp_path))
    assert "not used: threads was 2, now 1. Starts over." in printed(part)
    assert result.provenance["resumed"] == []


def test_threads_that_torch_may_choose_are_those_of_the_first_part(tmp_path: Path) -> None:
    stopped(small(tmp_path))
    torch.set_num_threads(2)
    try:
        _, result = train_run(small(tmp_path, "train.threads=null"))
    finally:
        torch.set_num_threads(1)
    assert result.provenance["threads"] == 1
    assert result.provenance["resumed"] == ["the end of epoch 1"]


def test_an_attempt_with_other_code_is_left_alone_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = stopped(small(tmp_path))
    other = part.with_name(f"{part.name.partition('-')[0]}-0123abcd.part")
    shutil.copytree(part, other)
    train_run(small(tmp_path))
    assert "changed since" not in capsys.readouterr().err
    train_run(small(tmp_path), again=True)
    assert f"changed since {other} came to the end of epoch 1. Starts over." in (
        capsys.readouterr().err
    )
    assert other.exists()


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_the_same_command_goes_on(attnexp: Command, tmp_path: Path, number: signal.Signals) -> None:
    words = ["train", "experiment=smoke", "train.epochs=8", "data.limit_train=640"]
    code, said = interrupted(tmp_path, *words, at="epoch 1/8", number=number)
    assert code == 130, said
    *_, last = said.splitlines()
    assert last.startswith("Interrupted: the same command goes on from ")
    where = last.removeprefix("Interrupted: the same command ").rstrip(".")
    done = attnexp(*words)
    assert done.returncode == 0
    assert done.stderr.splitlines()[0] == where
    (folder,) = re.findall(r"^Results: (.+)$", done.stdout, re.MULTILINE)
    names = {".locks", Path(folder).name}
    assert set(os.listdir(tmp_path / "outputs/runs")) == names
