"""Pieces of one's own: what they may do, and what is refused."""

import re
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from conftest import Command, Json, OwnModule, Patch, Refused

from attnexp.config.compose import compose
from attnexp.network.build import build_model
from attnexp.training import loop

OWN = """
import torch
from torch import Tensor, nn
from attnexp.model.seams import Mixer, Network

class Twice(Mixer):
    def __init__(self, d_input: int, d_model: int) -> None:
        super().__init__()
        self.d_output = 2 * d_input
    def forward(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
        return torch.cat([x, x], dim=-1)

class Raises(Twice):
    def forward(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
        if self.training:
            raise KeyError("no such key")
        return super().forward(x, key_padding_mask)

class Bag(Network):
    def __init__(self, vocab_size: int, num_tokens: int, num_classes: int, *, heads: int = 4,
                 vectors: str = "none", keep: float = 0.9) -> None:
        super().__init__()
        self.position = nn.Embedding(num_tokens, heads)
        self.layers = nn.ModuleList([nn.EmbeddingBag(vocab_size, heads), nn.Dropout(1 - keep)])
        self.output = nn.Linear(heads, num_classes)
    def forward(self, ids: Tensor) -> Tensor:
        vectors = self.layers[0](ids) + self.position(torch.arange(ids.shape[1])).mean(0)
        return self.output(self.layers[1](vectors))

class LogOdds(Bag):
    def forward(self, ids: Tensor) -> Tensor:
        logits = super().forward(ids)
        return logits[:, 1] - logits[:, 0]
"""
FEW = "data=contrast data.limit_train=64 data.limit_test=64 train.threads=1 train.epochs=2".split()


@pytest.fixture
def own(own_module: OwnModule) -> str:
    return own_module(OWN)


def test_a_mixer_may_change_the_width(own: str) -> None:
    for words in (["model=lstm"], [f"model={own}:Twice"], []):
        model = build_model(compose([f"model.before={own}:Twice", *words]))
        assert model(torch.ones(3, 9, dtype=torch.int32)).shape == (3,)


def test_a_network_is_trained_resumed_and_read_like_ours(
    own: str, here: Command, here_json: Json, refused: Refused, monkeypatch: Patch
) -> None:
    """Its settings and attributes have names of ours, which mean nothing there."""
    words = [f"model={own}:Bag", "model.vectors=mine", *FEW]
    with monkeypatch.context() as patch:
        patch.setattr(loop, "measure_epoch", Mock(side_effect=KeyboardInterrupt))
        assert here("train", *words).returncode == 130
    trained = here("train", *words)
    assert trained.returncode == 0, trained.stderr
    (folder,) = re.findall(r"^Results: (.*)$", trained.stdout, re.MULTILINE)
    result = here_json("train", *words)
    assert result["provenance"]["resumed"] == ["the end of epoch 1"]
    assert (result["provenance"]["path"], result["label"].split()[1]) == ("reference", "Bag")
    stored, measured = here("evaluate", folder, "--trust-code").stdout.splitlines()
    assert stored.removeprefix("stored   ") == measured.removeprefix("measured ")
    answer = here("predict", folder, "the cast was superb", "--trust-code").stdout
    assert re.match(r"(positive|negative) 0\.\d{4} .* superb", answer)
    assert "Bag" in here("report", folder).stdout
    probed = here("probe", folder, "--do", "uniform", "--trust-code").stdout
    assert "no attention" in " ".join(probed.split())
    assert "--trust-code" in refused("predict", folder, "the cast was superb")


def test_logits_of_two_classes_are_two_or_their_difference(own: str) -> None:
    ids = torch.randint(0, 99, (3, 24), dtype=torch.int32)
    bag = build_model(compose(f"model={own}:Bag", *FEW)).eval()
    log_odds = build_model(compose(f"model={own}:LogOdds", *FEW)).eval()
    log_odds.load_state_dict(bag.state_dict())
    assert bag(ids).shape == (3,)
    assert torch.equal(bag(ids), log_odds(ids))
    of_five = build_model(compose(f"model={own}:Bag", *FEW), num_classes=5)
    assert of_five(ids).shape == (3, 5)


@pytest.mark.slow
@pytest.mark.parametrize("words", [["train"], ["sweep", "seed=0", "executor.workers=1"]])
def test_train_and_sweep_tell_what_a_piece_does(
    own: str, here: Command, tmp_path: Path, words: list[str]
) -> None:
    line = 1 + OWN[: OWN.index("raise KeyError")].count("\n")
    done = here(*words, "experiment=smoke", f"model.before={own}:Raises")
    assert done.returncode in (1, 2)
    assert f"{own}:Raises" in done.stderr
    assert f"{own}.py:{line}: KeyError: 'no such key'" in done.stderr
    assert "Traceback" not in done.stderr
    (log,) = tmp_path.rglob("run.log")
    assert "Traceback" in log.read_text()
