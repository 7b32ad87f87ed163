"""Masked softmax: from scores to attention weights.

Shapes: T tokens.
"""

import torch
from torch import Tensor


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
