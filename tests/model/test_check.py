"""What a piece gives is held to its seam, and the message names the piece."""

import pickle
import random
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from conftest import OwnModule
from samples import message_of
from test_oracle import SMALL, texts

from attnexp.config.compose import compose
from attnexp.network.build import build_model
from attnexp.network.check import check_model, check_start
from attnexp.network.guard import guard

SEAMS = {
    "JoinedPosition": ("max_len, d_model", "self.d_output = d_model"),
    "Rotation": ("d_head", "pass"),
    "ScoreBias": ("num_heads", "pass"),
    "Mask": ("", "Own.__call__ = Own.forward"),
    "Mixer": ("d_input, d_model", "self.d_output = d_model"),
    "Pooling": ("d_input", "pass"),
    "Embedding": ("vocab_size, d_model", "pass"),
    "Score": ("num_heads, d_query, d_key, d_head", "pass"),
    "Layers": ("d_input, d_model, context", "self.d_output = d_input"),
}
"""What a piece of each seam is given, and a line of its constructor."""
FILE = """import random, numpy as np, torch
from torch import nn
from attnexp.model import seams
class Own(seams.{}):
    def __init__(self, {}):
        {}
        {}
        {}
    def forward(self, x, *others):
        {}
        return {}
"""
BIAS, TURN, MASK = ("position", "ScoreBias"), ("position", "Rotation"), ("mask", "Mask")
JOIN, MIX, BEFORE = ("position", "JoinedPosition"), ("model", "Mixer"), ("model.before", "Mixer")
POOL, SCORE = ("model.pooling", "Pooling"), ("model.score", "Score")
EMBED, LAYERS = ("model", "Embedding"), ("model", "Layers")
WRONG = [
    (*BIAS, "torch.zeros(2, 7)", "RuntimeError: The size of tensor a (7) must match"),
    (*TURN, "x[..., :1]", "Own returned (3, 8, 7, 1), wanted (3, 8, 7, 16)."),
    (*MASK, "(x > 0).float()", "Own returned torch.float32, wanted torch.bool."),
    (*MASK, "others[0] < x", "Own leaves a query no key to see."),
    (*MASK, "(torch.rand(7, 7) < 0.5) | (x == others[0])", "Own gives other logits when asked"),
    (*MIX, "x.mean(1)", "Own returned (3, 4), wanted (3, 7, 4)."),
    (*BEFORE, "(x, x)", "Own returned tuple, wanted torch.float32."),
    (*POOL, "x", "Own returned (3, 7), wanted (3,)."),
    (*POOL, "x.mean(1).squeeze()", "Own returned (), wanted (1,)."),
    (*POOL, "x.sum(1) / 0", "Own returned logits that are not finite"),
    (*EMBED, "x[..., None].float()", "Own returned (3, 7, 1), wanted (3, 7, 4)."),
    (*SCORE, "x[..., :1, :] @ others[0].mT", "Own returned (3, 8, 1, 7), wanted (3, 8, 7, 7)."),
    (*LAYERS, "x", "x = nn.Identity(); x.forward = lambda x, *_: x[:, :1]; self.append(x)",
     "Own returned (3, 1, 4), wanted (3, 7, 4)."),
    (*JOIN, "x[:, :5]", "Own returned (3, 5, 4), wanted (3, 7, 4)."),
    (*JOIN, "x + torch.arange(3.)[: len(x), None, None]", "Own mixes the texts of a batch"),
    (*JOIN, "x", "self.w = nn.LazyLinear(2)", "an uninitialized parameter"),
    (*JOIN, "x", "self.w = nn.Parameter(torch.zeros(1).bfloat16())", "parameter 'w' is torch.bfl"),
    (*JOIN, "x", "self.w = nn.Parameter(torch.tensor([np.inf, np.random.default_rng().random()]))",
     "position.w does not start from its seed"),
    (*JOIN, "x", "torch.manual_seed(23)", ":Own seeds torch: it would start alike with every"),
    (*JOIN, "x + self.t", "pass", "self.register_buffer('t', torch.ones(1))", "Unexpected key(s)"),
]  # fmt: skip
"""What a piece may not do: option, seam, what forward returns, lines of both; and the message."""
FIT = [
    (*MASK, "x + others[0] >= 0", "Own.__setattr__ = lambda *_: 1 / 0"),  # as frozen dataclasses
    (*JOIN, "x + self.w",
     "self.w = nn.Parameter(torch.tensor(np.random.rand() + random.random()))"),
    (*JOIN, "x + self.n.sum()", "self.register_buffer('n', torch.arange(0))", "others[0].add_(1)"),
    (*JOIN, "self.p(x) + z", "self.p = nn.Dropout(0.5)", "z = torch.rand(1) * self.training"),
]  # fmt: skip


@pytest.fixture
def own(own_module: OwnModule) -> Any:
    """A config with a piece of one's own."""

    def config(
        option: str, seam: str, returned: str, constructor: str = "pass", line: str = "pass"
    ) -> Any:
        arguments, usual = SEAMS[seam]
        start = "nn.Module.__init__(self)" if arguments else "pass"
        text = FILE.format(seam, arguments, start, usual, constructor, line, returned)
        name = own_module(text)
        return compose([*SMALL, f"{option}={name}:Own"])

    return config


def check(config: Any) -> None:
    """All checks, around a step of training."""
    with guard(["Own"]), torch.random.fork_rng():
        model, fresh = build_model(config), build_model(config)
        check_start(model, fresh)
        check_model(model, fresh, texts(), 2)
        model.train()(texts())
        check_model(model, fresh, texts(), 2)
        assert all(module.training for module in model.modules())


@pytest.mark.parametrize("case", WRONG)
def test_what_a_piece_does_wrong_is_said(case: tuple[str, ...], own: Any) -> None:
    *piece, said = case
    assert said in message_of(lambda: check(own(*piece)))


@pytest.mark.parametrize("piece", FIT)
def test_what_follows_its_seed_passes(piece: Any, own: Any) -> None:
    """And leaves the global streams where they are."""

    def states() -> tuple[Any, ...]:
        numpy = pickle.dumps(np.random.get_state())
        return numpy, random.getstate(), torch.get_rng_state().tolist()

    before = states()
    check(own(*piece))
    assert states() == before


IN_PLACE = [
    (*BEFORE, "x * others[0].logical_not_()[..., None]"),
    (*EMBED, "x.remainder_(3)[..., None].expand(-1, -1, 4).float()"),
]


@pytest.mark.parametrize("piece", IN_PLACE)
def test_ids_and_masks_are_copies_for_pieces(piece: tuple[str, str, str], own: Any) -> None:
    ids = texts()
    model: Any = build_model(own(*piece))
    hook = Mock(return_value=None)
    model.pool.register_forward_pre_hook(hook)
    model(ids)
    assert torch.equal(ids, texts())
    _, (_, mask) = hook.call_args.args
    assert torch.equal(mask, texts() == 0)
