"""The fast path: the same function as the reference, computed with less work.

Results change by rounding alone. Three identities, each used where it holds and nowhere else:

- window: under `masks.Window`, blocks of queries meet only the keys they can reach (`window.py`),
  in O(T radius) instead of O(T²).
- pooled: a mean over queries of softmax(Q K^T) V is the mean over queries of softmax(Q K^T), times
  V, and V = X W_V. So where the last layer is bare attention, and the pooling sums positions with
  weights that do not depend on them, one row of weights a head meets X, and W_V one vector a head.
  Half of the attention products and a third of the projections are gone, forward and backward.
- fused: scaled dot-product scores go through torch's fused attention, which never writes the
  (T, T) map to memory (Dao et al. 2022).

A module is replaced, or computed around, only if its type is exactly ours: a subclass may have
another `forward`.

Shapes: B batch, H heads, T tokens, D input width, V width of a head's values.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnexp.model import pooling
from attnexp.model.attention import MultiHeadSelfAttention
from attnexp.model.classifier import Classifier
from attnexp.model.masks import Window
from attnexp.model.scores import DotProduct
from attnexp.model.seams import REFERENCE
from attnexp.model.window import saves_work, window_attention

LINEAR = (pooling.Mean, pooling.MaskedMean, pooling.Last, pooling.SummaryToken)
"""Poolings that weigh positions by nothing but where padding stands."""


def take_fast_path(classifier: nn.Module, blocks: list[Any], num_tokens: int) -> str:
    """Change a classifier in place, whose layers are these blocks; say how it computes now.

    Returns `window`, `pooled`, `fused`, or `reference` where no identity holds. Where several do,
    the window is taken if it is narrow enough for the texts to save work (`window.saves_work`),
    then the pooled form for the last layer and the fused one for the others.
    """
    if type(classifier) is not Classifier:
        return REFERENCE
    attentions = [block.attention for block in blocks]
    if not all(map(_is_plain, attentions)):
        return REFERENCE
    can_fuse = all(map(_can_fuse, attentions))
    pattern = classifier.pattern
    if can_fuse and type(pattern) is Window and saves_work(pattern.radius, num_tokens):
        classifier.__class__ = WindowClassifier
        for attention in attentions:
            restrict(attention, pattern.radius)
        return "window"
    path = REFERENCE
    if _can_pool(classifier, blocks[-1]):
        classifier.__class__ = PooledClassifier
        path = "pooled"
        attentions.pop()
    if can_fuse and attentions:
        for attention in attentions:
            attention.__class__ = FusedSelfAttention
        path = "fused" if path == REFERENCE else path
    return path


def restrict(attention: MultiHeadSelfAttention, radius: int) -> None:
    """Let an attention layer see `radius` tokens to either side, without a (T, T) map.

    From then on its argument `allowed` says which keys are real, (B, 1, 1, T), and no more.
    """
    attention.__class__ = WindowSelfAttention
    attention.radius = radius  # type: ignore[assignment]


class PooledClassifier(Classifier):
    """A classifier whose last layer sees only what the pooling keeps of it."""

    reference = Classifier

    def pooled(
        self, x: Tensor, key_padding_mask: Tensor, allowed: Tensor | None, positions: Tensor
    ) -> Tensor:
        """As `Classifier.pooled`."""
        *earlier, last = self.layers
        for layer in earlier:
            x = layer(x, key_padding_mask, allowed, positions)
        attention: Any = last.attention
        # A linear pooling of the unit vectors says how much each position counts.
        units = torch.eye(x.shape[-2], device=x.device, dtype=x.dtype)
        share = self.pool(units.expand(len(x), -1, -1), key_padding_mask)  # (B, T)
        if last.hide_padded_queries:
            share = share.masked_fill(key_padding_mask, 0.0)
        weights = attention.dropout(attention.weights(x, allowed, positions))  # (B, H, T, T)
        seen = (share[:, None, None, :] @ weights).squeeze(-2)  # (B, H, T): of each token, by all
        value = attention.v_proj.weight.unflatten(0, (attention.num_heads, -1))  # (H, V, D)
        y = torch.einsum("bhd,hvd->bhv", seen @ x, value)
        # Dropout draws in the order of memory, which einsum leaves open.
        joined: Tensor = attention.out_proj(y.flatten(-2).contiguous())
        return joined


class WindowClassifier(Classifier):
    """A classifier whose layers know the window by themselves."""

    reference = Classifier

    def allowed(self, key_padding_mask: Tensor) -> Tensor | None:
        """Which keys are real, (B, 1, 1, T), or None for all."""
        return ~key_padding_mask[:, None, None, :] if self.hide_padding else None


class WindowSelfAttention(MultiHeadSelfAttention):
    """Multi-head self-attention within a window: see `restrict`."""

    reference = MultiHeadSelfAttention
    radius: int

    def forward(
        self, x: Tensor, allowed: Tensor | None = None, positions: Tensor | None = None
    ) -> Tensor:
        """As `MultiHeadSelfAttention` under `masks.Window`."""
        assert isinstance(self.score, DotProduct)
        q, k = self.queries_and_keys(x, positions)
        v = self.split_heads(self.v_proj(x))
        real_keys = None if allowed is None else allowed[:, 0, 0]
        q = q * self.score.scale
        return self.join_heads(window_attention(q, k, v, radius=self.radius, real_keys=real_keys))


class FusedSelfAttention(MultiHeadSelfAttention):
    """Multi-head self-attention through `torch.nn.functional.scaled_dot_product_attention`."""

    reference = MultiHeadSelfAttention

    def forward(
        self, x: Tensor, allowed: Tensor | None = None, positions: Tensor | None = None
    ) -> Tensor:
        """As `MultiHeadSelfAttention`; a query that may look nowhere gets zeros here too."""
        assert isinstance(self.score, DotProduct)
        q, k = self.queries_and_keys(x, positions)
        v = self.split_heads(self.v_proj(x))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, scale=self.score.scale)
        # Dropout draws in the order of memory, which differs between torch's kernels.
        return self.join_heads(y.contiguous())


def _is_plain(attention: nn.Module) -> bool:
    """Whether what is replaced or computed around in a layer is exactly ours and torch's."""
    return (
        type(attention) is MultiHeadSelfAttention
        and type(attention.v_proj) is nn.Linear
        and type(attention.dropout) is nn.Dropout
    )


def _can_fuse(attention: MultiHeadSelfAttention) -> bool:
    return (
        type(attention.score) is DotProduct
        and attention.bias is None
        and attention.mask_mode == "add"
        and attention.dropout.p == 0
    )


def _can_pool(classifier: Classifier, last: Any) -> bool:
    """Whether the last layer is attention alone, and the pooling linear."""
    return (
        type(classifier.pool) in LINEAR
        and last.feed_forward is None
        and not last.residual
        and type(last.dropout) is nn.Dropout
        and last.dropout.p == 0
        and all(type(norm) is nn.Identity for norm in last.norms)
    )
