"""A layer: attention, and around it what Vaswani et al. 2017, section 3.1, adds.

Shapes: B batch, T tokens, D width. K's layer is the attention alone; residual, LayerNorm and
feed-forward are each a choice of their own.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from attnexp.model.attention import MultiHeadSelfAttention


class FeedForward(nn.Module):
    """Two linear maps with ReLU between, at each position alone: convolutions of width 1 (C24)."""

    def __init__(self, d_model: int, d_hidden: int) -> None:
        super().__init__()
        self.up = nn.Linear(d_model, d_hidden)
        self.down = nn.Linear(d_hidden, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        y: Tensor = self.down(F.relu(self.up(x)))
        return y


class Block(nn.Module):
    """x -> [x +] attention(x), then, where asked for, x -> [x +] feed_forward(x) (C17, C28).

    norm: `none`, `post` (after the sum, as in the paper) or `pre` (on the way into each part).
    """

    def __init__(
        self,
        attention: MultiHeadSelfAttention,
        *,
        d_input: int,
        d_feed_forward: int | None = None,
        residual: bool = False,
        norm: str = "none",
        dropout: float = 0.0,
        hide_padding: bool = False,
        hide_padded_queries: bool = False,
    ) -> None:
        super().__init__()
        d_output = attention.d_output
        self.attention = attention
        self.feed_forward = FeedForward(d_output, d_feed_forward) if d_feed_forward else None
        self.residual, self.norm = residual, norm
        self.hide_padding, self.hide_padded_queries = hide_padding, hide_padded_queries
        self.dropout = nn.Dropout(dropout)
        widths = [d_input if norm == "pre" else d_output] + [d_output] * bool(d_feed_forward)
        self.norms = nn.ModuleList(
            nn.LayerNorm(width, eps=1e-6) if norm != "none" else nn.Identity() for width in widths
        )

    def forward(
        self,
        x: Tensor,
        key_padding_mask: Tensor,
        allowed: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """(B, T, d_input) -> (B, T, d_output)."""
        real_keys = ~key_padding_mask if self.hide_padding else None
        y = self.attention(self.normed(0, x, "pre"), allowed, positions, real_keys)
        if self.hide_padded_queries:
            y = y.masked_fill(key_padding_mask[..., None], 0.0)
        x = self.joined(0, x, y)
        if self.feed_forward is not None:
            x = self.joined(1, x, self.feed_forward(self.normed(1, x, "pre")))
        return x

    def joined(self, part: int, x: Tensor, y: Tensor) -> Tensor:
        """What leaves a part that was given x and computed y."""
        y = self.dropout(y)
        return self.normed(part, x + y if self.residual else y, "post")

    def normed(self, part: int, x: Tensor, place: str) -> Tensor:
        """x, through the part's LayerNorm if this is its place."""
        y: Tensor = self.norms[part](x) if self.norm == place else x
        return y
