"""What a piece gives is held to its seam, and the message names the piece."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from test_oracle import SMALL, composed, covering, texts

from attnexp.base.errors import UserError
from attnexp.config.compose import compose
from attnexp.network.build import build_model
from attnexp.network.check import check_pieces, check_rebuilt, explain
from attnexp.network.fast import take_fast_path

SEAMS = {
    "Joined": ("JoinedPosition", "max_len: int, d_model: int",
              "self.d_output, self.steps = d_model, torch.zeros(())"),
    "Lazy": ("Rotation", "d_head: int", "self.w = nn.LazyLinear(2)"),
    "Complex": ("Rotation", "d_head: int", "self.w = nn.Parameter(torch.zeros(1) + 0j)"),
    "Turned": ("Rotation", "d_head: int", ""),
    "Biased": ("ScoreBias", "num_heads: int", ""),
    "Masked": ("Mask", "", "Own.__call__ = Own.forward"),
    "Mixed": ("Mixer", "d_input: int, d_model: int", "self.d_output = d_model"),
    "Pooled": ("Pooling", "d_input: int", ""),
    "Scored": ("Score", "num_heads: int, d_query: int, d_key: int, d_head: int", ""),
    "Embedded": ("Embedding", "vocab_size: int, d_model: int", ""),
}  # fmt: skip
"""Seams, with what a piece is given and its constructor."""
FILE = """import torch
from torch import nn
from attnexp.model.seams import *
class Own({}):
    def __init__(self, {}) -> None: nn.Module.__init__(self) if {!r} else None; {}
    def forward(self, x, *others): return {}
"""
TINY = "torch.full((8, 7, 7), {}torch.inf).triu(1) + 1e-6 * torch.rand(8, 7, 7)"
"""What is infinite is no measure of the rest."""
Own = Callable[[str, str, str], Any]
WRONG = [
    ("position", "Biased", "torch.zeros(2, 7)", "(ScoreBias) returned (2, 7), wanted (8, 7, 7)."),
    ("position", "Turned", "x[..., :1]", "returned (3, 8, 7, 1), wanted (3, 8, 7, 16)."),
    ("mask", "Masked", "(x > 0).float()", "(Mask) returned torch.float32, wanted torch.bool."),
    ("mask", "Masked", "torch.zeros(3, 7) > 0", "(Mask) returned (3, 7), wanted (7, 7)."),
    ("model", "Mixed", "x.mean(1)", "(Mixer) returned (3, 4), wanted (3, 7, 4)."),
    ("model.before", "Mixed", "x.long()", "returned torch.int64, wanted floating-point numbers."),
    ("model.before", "Mixed", "(x, x)", "(Mixer) returned tuple, wanted a tensor."),
    ("model.pooling", "Pooled", "x", "(Pooling) returned (3, 7, 128), wanted (3, 128)."),
    ("model.score", "Scored", "x.mean(1)", "(Score) returned (3, 7, 16), wanted (3, 8, 7, 7)."),
    ("model", "Embedded", "x[..., None].float()", "returned (3, 7, 1), wanted (3, 7, 4)."),
    ("position", "Joined", "x[:, :5]", "(JoinedPosition) returned (3, 5, 4), wanted (3, 7, 4)."),
    ("position", "Joined", "x + torch.arange(3.)[: len(x), None, None]", "mixes the texts of a"),
    ("position", "Joined", "x - x.mean(0, keepdim=True)", "mixes the texts of a batch"),
    ("position", "Joined", "nn.functional.dropout(x, 0.5)", "draws at random in evaluation"),
    ("position", "Biased", TINY.format("-"), "draws at random in evaluation"),
    ("position", "Biased", TINY.format(""), "draws at random in evaluation"),
    ("position", "Lazy", "x", "cannot be built: its parameter 'w.weight' is lazy, and"),
    ("position", "Complex", "x", "cannot be built: its parameter 'w' is torch.complex64, and"),
]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Own:
    """A config with a piece of one's own, of a base and with what its forward returns."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def config(place: str, base: str, returned: str) -> Any:
        name = f"own_{tmp_path.name}"
        seam, given, then = SEAMS[base]
        file = FILE.format(seam, given, given, then, returned)
        (tmp_path / f"{name}.py").write_text(file)
        return compose([*SMALL, f"{place}={name}:Own"])

    return config


@pytest.mark.parametrize(("piece", "said"), [(tuple(piece), said) for *piece, said in WRONG])
def test_what_a_piece_does_wrong_is_said(piece: tuple[str, str, str], said: str, own: Own) -> None:
    with pytest.raises(UserError) as caught:
        check_pieces(build_model(own(*piece)), texts())
    assert ":Own " in str(caught.value)
    assert said in str(caught.value)


def test_state_outside_the_weights_is_found_after_training(own: Own) -> None:
    config = own("position", "Joined", "x + self.steps.add_(self.training)")
    model = build_model(config)
    take_fast_path(model)
    check_pieces(model, texts())
    check_rebuilt(model, config, 2, texts())
    model.train()(texts())
    with pytest.raises(UserError, match=r":Own \(JoinedPosition\) keeps state outside its"):
        check_rebuilt(model, config, 2, texts())


def test_an_error_names_the_piece_and_its_line(own: Own, tmp_path: Path) -> None:
    model = build_model(own("position", "Joined", "{}['no such key']"))
    with pytest.raises(KeyError) as caught:
        model(texts())
    said = str(explain(caught.value, model))
    assert f":Own (JoinedPosition) failed at {tmp_path}/own_{tmp_path.name}.py:6: KeyError" in said
    assert explain(ValueError("elsewhere"), model) is explain(MemoryError(), model) is None


@pytest.mark.parametrize("words", covering()[::9])
def test_right_pieces_pass_and_nothing_is_changed(words: str) -> None:
    config = composed(words)
    assert config is not None
    model = build_model(config).train()
    take_fast_path(model)
    torch.manual_seed(0)
    check_pieces(model, texts())
    assert torch.rand(()) == torch.rand((), generator=torch.Generator().manual_seed(0))
    assert all(module.training for module in model.modules())
    assert not any(module._forward_hooks for module in model.modules())
    check_rebuilt(model, config, 2, texts())
