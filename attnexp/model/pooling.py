"""Pooling: one vector from a review's T.

Shapes: B batch, T tokens, D width. Every function takes x (B, T, D) and `key_padding_mask` (B, T),
True at padding, and returns (B, D).
"""

import math

import torch
from torch import Tensor, nn

from attnexp.model.softmax import attention_weights


def mean(x: Tensor, key_padding_mask: Tensor) -> Tensor:
    """Over all T positions, padding included, as K's GlobalAveragePooling1D does."""
    return x.mean(dim=-2)


def masked_mean(x: Tensor, key_padding_mask: Tensor) -> Tensor:
    """Over real tokens only. A review of padding alone gives zeros."""
    real = ~key_padding_mask[..., None]
    return (x * real).sum(dim=-2) / real.sum(dim=-2).clamp(min=1)


def maximum(x: Tensor, key_padding_mask: Tensor) -> Tensor:
    """The largest of each column over real tokens. A review of padding alone gives zeros."""
    highest = x.masked_fill(key_padding_mask[..., None], -math.inf).amax(dim=-2)
    return highest.masked_fill(key_padding_mask.all(dim=-1, keepdim=True), 0.0)


def last(x: Tensor, key_padding_mask: Tensor) -> Tensor:
    """The last real token, as an LSTM is read. A review of padding alone gives zeros."""
    place = torch.arange(x.shape[-2], device=x.device)
    index = (place * ~key_padding_mask).amax(dim=-1)
    chosen = x.take_along_dim(index[..., None, None], dim=-2).squeeze(-2)
    return chosen.masked_fill(key_padding_mask.all(dim=-1, keepdim=True), 0.0)


def first(x: Tensor, key_padding_mask: Tensor) -> Tensor:
    """Position 0, real or not: a summary token that was put there (Devlin et al. 2019)."""
    return x[..., 0, :]


class AttentionPooling(nn.Module):
    """softmax(x u / sqrt(D)) x over real tokens, for one learned query u.

    The word attention of Yang et al. 2016, section 2.2, without its hidden layer. u starts at
    zero, which is the masked mean. A review of padding alone gives zeros.
    """

    def __init__(self, d_input: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.zeros(d_input))

    def forward(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
        """(B, T, D) -> (B, D)."""
        weights = self.weights(x, key_padding_mask)
        return (weights[..., None, :] @ x).squeeze(-2)

    def weights(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
        """How much each token counts: (B, T)."""
        scores = x @ (self.query / math.sqrt(x.shape[-1]))
        return attention_weights(scores, ~key_padding_mask)
