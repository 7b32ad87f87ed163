"""From queries and keys to attention weights: the softmax, masks, and scores.

A mask that depends on positions makes attention sensitive to order without any position encoding.

Shapes: B batch, H heads, T tokens; Dq, Dk width of a head's queries and keys."""

import math
from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor, nn
from typing_extensions import Doc

from attnexp.model.init import Stream
from attnexp.model.seams import Mask, Score

Radius = Annotated[int, Ge(0), Doc("Number of keys to either side.")]
Scale = Annotated[bool, Doc("Divide by sqrt(d_key), as the paper does.")]


def attention_weights(scores: Tensor, allowed: Tensor | None = None, mode: str = "add") -> Tensor:
    """Softmax over keys, (..., T queries, T keys), with hidden keys at weight 0. K has two modes
    (C19). `add` sets hidden scores to a large negative number before softmax, so rows sum to 1;
    `mul` zeroes hidden weights after it without renormalising, so rows may sum to less. A query
    that may look nowhere gets weights of 0, never NaN, in value and in gradient."""
    if allowed is None:
        return scores.softmax(dim=-1)
    if mode == "mul":
        return scores.softmax(dim=-1) * allowed
    hidden = ~allowed
    lowest = torch.finfo(scores.dtype).min
    weights = scores.masked_fill(hidden, lowest).softmax(dim=-1)
    # Softmax already gave hidden keys exactly 0, except in rows where every key is hidden.
    return weights.masked_fill(hidden, 0.0)


def grid(num_tokens: int, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
    """Positions of queries (T, 1) and of keys (1, T), for the masks below."""
    query = torch.arange(num_tokens, device=device)
    key = query.clone()  # A user's mask may change either in place.
    return query[:, None], key[None, :]


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


class DotProduct(Score):
    """q . k / sqrt(Dk). The divisor keeps the variance of the scores at 1 (C12). Raises
    `ValueError` for queries and keys of two widths (C15)."""

    def __init__(
        self, num_heads: int, d_query: int, d_key: int, d_head: int, *, scale: Scale = True
    ) -> None:
        super().__init__()
        if d_query != d_key:
            raise ValueError(
                f"a dot product needs queries and keys of one width; got d_query={d_query}, "
                f"d_key={d_key}. Additive scores join any two"
            )
        self.scale = 1 / math.sqrt(d_key) if scale else 1.0

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """The product of every query with every key."""
        return (q * self.scale) @ k.transpose(-2, -1)


class Additive(Score):
    """v . tanh(W q + U k), one hidden layer a head (Bahdanau et al. 2015, A.1.2; C15). For queries
    and keys of any widths. Its memory is B H T T times its hidden width, `d_head`."""

    def __init__(self, num_heads: int, d_query: int, d_key: int, d_head: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.empty(num_heads, d_query, d_head))
        self.key = nn.Parameter(torch.empty(num_heads, d_key, d_head))
        self.value = nn.Parameter(torch.empty(num_heads, d_head))
        for weight in (self.query, self.key, self.value):
            nn.init.xavier_uniform_(weight)

    def init_parameters(self, stream: Stream) -> None:
        """Glorot uniform: each head's matrices of W and U by themselves, v of all heads as one."""
        for name in ("query", "key"):
            generator = stream(name)
            for matrix in self.get_parameter(name):
                nn.init.xavier_uniform_(matrix, generator=generator)
        nn.init.xavier_uniform_(self.value, generator=stream("value"))

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """q (B, H, T, Dq), k (B, H, T, Dk) -> (B, H, T queries, T keys)."""
        from_query = q @ self.query
        from_key = k @ self.key
        joined = from_query.unsqueeze(-2) + from_key.unsqueeze(-3)
        hidden = torch.tanh(joined)  # (B, H, T queries, T keys, d_head)
        value = self.value[:, None, :, None]  # a column for each head
        return (hidden @ value).squeeze(-1)


class Uniform(Score):
    """Control with uniform attention: every key has the same score."""

    def __init__(self, num_heads: int, d_query: int, d_key: int, d_head: int) -> None:
        super().__init__()

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """Zeros."""
        num_keys = k.shape[-2]
        return q.new_zeros(*q.shape[:-1], num_keys)
