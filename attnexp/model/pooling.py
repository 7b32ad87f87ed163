"""Pooling: one vector from a review's T.

Shapes: B batch, T tokens, D width. Every function takes x (B, T, D) and `key_padding_mask` (B, T),
True at padding, and returns (B, D).
"""

from torch import Tensor


def mean(x: Tensor, key_padding_mask: Tensor) -> Tensor:
    """Over all T positions, padding included, as K's GlobalAveragePooling1D does."""
    return x.mean(dim=-2)


def masked_mean(x: Tensor, key_padding_mask: Tensor) -> Tensor:
    """Over real tokens only. A review of padding alone gives zeros."""
    real = ~key_padding_mask[..., None]
    return (x * real).sum(dim=-2) / real.sum(dim=-2).clamp(min=1)
