"""The pooled model by hand: its gradients, in float64, are those of finite differences."""

from typing import Any

import pytest
import torch
from torch import Tensor

from attnexp.model.scores import Causal, grid
from attnexp.network.pooled import PooledAttention

CAUSAL = ~Causal()(*grid(5))
PADDING = torch.tensor([[False] * 5, [True, True, False, False, False], [True] * 5])[:, None]
"""The last text has nothing to look at; with the causal mask some other rows have nothing, too."""
SHAPES = {"rows": (6, 4), "table": (5, 4), "weight": (12, 4), "value": (2, 2, 4)}


@pytest.mark.parametrize("has_table", [False, True])
@pytest.mark.parametrize("scale", [1.0, 300.0])
@pytest.mark.parametrize("mask", [None, CAUSAL[None], PADDING, CAUSAL | PADDING])
def test_gradients_are_those_of_finite_differences(
    mask: Tensor | None, scale: float, has_table: bool
) -> None:
    """With scores of some thousands, too, whose exponentials no float64 holds."""
    generator = torch.Generator().manual_seed(0)
    pieces: list[Any] = []
    for name, shape in SHAPES.items():
        piece = torch.randn(shape, generator=generator, dtype=torch.float64)
        if name == "weight":
            piece[:6] *= scale  # the queries' half
        pieces.append(piece.requires_grad_() if has_table or name != "table" else None)
    ids = torch.randint(0, 6, (3, 5), generator=generator)
    _, places = ids.unique(return_inverse=True)
    shares = torch.rand(3, 5, generator=generator, dtype=torch.float64)

    def pool(*changed: Tensor) -> Any:
        apply: Any = PooledAttention.apply
        return apply(*changed, places, shares, mask)

    assert torch.autograd.gradcheck(pool, pieces)
