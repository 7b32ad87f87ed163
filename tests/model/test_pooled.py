"""The pooled model by hand: its gradients, in float64, are those of finite differences."""

from typing import Any

import pytest
import torch
from test_oracle import SMALL
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


def inputs(*, has_table: bool) -> list[Any]:
    """Rows, table, large queries, keys and values of two heads, 3 and 2 wide, with gradients."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(6, 4), (NUM_TOKENS, 4), (2, 3, 4), (2, 3, 4), (2, 2, 4)]
    drawn: list[Any] = [
        torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes
    ]
    drawn[2] *= 300
    drawn = [tensor.requires_grad_() for tensor in drawn]
    if not has_table:
        drawn[1] = None
    return drawn


@pytest.mark.parametrize("has_table", [False, True])
@pytest.mark.parametrize("mask", MASKS)
def test_gradients_are_those_of_finite_differences(mask: str, has_table: bool) -> None:
    """With scores of some thousands, whose exponentials no float64 holds."""
    generator = torch.Generator().manual_seed(1)
    _, places = number_words(torch.randint(0, 6, (3, NUM_TOKENS), generator=generator), 6)
    shares = torch.rand(3, NUM_TOKENS, generator=generator, dtype=torch.float64)
    pieces = inputs(has_table=has_table)

    def pool(*changed: Tensor) -> Tensor:
        apply: Any = PooledAttention.apply
        y: Tensor = apply(*changed, places, shares, MASKS[mask])
        return y

    assert torch.autograd.gradcheck(pool, pieces)


@pytest.mark.parametrize("words", ["", "position=learned mask=padding_causal", "position=rotary"])
def test_only_the_cpu_in_fp32_goes_by_hand(words: str) -> None:
    config = compose([*SMALL, *words.split()])
    expected = "pooled" if "rotary" in words else "words"
    assert take_fast_path(build_model(config)) == expected
    assert take_fast_path(build_model(config), Precision.bf16) == "pooled"
    assert take_fast_path(build_model(config).to("meta")) == "pooled"
