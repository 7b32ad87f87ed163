"""Random inputs and modules on which claims are checked, and the formula of the encoding.

Inputs and weights are float64. Shapes: B batch, T tokens, D model width.
"""

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
    module = make(*args, **settings).double().eval().requires_grad_(False)
    for seed, weight in enumerate(module.parameters(), start=1000):  # inputs have small seeds
        drawn = draw_normal(*weight.shape, seed=seed)
        weight.copy_(drawn / weight.shape[-1] ** 0.5)
    return module


def random_attention(d_input: int = 8, heads: int = 2, d_head: int = 4, **settings: Any) -> Any:
    """Multi-head self-attention with random weights."""
    return random_module(
        MultiHeadSelfAttention, d_input, num_heads=heads, d_head=d_head, **settings
    )


def encode_positions(num: int, width: int) -> Tensor:
    """sin and cos of p / 10000^(2i / D), side by side: (T, D)."""
    positions = torch.arange(num)[:, None]
    two_i = torch.arange(0, width, 2).double()
    angle = positions / 10_000 ** (two_i / width)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)


def no_padding(num_texts: int, num_tokens: int) -> Tensor:
    """The padding mask of texts without padding: (B, T), all false."""
    return torch.zeros(num_texts, num_tokens, dtype=torch.bool)
