"""Pooling: one vector from the T vectors of a text.

Shapes: B batch, T tokens, D width. `key_padding_mask` is (B, T), True at padding.
"""

import math

import torch
from torch import Tensor, nn

from attnexp.model.seams import Pooling
from attnexp.model.softmax import attention_weights


class Mean(Pooling):
    """Over all T positions, padding included, as K's GlobalAveragePooling1D does."""

    def forward(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
        """(B, T, D) -> (B, D)."""
        return x.mean(dim=-2)


class RealTokens(Pooling):
    """A pooling to which padding is nothing. A text of padding alone gives zeros."""


class MaskedMean(RealTokens):
    """Over real tokens only."""

    def forward(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
        """(B, T, D) -> (B, D)."""
        real = ~key_padding_mask[..., None]
        return (x * real).sum(dim=-2) / real.sum(dim=-2).clamp(min=1)


class Maximum(RealTokens):
    """The largest of each column over real tokens."""

    def forward(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
        """(B, T, D) -> (B, D)."""
        highest = x.masked_fill(key_padding_mask[..., None], -math.inf).amax(dim=-2)
        return highest.masked_fill(key_padding_mask.all(dim=-1, keepdim=True), 0.0)


class Last(RealTokens):
    """The last real token, as an LSTM is read."""

    def forward(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
        """(B, T, D) -> (B, D)."""
        place = torch.arange(x.shape[-2], device=x.device)
        index = (place * ~key_padding_mask).amax(dim=-1)
        chosen = x.take_along_dim(index[..., None, None], dim=-2).squeeze(-2)
        return chosen.masked_fill(key_padding_mask.all(dim=-1, keepdim=True), 0.0)


class SummaryToken(RealTokens):
    """A learned token that the classifier puts in front of all others (Devlin et al. 2019)."""

    def forward(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
        """(B, T, D) -> (B, D): position 0."""
        return x[..., 0, :]


class AttentionPooling(RealTokens):
    """softmax(x u / sqrt(D)) x over real tokens, for one learned query u.

    The word attention of Yang et al. 2016, section 2.2, without its hidden layer. u starts at
    zero, which is the masked mean.
    """

    def __init__(self, d_input: int) -> None:
        super().__init__(d_input)
        self.query = nn.Parameter(torch.zeros(d_input))

    def forward(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
        """(B, T, D) -> (B, D)."""
        weights = self.weights(x, key_padding_mask)
        return (weights[..., None, :] @ x).squeeze(-2)

    def weights(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
        """How much each token counts: (B, T)."""
        scores = x @ (self.query / math.sqrt(x.shape[-1]))
        return attention_weights(scores, ~key_padding_mask)
