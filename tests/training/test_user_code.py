"""A run with user code: its copies, its process, the check after it, and what its folder keeps."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from conftest import Capture, OwnModule, Patch, Refused
from small import examples, fit, without_clock

from attnexp.base.errors import UserError
from attnexp.config.compose import compose
from attnexp.config.schema import RunConfig
from attnexp.data.encode import load_once
from attnexp.inspect.evaluate import measure_again
from attnexp.network.build import build_model
from attnexp.network.cost import cost_of
from attnexp.runs import find, store
from attnexp.training import loop
from attnexp.training.run import train_run

MODULE = """
import pathlib, sqlite3, torch, torch.nn.functional as F
from torch import Tensor, nn
from attnexp.model.seams import Baseline, JoinedPosition
from {0}_helper import SCALE
class Scaled(JoinedPosition):
    def __init__(self, max_len: int, d_model: int, *, table: str = "") -> None:
        super().__init__()
        self.d_output = d_model
        self.scale = SCALE
        if table:
            self.scale = sqlite3.connect(table).execute("select rate from t").fetchone()[0]
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + self.scale * positions.mul_(2)[:, None]
class Late(Scaled):
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        return x * x.new_tensor(float(pathlib.Path("late.txt").read_text())).item()
class Counted(Scaled):
    steps = 0
    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        self.steps += self.training
        return x * (1.0 + (self.steps > 2))
class Signs(Baseline):
    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(vocab_size, dtype=torch.float64))
    def fit(self, ids: Tensor, labels: Tensor) -> None:
        labels[labels == 0] = -1
        counts = torch.zeros(len(ids), len(self.w)).scatter_(1, ids.long(), 1.0)
        with torch.no_grad():
            self.w.copy_(counts.T @ labels)
    def forward(self, ids: Tensor) -> Tensor:
        ids %= len(self.w)
        return self.w[ids.long()].sum(-1)
def smoothed(logits: Tensor, labels: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(-logits, 0.9 * labels)
def in_place(logits: Tensor, labels: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(logits.mul_(-1), labels.mul_(0.9))
"""
FEW = "data=contrast data.limit_train=64 data.limit_test=64 train.threads=1".split()
Make = Callable[..., RunConfig]


@pytest.fixture
def own(tmp_path: Path, own_module: OwnModule) -> Make:
    name = own_module(MODULE.format(f"own_{tmp_path.name}"))
    (tmp_path / f"{name}_helper.py").write_text("SCALE = 0.01")
    (tmp_path / "late.txt").write_text("1")

    def make(*words: str) -> RunConfig:
        own_words = [word.replace("own:", f"{name}:") for word in words]
        return compose([*FEW, "out=out", *own_words])

    return make


def test_a_baseline_is_fitted_and_what_it_changes_in_place_is_its_own(own: Make) -> None:
    config = own("model=own:Signs")
    data = load_once(config.data)
    arrays = [data.train.ids, data.train.labels, data.test.ids]
    copies = [array.copy() for array in arrays]
    path, result = train_run(config)
    assert measure_again(path, trust_code=True).metrics == result.test
    assert len(result.epochs) == 1
    assert result.parameters == 4 + len(data.words)
    np.testing.assert_equal(arrays, copies)
    assert result.final.train_accuracy > 0.5  # labels are 0 and 1, not -1


def test_a_loss_that_changes_logits_and_labels_gives_the_same_run(own: Make) -> None:
    """Positions, too, are changed in place in both trainings."""
    rows = []
    for loss in ("smoothed", "in_place"):
        words = "position=own:Scaled data.max_len=6 model.dropout=0".split()
        config = own(f"train.loss=own:{loss}", *words)
        rows.append(without_clock([*fit(build_model(config), examples(32), config.train)]))
    assert rows[0] == rows[1]


def test_state_outside_the_weights_is_refused_after_training(own: Make) -> None:
    config = own("position=own:Counted")
    with pytest.raises(UserError, match="keeps state outside its parameters and buffers"):
        train_run(config)
    assert not [*Path(config.out).rglob("result.json")]


@pytest.mark.parametrize("name", ["rates.db", "late.txt"])
def test_a_changed_file_makes_a_new_run(name: str, own: Make, capsys: Capture) -> None:
    """A file that a setting names and C opens; one that a forward pass opens. The new run takes the
    next folder, and the older result stays and counts while its files are as they were."""
    with sqlite3.connect("rates.db") as connection:
        connection.execute("create table t as select 0.1 as rate")
    piece = "Late" if name == "late.txt" else f"Scaled position.table={name}"
    config = own(*f"position=own:{piece}".split())
    assert cost_of(build_model(config), num_tokens=6)["flops_per_example"] > 0
    path, result = train_run(config)
    assert train_run(config) == (path, result)
    file = Path(name)
    content = file.read_bytes()
    file.write_bytes(content + b"\n")
    next_path, _ = train_run(config)
    assert next_path.name == f"{path.name}-2"
    message = f"{name} changed since this was trained. The new run: {next_path}"
    assert message in capsys.readouterr().err
    assert train_run(config)[0] == next_path
    assert store.load_result(path) == result
    file.write_bytes(content)
    assert train_run(config)[0] == path
    assert find.find_run(path) == path  # not `ID-2`
    assert find.find_run(next_path) == next_path


def test_a_changed_file_voids_a_checkpoint(own: Make, tmp_path: Path, monkeypatch: Patch) -> None:
    for factor, states in (("1", ["the end of epoch 1"]), ("2", [])):
        config = own("position=own:Late", f"seed={factor}")
        with monkeypatch.context() as patch:
            patch.setattr(loop, "measure_epoch", Mock(side_effect=KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                train_run(config)
        (tmp_path / "late.txt").write_text(factor)
        assert train_run(config)[1].provenance["resumed"] == states


def test_a_run_of_changed_source_is_not_loaded(own: Make, tmp_path: Path, refused: Refused) -> None:
    path, result = train_run(own("position=own:Scaled"))
    name = f"own_{tmp_path.name}"
    helper = tmp_path / f"{name}_helper.py"
    assert {f"{name}.py", helper.name} <= result.read_files.keys()
    assert (path / "code" / helper.name).read_text() == helper.read_text()
    assert "commit_of_user" in result.provenance
    measure_again(path, trust_code=True)
    helper.write_text("SCALE = 0.02")
    with pytest.raises(UserError, match=f"{helper.name} changed .* Restart the kernel."):
        train_run(own("position=own:Scaled", "seed=1"))
    said = refused("evaluate", str(path), "--trust-code")
    assert f"{helper.name} changed since {path} was trained" in said
    assert "--any-code" in said
    measure_again(path, trust_code=True, any_code=True)
    helper.unlink()
    with pytest.raises(UserError, match=f"{helper.name} is no longer there since {path}"):
        measure_again(path, trust_code=True)
