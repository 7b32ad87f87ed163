"""Attention restricted to a window, at a cost proportional to the window (C23).

Shapes: B batch, H heads, T tokens, Dh width of queries and keys, Dv of values; N blocks of C
queries, which together see S = C + 2 radius keys."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from attnexp.model.scores import Window, attention_weights, grid

SMALLEST_BLOCK = 16  # Smaller blocks compute fewer scores in vain, but multiply more slowly.


def window_attention(
    q: Tensor, k: Tensor, v: Tensor, radius: int, attn_mask: Tensor | None = None, scale: float = 1
) -> Tensor:
    """What softmax(q k^T scale) v gives under `scores.Window` and real keys, in O(T radius).
    q, k: (B, H, T, Dh). v: (B, H, T, Dv). attn_mask: (B, 1, 1, T), True at real keys.
    Returns (B, H, T, Dv), zeros for a query without a real key in its window. Queries are cut into
    blocks, each compared with the keys it can reach (Beltagy et al. 2020, section 3.2)."""
    num_tokens = q.shape[-2]
    if attn_mask is None:
        attn_mask = torch.ones(1, 1, 1, num_tokens, dtype=torch.bool, device=q.device)
    block = max(radius, SMALLEST_BLOCK)
    num_blocks = math.ceil(num_tokens / block)
    # Tokens beyond either end are padding: not real as keys, cut off again as queries.
    beyond = num_blocks * block - num_tokens
    num_keys = block + 2 * radius

    def within_reach(x: Tensor) -> Tensor:
        """(..., T, Dh) -> (..., N, Dh, S), neighbours overlapping by 2 radius."""
        padded = F.pad(x, (0, 0, radius, beyond + radius))
        return padded.unfold(-2, num_keys, block)

    q = F.pad(q * scale, (0, 0, 0, beyond))
    q = q.unflatten(-2, (num_blocks, block))  # (B, H, N, C, Dh)
    k = within_reach(k)
    v = within_reach(v).transpose(-2, -1)  # (B, H, N, S, Dv)
    real_keys = within_reach(attn_mask.mT)  # (B, 1, N, 1, S)
    # Blocks are alike: the first query stands `radius` after the first key that the block holds.
    query, key = grid(num_keys, q.device)
    query = query[radius : radius + block]
    near = Window(radius=radius)(query, key)  # (C, S)
    allowed = near & real_keys  # (B, 1, N, C, S)
    weights = attention_weights(q @ k, allowed)  # (B, H, N, C, S)
    y = (weights @ v).flatten(-3, -2)
    return y[..., :num_tokens, :]
