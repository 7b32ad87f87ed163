"""Multi-head self-attention, as in Vaswani et al. 2017, section 3.2.

Shapes: B batch, T tokens, D model width, H heads, K head width.
"""

import math

import torch
from torch import Tensor, nn


def attention_weights(
    scores: Tensor, allowed: Tensor | None = None, *, mode: str = "add"
) -> Tensor:
    """Softmax over keys, with hidden keys at weight 0.

    scores: (..., T queries, T keys). allowed: boolean, broadcastable to scores, True where a
    query may look. Mode `add` puts a large negative number before softmax, so rows sum to 1;
    `mul` zeroes after softmax without renormalising, so they do not (K's two modes; C19).

    A query that may look nowhere gets zeros, never NaN, in value and in gradient.
    """
    if allowed is None:
        return scores.softmax(dim=-1)
    if mode == "mul":
        return scores.softmax(dim=-1) * allowed
    lowest = torch.finfo(scores.dtype).min
    weights = scores.masked_fill(~allowed, lowest).softmax(dim=-1)
    # Softmax already gave hidden keys exactly 0, except in rows where every key is hidden.
    return weights.masked_fill(~allowed, 0.0)


class MultiHeadSelfAttention(nn.Module):
    """softmax(Q K^T / sqrt(K)) V for H heads at once (C18), then an optional W_O.

    K's layer has no biases and no output projection: 3 D H K parameters (C13).
    """

    def __init__(
        self,
        d_input: int,
        *,
        num_heads: int,
        d_head: int,
        d_output: int | None = None,
        scale: bool = True,
        score: str = "dot",
        mask_mode: str = "add",
    ) -> None:
        """`d_output`: width after the output projection; None leaves it out (width H K)."""
        super().__init__()
        self.heads = (num_heads, d_head)
        self.scale = 1 / math.sqrt(d_head) if scale else 1.0
        self.score = score
        self.mask_mode = mask_mode
        width = num_heads * d_head
        self.q_proj = nn.Linear(d_input, width, bias=False)
        self.k_proj = nn.Linear(d_input, width, bias=False)
        self.v_proj = nn.Linear(d_input, width, bias=False)
        self.d_output = d_output or width
        self.out_proj = nn.Linear(width, d_output, bias=False) if d_output else nn.Identity()

    def forward(self, x: Tensor, allowed: Tensor | None = None) -> Tensor:
        """x (B, T, D) -> (B, T, H K or d_output). allowed: see `attention_weights`."""
        v = self.split_heads(self.v_proj(x))
        y = self.weights(x, allowed) @ v  # (B, H, T, K)
        joined: Tensor = self.out_proj(y.transpose(-3, -2).flatten(-2))
        return joined

    def weights(self, x: Tensor, allowed: Tensor | None = None) -> Tensor:
        """The attention map: (B, H, T queries, T keys)."""
        return attention_weights(self.scores(x), allowed, mode=self.mask_mode)

    def scores(self, x: Tensor) -> Tensor:
        """How well each query matches each key: (B, H, T queries, T keys)."""
        if self.score == "uniform":
            # The control "attention that cannot attend": every key scores the same.
            batch, tokens, _ = x.shape
            return x.new_zeros(batch, self.heads[0], tokens, tokens)
        q = self.split_heads(self.q_proj(x))
        k = self.split_heads(self.k_proj(x))
        return (q * self.scale) @ k.transpose(-2, -1)

    def split_heads(self, x: Tensor) -> Tensor:
        """(B, T, H K) -> (B, H, T, K)."""
        heads: Tensor = x.unflatten(-1, self.heads)
        return heads.transpose(-3, -2)
