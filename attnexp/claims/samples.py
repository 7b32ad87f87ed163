"""Random inputs and modules on which claims are checked, both in float64."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from attnexp.model.attention import MultiHeadSelfAttention


def draw_normal(*shape: int, seed: int = 0) -> Tensor:
    """Independent N(0, 1) numbers."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def random_module(make: Callable[..., nn.Module], *args: Any, **settings: Any) -> Any:
    """A module with random weights, large enough for attention far from uniform."""
    module = make(*args, **settings)
    module.double().eval().requires_grad_(False)
    for seed, weight in enumerate(module.parameters(), start=1000):  # inputs have small seeds
        standard_normal = draw_normal(*weight.shape, seed=seed)
        weight.copy_(standard_normal / weight.shape[-1] ** 0.5)
    return module


def random_attention(d_input: int = 8, heads: int = 2, d_head: int = 4) -> Any:
    """Multi-head self-attention with random weights."""
    return random_module(MultiHeadSelfAttention, d_input, num_heads=heads, d_head=d_head)
