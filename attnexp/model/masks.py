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


def grid(num_tokens: int, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
    """Positions of queries (T, 1) and of keys (1, T), for the predicates above."""
    position = torch.arange(num_tokens, device=device)
    return position[:, None], position[None, :]
