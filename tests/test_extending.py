"""Pieces of one's own: the page that shows them, and what is refused."""

import math
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import ROOT, Command, Refused
from samples import exit_code

from attnexp.config.compose import compose
from attnexp.network.build import build_model
from attnexp.training.evaluate import evaluate_run
from attnexp.training.run import train_run

PAGE = (ROOT / "docs" / "extending.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.slow
def test_the_page_works_from_an_empty_file_to_a_verdict(
    attnexp: Command, refused: Refused, tmp_path: Path
) -> None:
    module, tokenizer, loss = (text for language, text in BLOCKS if language == "python")
    (study,) = [text for language, text in BLOCKS if language == "yaml"]
    (tmp_path / "decay.py").write_text(module)
    (tmp_path / "pairs.py").write_text(tokenizer)
    (tmp_path / "smooth.py").write_text(loss)
    (tmp_path / "mine.yaml").write_text(study)
    said = []
    for language, text in BLOCKS:
        for line in text.splitlines() if language == "sh" else []:
            # Processes have their turn once.
            once = ["executor.workers=1"] * ("sweep " in line and "Decay" not in line)
            done = attnexp(*shlex.split(line)[1:], *once)
            assert done.returncode == 0, done.stderr
            said.append(done.stdout)
    config, _, sweep, _, study_sweep, _, losses = said
    assert "kind: decay:Decay" in config
    assert "rate: 0.5" in config
    assert "position=decay:Decay" in sweep.partition("\nDifference from position=none ")[2]
    assert "train.loss=smooth" in losses.partition("\nDifference from train.loss=null ")[2]
    assert "fast" in study_sweep.partition("\nDifference from none ")[2]
    page = (tmp_path / "page.html").read_text()
    assert "decay:Decay" in page
    (run_dir,) = (tmp_path / "outputs" / "runs").glob("*-*")
    stored, measured = attnexp("evaluate", str(run_dir), "--trust-code").stdout.splitlines()
    assert stored.removeprefix("stored   ") == measured.removeprefix("measured ")
    asked_for = ["--figure", "map.svg", "--show", "attention", "--run", str(run_dir),
                 "--trust-code"]  # fmt: skip
    assert attnexp("report", "outputs/runs", *asked_for).returncode == 0
    (tmp_path / "decay.py").write_text("raise SystemExit('nobody imports this for a table')")
    assert attnexp("report", "outputs/runs", "--html", "again.html").returncode == 0
    assert attnexp("report", "results/mine").returncode == 0
    (tmp_path / "decay.py").unlink()
    assert "No module named 'decay'" in refused("evaluate", str(run_dir), "--trust-code")


@pytest.mark.slow
def test_chinese_reviews_go_from_an_empty_file_to_a_verdict(
    attnexp: Command, tmp_path: Path
) -> None:
    guide = (ROOT / "docs" / "guide.md").read_text()
    page = guide[guide.index("## Texts in Chinese") : guide.index("## Pieces and training")]
    (script,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    prepare, sweep = re.findall(r"^attnexp (.*)$", page, re.MULTILINE)
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    prepared = attnexp(*shlex.split(prepare))
    assert "two tokens at most" not in prepared.stdout
    unfit = attnexp(*shlex.split(prepare.replace("data.tokenizer=characters ", "")))
    assert "two tokens at most (is" in unfit.stdout
    done = attnexp(*shlex.split(sweep), "train.epochs=2")
    assert "helps by at least 0.25" in done.stdout, done.stderr


TWICE = """
import torch
from torch import Tensor
from attnexp.model.seams import Mixer

class Twice(Mixer):
    def __init__(self, d_input: int, d_model: int) -> None:
        super().__init__()
        self.d_output = 2 * d_input
    def forward(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
        return torch.cat([x, x], dim=-1)
"""


def test_a_mixer_may_change_the_width(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_twice.py").write_text(TWICE)
    monkeypatch.syspath_prepend(str(tmp_path))
    for words in (["model=lstm"], ["model=own_twice:Twice"], []):
        model = build_model(compose(["model.before=own_twice:Twice", *words]))
        assert model(torch.ones(3, 9, dtype=torch.int32)).shape == (3,)


BASELINE = """
import torch
from torch import Tensor, nn
from attnexp.model.seams import Baseline

class Prior(Baseline):
    def __init__(self, vocab_size: int, *, shift: float = 0.5) -> None:
        super().__init__()
        self.shift = shift
        self.logit = nn.Parameter(torch.zeros(()))
    def fit(self, ids: Tensor, labels: Tensor) -> None:
        with torch.no_grad():
            self.logit.copy_(labels.mean().logit() + self.shift)
    def forward(self, ids: Tensor) -> Tensor:
        return self.logit.expand(len(ids))
"""


def test_a_baseline_of_ones_own_is_fitted_kept_and_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_prior.py").write_text(BASELINE)
    monkeypatch.syspath_prepend(str(tmp_path))
    words = ["model=own_prior:Prior", "data=contrast", f"out={tmp_path}", "data.limit_train=64"]
    run_dir, result = train_run(compose([*words, "model.shift=2"]))
    assert (len(result.epochs), result.parameters, result.test.accuracy) == (1, 1, 0.5)
    assert result.final.train_loss == pytest.approx((math.log1p(math.e**2) * 2 - 2) / 2)
    assert evaluate_run(run_dir, trust_code=True) == (result.test, result.test)


BROKEN = """
import torch
from torch import Tensor
from attnexp.model.seams import Mixer

class Raises(Mixer):
    def __init__(self, d_input: int, d_model: int) -> None:
        super().__init__()
        self.d_output = d_input
    def forward(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
        if self.training:
            raise KeyError("no such key")
        return x
"""


def test_what_a_piece_does_wrong_is_told_alike_by_train_and_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own_broken.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(str(tmp_path))
    for command in (["train"], ["sweep", "seed=0", "executor.workers=1"]):
        out = tmp_path / command[0]
        words = ["experiment=smoke", "model.before=own_broken:Raises", f"out={out}"]
        assert exit_code(*command, *words) in (1, 2)
        message = capsys.readouterr().err
        assert "own_broken:Raises" in message
        assert "own_broken.py:12: KeyError: 'no such key'" in message
        assert "Traceback" not in message
        (log,) = out.rglob("run.log")
        assert "Traceback" in log.read_text()
