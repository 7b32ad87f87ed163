"""Scores: how well a query matches a key.

Shapes: B batch, H heads, T tokens; Kq, Kk width of a head's queries and keys. Every module takes q
(B, H, T, Kq) and k (B, H, T, Kk) and returns (B, H, T queries, T keys).
"""

import math
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import Doc

from attnexp.model.init import Stream
from attnexp.model.seams import Score


class DotProduct(Score):
    """q . k, over sqrt(Kk), which keeps the variance of the scores at 1 (C12)."""

    def __init__(
        self,
        num_heads: int,
        d_query: int,
        d_key: int,
        d_head: int,
        *,
        scale: Annotated[bool, Doc("Divide by sqrt(d_key), as the paper does.")] = True,
    ) -> None:
        super().__init__()
        _same_width(d_query, d_key)
        self.scale = 1 / math.sqrt(d_key) if scale else 1.0

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """Needs Kq = Kk."""
        return (q * self.scale) @ k.transpose(-2, -1)


class Cosine(Score):
    """The cosine of q and k, times a temperature that each head learns, from 1."""

    def __init__(self, num_heads: int, d_query: int, d_key: int, d_head: int) -> None:
        super().__init__()
        _same_width(d_query, d_key)
        self.log_temperature = nn.Parameter(torch.zeros(num_heads))

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """Needs Kq = Kk."""
        cosine = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        return cosine * self.log_temperature.exp()[:, None, None]


class Additive(Score):
    """v . tanh(W q + U k), one hidden layer a head (Bahdanau et al. 2015, A.1.2; C15).

    The only score here for queries and keys of different widths. Its memory is B H T T times
    its hidden width, `d_head`: it is the slow one.
    """

    def __init__(self, num_heads: int, d_query: int, d_key: int, d_head: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.empty(num_heads, d_query, d_head))
        self.key = nn.Parameter(torch.empty(num_heads, d_key, d_head))
        self.value = nn.Parameter(torch.empty(num_heads, d_head))
        for weight in (self.query, self.key, self.value):
            nn.init.xavier_uniform_(weight)

    def init_parameters(self, stream: Stream) -> None:
        """Glorot uniform, the matrices of each head by themselves."""
        for name in ("query", "key"):
            generator = stream(name)
            for matrix in self.get_parameter(name):
                nn.init.xavier_uniform_(matrix, generator=generator)
        nn.init.xavier_uniform_(self.value, generator=stream("value"))

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """Any Kq and Kk."""
        hidden = (q @ self.query)[..., :, None, :] + (k @ self.key)[..., None, :, :]
        return (hidden.tanh() @ self.value[:, None, :, None]).squeeze(-1)


class Uniform(Score):
    """Control with uniform attention: every key has the same score."""

    def __init__(self, num_heads: int, d_query: int, d_key: int, d_head: int) -> None:
        super().__init__()
        _same_width(d_query, d_key)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """Zeros."""
        return q.new_zeros(*q.shape[:-1], k.shape[-2])


def _same_width(d_query: int, d_key: int) -> None:
    if d_query != d_key:
        raise ValueError(
            f"these scores need d_query = d_key; got {d_query} and {d_key} (additive ones do not)"
        )
