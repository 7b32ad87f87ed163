"""Masks: which keys a query may see, as predicates on (query, key) joined with `&`.

Shapes: B batch, T tokens. A mask is boolean, True where the query may look, and broadcasts to
(B, H, T queries, T keys).

A causal or one-sided mask makes attention order-aware by itself: cross it with position, never
compare across it.
"""

from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor
from typing_extensions import Doc

from attnexp.model.seams import Mask

Radius = Annotated[int, Ge(0), Doc("How many keys to either side.")]


def real_keys(key_padding_mask: Tensor) -> Tensor:
    """Hide padding. `key_padding_mask`: (B, T), True at padding, as in `torch.nn`.

    Returns (B, 1, 1, T).
    """
    return ~key_padding_mask[:, None, None, :]


class Causal(Mask):
    """See yourself and what stands before you (C14)."""

    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        """Nothing above the diagonal."""
        return key <= query


class Window(Mask):
    """See at most `radius` tokens to either side (C23)."""

    def __init__(self, *, radius: Radius) -> None:
        self.radius = radius

    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        """A band around the diagonal."""
        return (query - key).abs() <= self.radius


class Dilated(Mask):
    """See every `dilation`-th token, `radius` of them to either side.

    Beltagy et al. 2020 (Longformer), section 3.1: the reach of a window `dilation` times as wide
    at the price of this one.
    """

    def __init__(
        self,
        *,
        radius: Radius,
        dilation: Annotated[int, Ge(1), Doc("The step between these keys.")],
    ) -> None:
        self.radius, self.dilation = radius, dilation

    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        """Bands `dilation` apart."""
        distance = (query - key).abs()
        return (distance <= self.radius * self.dilation) & (distance % self.dilation == 0)


class BlockSparse(Mask):
    """See your own block of `block` tokens; the last `num_global` tokens see, and are seen by, all.

    The "fixed" pattern of Child et al. 2019, section 4.3, with the symmetric global tokens of
    Beltagy et al. 2020. Global tokens are the last ones, since padding stands in front.
    """

    def __init__(
        self,
        *,
        block: Annotated[int, Ge(1), Doc("Tokens of a block.")],
        num_global: Annotated[int, Ge(0), Doc("Last tokens that see all and are seen by all.")] = 1,
    ) -> None:
        self.block, self.num_global = block, num_global

    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        """Squares on the diagonal, and the last rows and columns."""
        first_global = key.max() + 1 - self.num_global
        is_global = (query >= first_global) | (key >= first_global)
        return (query // self.block == key // self.block) | is_global


def grid(num_tokens: int, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
    """Positions of queries (T, 1) and of keys (1, T), for the masks above."""
    position = torch.arange(num_tokens, device=device)
    return position[:, None], position[None, :]
