"""What a piece gives is held to its seam, and an error names the piece."""

import math
from functools import cache
from pathlib import Path

import pytest
import torch
from samples import each_once
from torch import nn

from attnexp.base.errors import UserError
from attnexp.config.compose import compose
from attnexp.config.options import groups
from attnexp.config.schema import RunConfig
from attnexp.model.classifier import build_model, take_fast_path
from attnexp.model.verify import check_pieces, explain, first_not_finite

SMALL = "data=contrast data.max_len=9 model.d_model=8".split()
IDS = torch.randint(1, 30, (3, 9), generator=torch.Generator().manual_seed(0))

PIECES = """
import torch
from torch import nn
from attnexp.model import seams

class Bias(seams.ScoreBias):
    def __init__(self, num_heads: int) -> None: super().__init__()
    def forward(self, positions): return torch.zeros(2, 9)
class Joined(seams.JoinedPosition):
    def __init__(self, max_len: int, d_model: int) -> None:
        super().__init__()
        self.d_output = d_model
    def forward(self, x, positions): return x[:, :5]
class Turn(seams.Rotation):
    def __init__(self, d_head: int) -> None: super().__init__()
    def forward(self, x, positions): return x[..., :4]
class Floats(seams.Mask):
    def __call__(self, query, key): return (key <= query).float()
class Row(seams.Mask):
    def __call__(self, query, key): return torch.ones(3, 9, dtype=torch.bool)
class Mix(seams.Mixer):
    def __init__(self, d_input: int, d_model: int) -> None:
        super().__init__()
        self.d_output = d_model
    def forward(self, x, key_padding_mask): return x.mean(dim=1)
class Whole(Mix):
    def forward(self, x, key_padding_mask): return x.long()
class Pair(Mix):
    def forward(self, x, key_padding_mask): return x, x
class Pool(seams.Pooling):
    def forward(self, x, key_padding_mask): return x
class Match(seams.Score):
    def __init__(self, num_heads: int, d_query: int, d_key: int, d_head: int) -> None:
        super().__init__()
    def forward(self, q, k): return (q @ k.mT).mean(dim=1)
class Words(seams.Embedding):
    def __init__(self, vocab_size: int, d_model: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model + 1)
    def forward(self, ids): return self.table(ids)
class Layer(nn.Module):
    def forward(self, x, key_padding_mask, allowed, positions): return x.sum(dim=1)
class Own(seams.Layers):
    def __init__(self, d_input: int, d_model: int, context: seams.LayerContext, *, depth: int = 1):
        super().__init__(Layer() for _ in range(depth))
        self.d_output = d_input
class Breaks(Mix):
    def forward(self, x, key_padding_mask):
        return helper(x)
def helper(x):
    return x @ x  # the line
class BreaksBelow(Mix):
    def forward(self, x, key_padding_mask):
        exec(compile("0 / 0", "", "exec"))  # that line
class BreaksInside(seams.Layers):
    def __init__(self, d_input: int, d_model: int, context: seams.LayerContext) -> None:
        super().__init__([Raises()])
        self.d_output = d_input
class Raises(nn.Module):
    def forward(self, x, key_padding_mask, allowed, positions):
        raise KeyError("no such thing")  # this line
class Same(nn.Module):
    def forward(self, x, key_padding_mask, allowed, positions): return x
class Works(seams.Layers):
    def __init__(self, d_input: int, d_model: int, context: seams.LayerContext) -> None:
        super().__init__([Same()])
        self.d_output = d_input
class Nan(Mix):
    def forward(self, x, key_padding_mask): return x / 0
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module of the user's that holds `PIECES`."""
    name = f"own_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(PIECES)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def built(own: str, words: str) -> nn.Module:
    return build_model(composed_once(*SMALL, *words.replace("own:", f"{own}:").split()))


@cache
def composed_once(*words: str) -> RunConfig:
    return compose(words)


WRONG = {
    "position=own:Bias": "Bias (ScoreBias) returned (2, 9), wanted (8, 9, 9) or (B, 8, 9, 9).",
    "position=own:Joined": "Joined (JoinedPosition) returned (3, 5, 8), wanted (3, 9, 8).",
    "position=own:Turn": "Turn (Rotation) returned (3, 8, 9, 4), wanted (3, 8, 9, 16).",
    "mask=own:Floats": "Floats (Mask) returned torch.float32, wanted torch.bool.",
    "mask=own:Row": "Row (Mask) returned (3, 9), wanted (9, 9).",
    "model=own:Mix": "Mix (Mixer) returned (3, 8), wanted (3, 9, 8).",
    "model.before=own:Whole": "Whole (Mixer) returned torch.int64, wanted floating-point numbers.",
    "model.before=own:Pair": "Pair (Mixer) returned tuple, wanted a tensor.",
    "model.pooling=own:Pool": "Pool (Pooling) returned (3, 9, 128), wanted (3, 128).",
    "model.score=own:Match": "Match (Score) returned (3, 9, 9), wanted (3, 8, 9, 9).",
    "model=own:Words": "Words (Embedding) returned (3, 9, 9), wanted (3, 9, 8).",
    "model=own:Own": "Layer (Layers) returned (3, 8), wanted (3, 9, D).",
}


@pytest.mark.parametrize("words", WRONG)
def test_a_wrong_shape_or_type_names_class_seam_and_what_was_wanted(words: str, own: str) -> None:
    with pytest.raises(UserError) as caught:
        check_pieces(built(own, words), IDS)
    assert str(caught.value) == f"{own}:{WRONG[words]}"


@pytest.mark.parametrize(
    ("words", "message", "line"),
    [
        ("model.before=own:Breaks", "Breaks (Mixer) failed", "# the line"),
        ("model.before=own:BreaksBelow", "BreaksBelow (Mixer) failed", "# that line"),
        ("model=own:BreaksInside", "BreaksInside (Layers) failed", "# this line"),
    ],
)
def test_an_error_names_the_piece_with_file_and_line(
    words: str, message: str, line: str, own: str, tmp_path: Path
) -> None:
    number = [line in each for each in PIECES.splitlines()].index(True) + 1
    with pytest.raises(UserError) as caught:
        check_pieces(built(own, words), IDS)
    assert str(caught.value).startswith(f"{own}:{message} at {tmp_path}/{own}.py:{number}: ")
    assert caught.value.__cause__ is not None


def test_an_error_that_is_of_no_piece_is_left_as_it_is(own: str) -> None:
    model = built(own, "")
    for raised in (ValueError("elsewhere"), MemoryError()):
        with pytest.raises(type(raised)) as caught:
            raise raised
        assert explain(caught.value, model) is None


@pytest.mark.parametrize(
    "words",
    [
        *each_once("mask", "model.pooling", "model.score", "position"),
        *(f"model={name}" for name in groups()["model"] if name != "tfidf"),
        *("model=own:Works mask=causal mask.query=true", "model=own:Works position=rotary"),
        "position=alibi position.shuffled=true",
        "position=sinusoidal position.combine=concat model.layers=2 model.layer_dropout=0.2",
    ],
)
def test_right_pieces_pass_and_nothing_is_changed(words: str, own: str) -> None:
    for is_fast in (False, True):
        model = built(own, words).train()
        if is_fast:
            take_fast_path(model)
        torch.manual_seed(0)
        check_pieces(model, IDS)
        assert torch.rand(()) == torch.rand((), generator=torch.Generator().manual_seed(0))
        assert all(module.training for module in model.modules())
        assert not any(module._forward_hooks for module in model.modules())


def test_the_first_piece_that_gives_no_number_is_named(own: str) -> None:
    assert first_not_finite(built(own, ""), IDS) is None
    model = built(own, "model.before=own:Nan")
    assert first_not_finite(model, IDS) == f"mixers.0 ({own}:Nan)"
    model = built(own, "model.layers=2")
    take_fast_path(model)
    with torch.no_grad():
        model.get_parameter("layers.1.attention.q_proj.weight").fill_(math.nan)
    said = "layers.1.attention.score (attnexp.model.scores:DotProduct)"
    assert first_not_finite(model, IDS) == said
