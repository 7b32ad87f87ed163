"""What a piece gives is held to its seam, and the message names the piece."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from conftest import OwnModule
from samples import message_of
from test_oracle import COMBINATIONS, SMALL, texts
from torch import Tensor, nn

from attnexp.config.compose import compose
from attnexp.network.build import build_model
from attnexp.network.check import check_model, check_stored, compare_weights
from attnexp.network.fast import take_fast_path

SEAMS = {
    "Joined": ("JoinedPosition", "max_len: int, d_model: int", "self.d_output = d_model"),
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
Own = Callable[[str, str, str], Any]
WRONG = [
    ("position", "Biased", "torch.zeros(2, 7)", "(ScoreBias) returned (2, 7), wanted (8, 7, 7)."),
    ("position", "Turned", "x[..., :1]", "returned (3, 8, 7, 1), wanted (3, 8, 7, 16)."),
    ("mask", "Masked", "(x > 0).float()", "(Mask) returned torch.float32, wanted torch.bool."),
    ("mask", "Masked", "torch.zeros(3, 7) > 0", "(Mask) returned (3, 7), wanted (7, 7)."),
    ("mask", "Masked", "others[0] < x", "(Mask) leaves a query no key to see."),
    ("mask", "Masked", "(torch.rand(7, 7) < 0.5) | (x == others[0])", "when asked again"),
    ("model", "Mixed", "x.mean(1)", "(Mixer) returned (3, 4), wanted (3, 7, 4)."),
    ("model.before", "Mixed", "x.long()", "returned torch.int64, wanted torch.float32."),
    ("model.before", "Mixed", "(x, x)", "(Mixer) returned tuple, wanted torch.float32."),
    ("model.score", "Scored", "(x @ others[0].mT).half()", "(Score) returned torch.float16"),
    ("model.score", "Scored", "x.mean(1)", "(Score) returned (3, 7, 16), wanted (3, 8, 7, 7)."),
    ("model.pooling", "Pooled", "x", "(Pooling) returned (3, 7, 128), wanted (3, 128)."),
    ("model.pooling", "Pooled", "x.sum(1) / 0", "returned logits that are not finite."),
    ("model", "Embedded", "x[..., None].float()", "returned (3, 7, 1), wanted (3, 7, 4)."),
    ("position", "Joined", "x[:, :5]", "(JoinedPosition) returned (3, 5, 4), wanted (3, 7, 4)."),
    ("position", "Joined", "x + torch.arange(3.)[: len(x), None, None]", "mixes the texts of a"),
    ("position", "Joined", "nn.functional.dropout(x, 0.5)", "when asked again"),
    ("position", "Lazy", "x", "parameter 'w.weight' must be a torch.float32 of known shape."),
    ("position", "Complex", "x", "parameter 'w' must be a torch.float32 of known shape."),
]


@pytest.fixture
def own(own_module: OwnModule) -> Own:
    """A config with a piece of one's own, of a base and with what its forward returns."""

    def config(place: str, base: str, returned: str) -> Any:
        seam, arguments, then = SEAMS[base]
        name = own_module(FILE.format(seam, arguments, arguments, then, returned))
        return compose([*SMALL, f"{place}={name}:Own"])

    return config


@pytest.mark.parametrize(("piece", "said"), [(tuple(piece), said) for *piece, said in WRONG])
def test_what_a_piece_does_wrong_is_said(piece: tuple[str, str, str], said: str, own: Own) -> None:
    message = message_of(lambda: check_model(build_model(own(*piece)), texts(), 2))
    assert ":Own" in message
    assert said in message


class Rounded(nn.Module):
    def forward(self, ids: Tensor) -> Tensor:
        return ids[:, 0] - 4.0 + 1e-7 * len(ids)


def test_rounding_of_a_logit_near_zero_mixes_no_texts() -> None:
    check_model(Rounded(), torch.tensor([[3], [4], [5]]), 2)


TRIAL = """import random, numpy as np, torch
from torch import nn
from attnexp.model.seams import *
class Own(JoinedPosition):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.d_output = d_model
        {}
    def forward(self, x, positions):
        {}
        return {}
"""
UNFIT = [
    ("self.w = nn.Parameter(torch.rand(1) * np.random.default_rng().random())", "", "x + self.w",
     "position.w does not start from its seed"),
    ("torch.manual_seed(23)", "", "x", ":Own seeds torch: it would start alike with every seed."),
    ("", "self.register_buffer('t', torch.ones(1))", "x + self.t", "Make them in __init__."),
    ("self.steps = 0", "self.steps += self.training", "x * (1 + self.steps)",
     "keeps state outside its parameters and buffers"),
    ("self.w = nn.Parameter(torch.ones(4, dtype=torch.bfloat16))", "", "x + self.w",
     "parameter 'w' must be a torch.float32"),
]  # fmt: skip
"""What cannot be stored or repeated: constructor, a line of forward, what it returns, message."""
FIT = [
    ("self.w = nn.Parameter(torch.tensor(np.random.rand() + random.random()))", "", "x + self.w"),
    ("self.register_buffer('n', torch.tensor(0))", "positions += 1", "x + self.n"),
    ("self.p = nn.Dropout(0.5)", "noise = torch.rand(1) * self.training", "self.p(x) + noise"),
]


@pytest.fixture
def tried(own_module: OwnModule) -> Callable[..., None]:
    """All checks, around a step of training, with a position of one's own."""

    def run(*lines: str) -> None:
        name = own_module(TRIAL.format(*(line or "pass" for line in lines)))
        config = compose([*SMALL, f"position={name}:Own", "model.d_model=4"])
        with torch.random.fork_rng():
            model, twin = build_model(config), build_model(config)
            compare_weights(model, twin)
            check_model(model, texts(), 2)
            model.train()(texts())
            check_stored(model, twin, texts(), 2)

    return run


@pytest.mark.parametrize("lines", UNFIT)
def test_what_cannot_be_stored_or_repeated_is_said(
    lines: tuple[str, ...], tried: Callable[..., None]
) -> None:
    *piece, said = lines
    assert said in message_of(tried, *piece)


@pytest.mark.parametrize("lines", FIT)
def test_what_follows_its_seed_passes(lines: tuple[str, ...], tried: Callable[..., None]) -> None:
    """And leaves the global streams of numpy and Python where they are."""

    def states() -> list[str]:
        numpy: Any = np.random.get_state()
        return [str([*numpy[1], numpy[2]]), str(random.getstate())]

    before = states()
    tried(*lines)
    assert states() == before


@pytest.mark.parametrize(
    "piece",
    [
        ("model.before", "Mixed", "x * others[0].logical_not_()[..., None]"),
        ("model", "Embedded", "x.remainder_(3)[..., None].expand(-1, -1, 4).float()"),
    ],
)
def test_ids_and_masks_are_copies_for_pieces(piece: tuple[str, str, str], own: Own) -> None:
    ids = texts()
    masks: list[Tensor] = []
    model: Any = build_model(own(*piece))
    model.pool.register_forward_pre_hook(lambda _, inputs: masks.append(inputs[1]))
    model(ids)
    assert torch.equal(ids, texts())
    assert torch.equal(masks[0], texts() == 0)


@pytest.mark.parametrize("words", COMBINATIONS[::9])
def test_right_pieces_pass_and_nothing_is_changed(words: str) -> None:
    model = build_model(compose([*SMALL, *words.split()])).train()
    take_fast_path(model)
    torch.manual_seed(0)
    check_model(model, texts(), 2)
    assert torch.rand(()) == torch.rand((), generator=torch.Generator().manual_seed(0))
    assert all(module.training for module in model.modules())
    assert not any(module._forward_hooks for module in model.modules())
