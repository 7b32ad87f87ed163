"""The fast path: what a model computes, with less work. It changes results by rounding alone.

Two identities, each taken where it holds, and nowhere else:

- A mean over queries of softmax(Q K^T) V is the mean over queries of softmax(Q K^T), times V, and
  V = X W_V: so where the last layer is bare attention and the pooling sums positions with weights
  that do not depend on them, one row of weights a head meets X, and W_V one vector a head. Half of
  the attention products and a third of the projections are gone, forward and backward.
- Elsewhere, scaled dot-product scores go through torch's fused attention, which never writes the
  (T, T) map to memory (Dao et al. 2022).

`attention.py` is the reference that both are held to by a test, over many steps of training.

Shapes: B batch, H heads, T tokens, D input width, V width of a head's values.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnexp.model import pooling
from attnexp.model.attention import MultiHeadSelfAttention
from attnexp.model.block import Block
from attnexp.model.classifier import Classifier
from attnexp.model.scores import DotProduct

LINEAR = (pooling.Mean, pooling.MaskedMean, pooling.Last, pooling.SummaryToken)
"""Poolings that weigh positions by nothing but where padding stands."""

REFERENCE = "reference"
"""How a model computes that takes no fast path."""


def take_fast_path(model: nn.Module) -> str:
    """Change a model in place to compute the same with less work; say how it computes now.

    Returns `pooled`, `fused`, or `reference` where neither identity holds. Names and values of
    weights stay. Anyone's own pieces are left as they are.
    """
    found = REFERENCE
    for module in model.modules():
        if type(module) is MultiHeadSelfAttention and _can_fuse(module):
            module.__class__ = FusedSelfAttention
            found = "fused"
    if type(model) is Classifier and len(model.layers) and _can_pool(model):
        model.__class__ = PooledClassifier
        found = "pooled"
    return found


class PooledClassifier(Classifier):
    """A classifier whose last layer sees only what the pooling keeps of it."""

    def pooled(
        self, x: Tensor, key_padding_mask: Tensor, allowed: Tensor | None, positions: Tensor
    ) -> Tensor:
        """As `Classifier.pooled`."""
        *earlier, last = self.layers
        for layer in earlier:
            x = layer(x, key_padding_mask, allowed, positions)
        assert isinstance(last, Block)
        attention = last.attention
        # A linear pooling of the unit vectors says how much each position counts.
        units = torch.eye(x.shape[-2], device=x.device, dtype=x.dtype)
        share = self.pool(units.expand(len(x), -1, -1), key_padding_mask)  # (B, T)
        if last.hide_padded_queries:
            share = share.masked_fill(key_padding_mask, 0.0)
        weights = attention.weights(x, allowed, positions)  # (B, H, T, T)
        seen = (share[:, None, None, :] @ weights).squeeze(-2)  # (B, H, T): of each token, by all
        value = attention.v_proj.weight.unflatten(0, (attention.num_heads, -1))  # (H, V, D)
        y = torch.einsum("bhd,hvd->bhv", seen @ x, value)
        joined: Tensor = attention.out_proj(y.flatten(-2))
        return joined


class FusedSelfAttention(MultiHeadSelfAttention):
    """Multi-head self-attention through `torch.nn.functional.scaled_dot_product_attention`."""

    def forward(
        self,
        x: Tensor,
        allowed: Tensor | None = None,
        positions: Tensor | None = None,
        real_keys: Tensor | None = None,
    ) -> Tensor:
        """As `MultiHeadSelfAttention`; a query that may look nowhere gets zeros here too."""
        assert isinstance(self.score, DotProduct)
        q, k = self.queries_and_keys(x, positions)
        v = self.split_heads(self.v_proj(x))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, scale=self.score.scale)
        joined: Tensor = self.out_proj(y.transpose(-3, -2).flatten(-2))
        return joined


def _can_fuse(attention: MultiHeadSelfAttention) -> bool:
    return (
        type(attention.score) is DotProduct
        and attention.bias is None
        and attention.window is None
        and attention.mask_mode == "add"
    )


def _can_pool(classifier: Classifier) -> bool:
    """Whether the last layer is attention alone, and the pooling linear."""
    last = classifier.layers[-1]
    return (
        type(classifier.pool) in LINEAR
        and type(last) is Block
        and last.attention.window is None
        and last.feed_forward is None
        and not last.residual
        and last.dropout.p == 0
        and all(type(norm) is nn.Identity for norm in last.norms)
    )
