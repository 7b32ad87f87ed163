"""The pooled model by hand: its gradients, in float64, are those of finite differences."""

from typing import Any

import pytest
import torch
from test_oracle import SMALL, redrawn, texts
from torch import Tensor

from attnexp.config.compose import compose
from attnexp.config.schema import Precision
from attnexp.model.scores import Causal, grid
from attnexp.network.build import build_model
from attnexp.network.fast import take_fast_path
from attnexp.network.pooled import PooledAttention, number_words

NUM_TOKENS = 5
PADDING = torch.tensor([[False] * 5, [True, True, False, False, False], [True] * 5])
MASKS = {
    "none": None,
    "causal": ~Causal()(*grid(NUM_TOKENS))[None],
    "padding": PADDING[:, None, :],  # the last text has nothing to look at
    "causal and padding": ~Causal()(*grid(NUM_TOKENS)) | PADDING[:, None, :],  # nor have some rows
}


def inputs(scale: float, *, has_table: bool) -> list[Any]:
    """Rows, table, queries, keys and values of two heads, 3 and 2 wide, with gradients."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(6, 4), (NUM_TOKENS, 4), (2, 3, 4), (2, 3, 4), (2, 2, 4)]
    drawn: list[Any] = [
        torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes
    ]
    drawn[2] *= scale
    drawn = [tensor.requires_grad_() for tensor in drawn]
    if not has_table:
        drawn[1] = None
    return drawn


@pytest.mark.parametrize("has_table", [False, True])
@pytest.mark.parametrize("scale", [1.0, 300.0])
@pytest.mark.parametrize("mask", MASKS)
def test_gradients_are_those_of_finite_differences(
    mask: str, scale: float, has_table: bool
) -> None:
    """With scores of some thousands, too, whose exponentials no float64 holds."""
    generator = torch.Generator().manual_seed(1)
    _, places = number_words(torch.randint(0, 6, (3, NUM_TOKENS), generator=generator), 6)
    shares = torch.rand(3, NUM_TOKENS, generator=generator, dtype=torch.float64)
    pieces = inputs(scale, has_table=has_table)

    def pool(*changed: Tensor) -> Tensor:
        apply: Any = PooledAttention.apply
        y: Tensor = apply(*changed, places, shares, MASKS[mask])
        return y

    assert torch.autograd.gradcheck(pool, pieces)


def test_words_are_numbered_in_order() -> None:
    words, places = number_words(torch.tensor([[7, 2], [2, 0]], dtype=torch.int32), 9)
    assert words.tolist() == [0, 2, 7]
    assert places.tolist() == [[2, 1], [1, 0]]


@pytest.mark.parametrize("words", ["", "position=learned mask=padding_causal", "position=rotary"])
def test_only_the_cpu_in_fp32_goes_by_hand(words: str) -> None:
    config = compose([*SMALL, *words.split()])
    expected = "pooled" if "rotary" in words else "words"
    assert take_fast_path(build_model(config)) == expected
    assert take_fast_path(build_model(config), Precision.bf16) == "pooled"
    assert take_fast_path(build_model(config).to("meta")) == "pooled"


@pytest.mark.parametrize("words", ["", "position=sinusoidal mask=padding_causal"])
def test_float32_is_as_near_to_float64_as_the_reference(words: str) -> None:
    config = compose([*SMALL, *words.split()])
    exact = redrawn(build_model(config))
    reference, by_hand = build_model(config), build_model(config)
    for model in (reference, by_hand):
        model.load_state_dict(exact.state_dict())
    assert take_fast_path(by_hand) == "words"
    logits = exact(texts())
    for model in (reference, by_hand):
        torch.testing.assert_close(model(texts()).double(), logits, rtol=2e-6, atol=2e-6)
