"""A run with user code: its copies, its process, the check after it, and what its folder keeps."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Refused
from small import config_in

from attnexp.base.errors import UserError
from attnexp.config.schema import ExecutorConfig, RunConfig
from attnexp.runs.identity import changed_user_code, load_config
from attnexp.runs.result import Run
from attnexp.sweeps.executors import SideBySide, Slot
from attnexp.sweeps.plan import Job
from attnexp.sweeps.schedule import open_executor
from attnexp.training.run import load_data, train_run

MODULE = """
import torch, torch.nn.functional as F
from torch import Tensor, nn
from attnexp.model.seams import Baseline, JoinedPosition
from {0}_helper import SCALE

class Scaled(JoinedPosition):
    def __init__(self, max_len: int, d_model: int) -> None:
        super().__init__()
        self.d_output = d_model
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + SCALE * positions.mul_(2)[:, None]

class Kept(Scaled):
    table = None
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        if Kept.table is None:
            Kept.table = torch.randn(x.shape[1:])
        return x + Kept.table

class ByPlace(Scaled):
    def __init__(self, max_len: int, d_model: int) -> None:
        super().__init__(max_len, d_model)
        self.table = nn.Parameter(torch.zeros(max_len, 1, d_model))
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + self.table[: len(x)]

class Counted(Scaled):
    def __init__(self, max_len: int, d_model: int) -> None:
        super().__init__(max_len, d_model)
        self.steps = 0
        self.register_buffer("total", torch.zeros(()))
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        if self.training:
            self.steps += 1
        return x * (1.0 + (self.steps > 6))

class Signs(Baseline):
    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(vocab_size))
    def fit(self, ids: Tensor, labels: Tensor) -> None:
        labels[labels == 0] = -1
        counts = torch.zeros(len(ids), len(self.w)).scatter_(1, ids.long(), 1.0)
        with torch.no_grad():
            self.w.copy_(counts.T @ labels)
    def forward(self, ids: Tensor) -> Tensor:
        ids %= len(self.w)
        return self.w[ids.long()].sum(-1)

def smoothed(logits: Tensor, labels: Tensor) -> Tensor:
    labels.mul_(0.9)
    return F.binary_cross_entropy_with_logits(logits, labels) + 0 * logits.detach().mul_(-1).sum()
"""
Make = Callable[..., RunConfig]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A config of a run with user code, whose module has another name in each test."""
    name = f"{tmp_path.name}_code"
    (tmp_path / f"{name}.py").write_text(MODULE.format(name))
    (tmp_path / f"{name}_helper.py").write_text("SCALE = 0.01")
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(*words: str) -> RunConfig:
        own_words = [word.replace("own:", f"{name}:") for word in words]
        return config_in(tmp_path / "out", "train.epochs=1", *own_words)

    return make


@pytest.mark.parametrize("word", ["model=own:Signs", "position=own:Scaled train.loss=own:smoothed"])
def test_what_user_code_changes_in_place_is_its_own(word: str, own: Make) -> None:
    config = own(*word.split())
    data = load_data(config.data)
    before = data.train.ids.copy(), data.train.labels.copy(), data.test.ids.copy()
    _, result = train_run(config)
    assert (data.train.ids == before[0]).all()
    assert (data.train.labels == before[1]).all()
    assert (data.test.ids == before[2]).all()
    assert 0.3 < result.final.train_accuracy < 1


def test_the_loss_changes_no_count_of_right_answers(own: Make) -> None:
    """It turns the signs of the logits that it is given."""
    _, result = train_run(own("position=sinusoidal", "train.loss=own:smoothed", "train.lr=1e-9"))
    assert result.final.train_accuracy == pytest.approx(0.5, abs=0.2)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Kept", "other logits in a process of its own"),
        ("ByPlace", "mixes the texts of a batch"),
        ("Counted", "keeps state outside its parameters and buffers"),
    ],
)
def test_what_only_training_shows_is_refused_after_it(name: str, said: str, own: Make) -> None:
    config = own(f"position=own:{name}", "train.lr=0.1")
    with pytest.raises(UserError, match=said):
        train_run(config)
    assert not [*Path(config.out).rglob("result.json")]


def test_a_run_keeps_the_source_and_is_not_loaded_when_it_has_changed(
    own: Make, tmp_path: Path, refused: Refused
) -> None:
    path, result = train_run(own("position=own:Scaled"))
    run = Run(path=path, result=result)
    name = f"{tmp_path.name}_code"
    files = {f"code/{name}.py", f"code/{name}_helper.py"}
    assert {file.relative_to(path).as_posix() for file in path.rglob("code/**/*.py")} == files
    assert (path / f"code/{name}.py").read_text() == MODULE.format(name)
    assert "commit_of_user" in result.provenance
    assert changed_user_code(run) == []
    (tmp_path / f"{name}_helper.py").write_text("SCALE = -30.0")
    for module in (name, f"{name}_helper"):
        del sys.modules[module]
    said = refused("predict", str(path), "the cast was superb", "--trust-code")
    assert f"{name}" in said


def test_a_job_with_user_code_has_a_process_of_its_own(own: Make) -> None:
    """Also where one job runs at a time; other jobs go on sharing one."""
    theirs = Job(label="theirs", config=own("position=own:Scaled"), words=[])
    ours = Job(label="ours", config=own(), words=[])
    executor = open_executor(ExecutorConfig(workers=1), [theirs, ours])
    try:
        assert isinstance(executor, SideBySide)
        (slot,) = executor.free_slots
        pools = []
        for job in (ours, ours, theirs, theirs, ours):
            pools.append(pool_of(slot, job))
    finally:
        executor.close()
    assert [pool is before for before, pool in zip(pools, pools[1:], strict=False)] == [
        True, True, False, False,
    ]  # fmt: skip


def pool_of(slot: Slot, job: Job) -> object:
    """The pool in which a slot trains a job."""
    slot.submit(job).cancel()
    return slot.pool
