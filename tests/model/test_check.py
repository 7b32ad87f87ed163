"""What a piece gives is held to its seam, and the message names the piece."""

from pathlib import Path
from typing import Any

import pytest
import torch
from test_oracle import SMALL, texts

from attnexp.base.errors import UserError
from attnexp.config.compose import compose
from attnexp.model.check import check_pieces, check_rebuilt, explain, first_not_finite
from attnexp.model.classifier import build_model, take_fast_path

PIECES = """
import torch
from torch import nn
from attnexp.model.seams import *
class Joined(JoinedPosition):
    def __init__(self, max_len: int, d_model: int) -> None:
        super().__init__()
        self.d_output, self.mean = d_model, torch.zeros(d_model)
class Short(Joined):
    def forward(self, x, positions): return x[:, :5]
class AlongBatch(Joined):
    def forward(self, x, positions): return x + torch.arange(len(x))[:, None, None]
class Noisy(Joined):
    def forward(self, x, positions): return nn.functional.dropout(x, 0.5)
class Running(Joined):
    def forward(self, x, positions):
        if self.training: self.mean = x.detach().mean((0, 1)) + 1
        return x - self.mean
class Breaks(Joined):
    def forward(self, x, positions): raise KeyError("no such key")
class Infinite(Joined):
    def forward(self, x, positions): return x / 0
class Bias(ScoreBias):
    def __init__(self, num_heads: int) -> None: super().__init__()
    def forward(self, positions): return torch.zeros(2, 7)
class Turn(Rotation):
    def __init__(self, d_head: int, *, of: str = "none") -> None:
        super().__init__()
        self.linear = nn.LazyLinear(2) if of == "lazy" else None
        self.weight = nn.Parameter(torch.ones(1, dtype=torch.cfloat)) if of == "complex" else None
    def forward(self, x, positions): return x[..., :1]
class Floats(Mask):
    def __call__(self, query, key): return (key <= query).float()
class Row(Mask):
    def __call__(self, query, key): return torch.ones(3, 7, dtype=torch.bool)
class Mix(Mixer):
    def __init__(self, d_input: int, d_model: int) -> None:
        super().__init__()
        self.d_output = d_model
    def forward(self, x, padding): return x.mean(1)
class Whole(Mix):
    def forward(self, x, padding): return x.long()
class Pair(Mix):
    def forward(self, x, padding): return x, x
class Pool(Pooling):
    def forward(self, x, padding): return x
class Match(Score):
    def __init__(self, num_heads: int, d_query: int, d_key: int, d_head: int): super().__init__()
    def forward(self, q, k): return (q @ k.mT).mean(1)
class Words(Embedding):
    def __init__(self, vocab_size: int, d_model: int) -> None: super().__init__()
    def forward(self, ids): return ids[..., None].expand(-1, -1, 9).float()
"""
WRONG = {
    "position=own:Bias": "Bias (ScoreBias) returned (2, 7), wanted (8, 7, 7).",
    "position=own:Short": "Short (JoinedPosition) returned (3, 5, 4), wanted (3, 7, 4).",
    "position=own:Turn": "Turn (Rotation) returned (3, 8, 7, 1), wanted (3, 8, 7, 16).",
    "mask=own:Floats": "Floats (Mask) returned torch.float32, wanted torch.bool.",
    "mask=own:Row": "Row (Mask) returned (3, 7), wanted (7, 7).",
    "model=own:Mix": "Mix (Mixer) returned (3, 4), wanted (3, 7, 4).",
    "model.before=own:Whole": "Whole (Mixer) returned torch.int64, wanted floating-point numbers.",
    "model.before=own:Pair": "Pair (Mixer) returned tuple, wanted a tensor.",
    "model.pooling=own:Pool": "Pool (Pooling) returned (3, 7, 128), wanted (3, 128).",
    "model.score=own:Match": "Match (Score) returned (3, 7, 7), wanted (3, 8, 7, 7).",
    "model=own:Words": "Words (Embedding) returned (3, 7, 9), wanted (3, 7, 4).",
    "position=own:AlongBatch": "AlongBatch (JoinedPosition) mixes the texts of a batch",
    "position=own:Noisy": "Noisy (JoinedPosition) draws at random in evaluation",
    "position=own:Turn position.of=lazy": "Turn cannot be built: its parameter 'linear.weight' is",
    "position=own:Turn position.of=complex": "Turn cannot be built: its parameter 'weight' is",
}


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of a module that holds the pieces."""
    (tmp_path / f"own_{tmp_path.name}.py").write_text(PIECES)
    monkeypatch.syspath_prepend(str(tmp_path))
    return f"own_{tmp_path.name}"


def composed(own: str, words: str) -> Any:
    return compose([*SMALL, *words.replace("own:", f"{own}:").split()])


@pytest.mark.parametrize("words", WRONG)
def test_what_a_piece_does_wrong_is_said_with_class_and_seam(words: str, own: str) -> None:
    with pytest.raises(UserError) as caught:
        check_pieces(build_model(composed(own, words)), texts())
    assert str(caught.value).startswith(f"{own}:{WRONG[words]}")


def test_state_outside_the_weights_is_found_after_training(own: str) -> None:
    config = composed(own, "position=own:Running")
    model = build_model(config)
    take_fast_path(model)
    check_pieces(model, texts())
    check_rebuilt(model, config, 2, texts())
    model.train()(texts())
    with pytest.raises(UserError, match=r"Running \(JoinedPosition\) keeps state outside its"):
        check_rebuilt(model, config, 2, texts())


def test_an_error_and_a_nan_name_the_piece(own: str, tmp_path: Path) -> None:
    model = build_model(composed(own, "position=own:Breaks"))
    with pytest.raises(KeyError) as caught:
        model(texts())
    explained = explain(caught.value, model)
    line = [*PIECES.splitlines()].index(next(x for x in PIECES.splitlines() if "KeyError" in x)) + 1
    where = f"{tmp_path}/{own}.py:{line}"
    assert str(explained) == (
        f"{own}:Breaks (JoinedPosition) failed at {where}: KeyError: 'no such key'"
    )
    assert explain(ValueError("elsewhere"), model) is explain(MemoryError(), model) is None
    model = build_model(composed(own, "position=own:Infinite"))
    assert first_not_finite(model, texts()) == f"{own}:Infinite (JoinedPosition)"
    assert first_not_finite(build_model(composed(own, "")), texts()) is None


@pytest.mark.parametrize(
    "words",
    [
        *("", "model=lstm", "model=fasttext", "model.layers=2", "mask=causal mask.query=true"),
        *("position=alibi position.shuffled=true", "position=relative", "position=rotary"),
        "position=sinusoidal position.combine=concat model.before=cnn model.pooling=cls",
    ],
)
def test_right_pieces_pass_on_either_path_and_nothing_is_changed(words: str, own: str) -> None:
    config = composed(own, words)
    for is_fast in (False, True):
        model = build_model(config).train()
        assert not is_fast or take_fast_path(model)
        torch.manual_seed(0)
        check_pieces(model, texts())
        assert torch.rand(()) == torch.rand((), generator=torch.Generator().manual_seed(0))
        assert all(module.training for module in model.modules())
        assert not any(module._forward_hooks for module in model.modules())
        if is_fast:
            check_rebuilt(model, config, 2, texts())
