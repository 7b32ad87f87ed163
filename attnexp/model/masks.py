"""Masks: which keys a query may see, as predicates on (query, key) joined with `&`.

Shapes: B batch, T tokens. A mask is boolean, True where the query may look, and broadcasts to
(B, H, T queries, T keys).

A causal or one-sided mask makes attention order-aware by itself: cross it with position, never
compare across it.
"""

from collections.abc import Callable

import torch
from torch import Tensor

Predicate = Callable[[Tensor, Tensor], Tensor]
"""(query positions, key positions) -> True where that query may see that key."""


def real_keys(key_padding_mask: Tensor) -> Tensor:
    """Hide padding. `key_padding_mask`: (B, T), True at padding, as in `torch.nn`.

    Returns (B, 1, 1, T).
    """
    return ~key_padding_mask[:, None, None, :]


def causal(query: Tensor, key: Tensor) -> Tensor:
    """See yourself and what stands before you (C14)."""
    return key <= query


def window(query: Tensor, key: Tensor, *, radius: int) -> Tensor:
    """See at most `radius` tokens to either side (C23)."""
    return (query - key).abs() <= radius


def dilated(query: Tensor, key: Tensor, *, radius: int, dilation: int) -> Tensor:
    """See every `dilation`-th token, `radius` of them to either side.

    Beltagy et al. 2020 (Longformer), section 3.1: the reach of a window `dilation` times as wide
    at the price of this one.
    """
    distance = (query - key).abs()
    return (distance <= radius * dilation) & (distance % dilation == 0)


def block_sparse(query: Tensor, key: Tensor, *, block: int, num_global: int = 1) -> Tensor:
    """See your own block of `block` tokens; the last `num_global` tokens see, and are seen by, all.

    The "fixed" pattern of Child et al. 2019, section 4.3, with the symmetric global tokens of
    Beltagy et al. 2020. Global tokens are the last ones, since padding stands in front.
    """
    first_global = key.max() + 1 - num_global
    is_global = (query >= first_global) | (key >= first_global)
    return (query // block == key // block) | is_global


def grid(num_tokens: int, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
    """Positions of queries (T, 1) and of keys (1, T), for the predicates above."""
    position = torch.arange(num_tokens, device=device)
    return position[:, None], position[None, :]
