"""What a message says to write instead is a command that works when it is typed."""

import re
import shlex
from pathlib import Path

import pytest
from conftest import Patch
from samples import message_of, write

from attnexp.base.errors import UserError
from attnexp.config.choose import option_as_setting
from attnexp.config.words import HABITS
from attnexp.sweeps.plan import plan

CURES = {
    "n_seeds=3": "'seed=range(3)'",
    "seed=0-3": "'seed=range(0,4)'",
    "'seed=range(3)'": '"seed=range(3)"',
    "“seed=range(3)”": '"seed=range(3)"',
    "seed=range(3)\r": "'seed=range(3)'",
    "seed=range(3)&": "'seed=range(3)'",
    "seed==3": "seed=3",
    "train.lr=0.1 seed=3": "train.lr=0.1 seed=3",
    "position=[none,alibi]": "attnexp sweep position=none,alibi",
    "seed=range(3": "'seed=range(3)'",
    "seed=0,1,": "seed=0,1",
    "out={a": "'out=\"{a\"'",
    "nonsense": "seed=1",
    "data=my.csv": "data=files data.path=my.csv",
    "data=my_texts": "data=files data.path=my_texts",
    "hydra/launcher=submitit_slurm": "attnexp sweep executor=slurm",
    "hydra.run.dir=/x": "out=/x",
    "+hydra.job.name=x": "attnexp config",
    "position._target_=fading.Decay": "position=fading:Decay",
    "position=./fading.py:Decay": "position=fading:Decay",
    "position='./fading.py:Decay'": "position=fading:Decay",
    "position=./fading:Decay": "position=fading:Decay",
    "position=none,./fading.py:Decay,alibi": "position=none,fading:Decay,alibi",
    "executor=local,ray": "local",
    "train.loss=": "train.loss=null",
    "~model.hidden": "model.hidden=null",
    "-m": "attnexp sweep position=none,sinusoidal",
    "--cfg": "attnexp config",
    "--epochs 3": "train.epochs=3",
    "--seed 3": "seed=3",
    "--batch-size 3": "train.batch_size=3",
    "--dropout 0.3": "model.dropout=0.3 or position.dropout=0.3",
    "--data my.csv": "data=files data.path=my.csv",
    "position=fading:Bias": "model.score=fading:Bias",
}
"""What is typed, and what is to be written instead."""

DECAY = """
import torch
from torch import Tensor
from attnexp.model.seams import Score, ScoreBias

class Decay(ScoreBias):
    def __init__(self, num_heads: int) -> None:
        super().__init__()
    def forward(self, positions: Tensor) -> Tensor:
        return torch.zeros(1, len(positions), len(positions))

class Bias(Score):
    def __init__(self, num_heads: int, d_query: int, d_key: int, d_head: int) -> None:
        super().__init__()
    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return q.sum(-1, keepdim=True) + k.sum(-1).unsqueeze(-2)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: Patch) -> Path:
    (tmp_path / "fading.py").write_text(DECAY)
    (tmp_path / "my_texts").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answer(typed: str) -> str:
    if typed.startswith("-"):
        words = typed.split()
        return option_as_setting(words[0].partition("=")[0], ["train", *words])
    return message_of(plan, ["data=contrast", typed])


@pytest.mark.parametrize("typed", CURES)
def test_a_cure_works_when_it_is_typed(typed: str) -> None:
    message = answer(typed)
    cure = CURES[typed]
    assert cure in message
    for alternative in cure.split(" or "):
        words = shlex.split(alternative.removeprefix("attnexp sweep "))
        if words not in (["attnexp", "config"], ["local"]):
            plan(["data=contrast", "position=learned", *words])


@pytest.mark.parametrize("pattern", HABITS)
def test_every_habit_has_an_example(pattern: str) -> None:
    words = [*CURES, *(word for typed in CURES for word in typed.split())]
    assert any(re.fullmatch(pattern, word, re.DOTALL) for word in words)


def test_a_setting_that_one_variant_lacks_makes_a_study(folder: Path) -> None:
    with pytest.raises(UserError, match="Variants without it: position=none") as caught:
        plan(["position=none,sinusoidal", "position.scale=0.04", "data=contrast", "seed=0,1"])
    _, *study, command = str(caught.value).split("\n")
    assert len(study) == 4
    (folder / "mine.yaml").write_text("\n".join(study))
    jobs = plan(shlex.split(command.partition("attnexp sweep ")[2])).jobs
    runs = [f"{job.label} {job.seed}" for job in jobs]
    assert runs == ["none 0", "sinusoidal 0", "none 1", "sinusoidal 1"]
    scales = {getattr(job.config.position, "scale", None) for job in jobs if job.label != "none"}
    assert scales == {0.04}


def test_an_option_that_is_not_there_says_where_it_would_lie(folder: Path) -> None:
    (place,) = re.findall(r"conf/\S+\.yaml", answer("position=kerp"))
    write(folder / place, "kind: fading:Decay\n")
    assert plan(["data=contrast", "position=kerp"]).jobs[0].config.position.kind == "fading:Decay"
