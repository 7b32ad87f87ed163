"""Layers of attention: the heads, which are all of K's layer, and as options the residual sums,
LayerNorm and feed-forward of Vaswani et al. 2017, section 3.

Shapes: B batch, T tokens, D input width, H heads, Dh head width; Dq, Dk, Dv that of q, k and v."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from annotated_types import Ge, Le, Lt
from torch import Tensor, nn
from typing_extensions import Doc

from attnexp.model.init import KerasInit
from attnexp.model.scores import DotProduct, attention_weights
from attnexp.model.seams import LayerContext, Layers, Score

Width = Annotated[int | None, Ge(1), Doc("Width within a head, where it is not d_head.")]


class MultiHeadSelfAttention(KerasInit):
    """softmax(score(q, k)) v for H heads at once (C18), then an optional W_O. K's layer has
    dot-product scores, no biases and no output projection: 3 D H Dh parameters (C13)."""

    fast_attention: Callable[..., Tensor] | None = None  # set by `take_fast_path`

    def __init__(
        self,
        d_input: int,
        *,
        num_heads: int,
        d_head: int,
        d_query: int | None = None,
        d_key: int | None = None,
        d_value: int | None = None,
        d_output: int | None = None,
        score: Callable[[int, int, int, int], Score] = DotProduct,
        mask_mode: str = "add",
        rotary: nn.Module | None = None,
        bias: nn.Module | None = None,
        dropout: float = 0.0,
    ) -> None:
        """d_query, d_key, d_value: widths within a head, `d_head` where None. d_output: width after
        W_O; None leaves W_O out. rotary: (q or k, positions) -> rotated. bias: positions -> what is
        added to the scores. dropout: of attention weights, as in `nn.MultiheadAttention`."""
        super().__init__()
        self.num_heads = num_heads
        self.mask_mode = mask_mode
        d_query = d_query or d_head
        d_key = d_key or d_head
        d_value = d_value or d_head
        if rotary is not None and d_query != d_key:
            raise ValueError(f"a rotation needs one width; got d_query={d_query}, d_key={d_key}")
        self.q_proj = nn.Linear(d_input, num_heads * d_query, bias=False)
        self.k_proj = nn.Linear(d_input, num_heads * d_key, bias=False)
        self.v_proj = nn.Linear(d_input, num_heads * d_value, bias=False)
        self.score = score(num_heads, d_query, d_key, d_head)
        self.rotary = rotary
        self.bias = bias
        self.dropout = nn.Dropout(dropout)
        width = num_heads * d_value
        self.d_output = d_output or width
        self.out_proj = nn.Linear(width, d_output, bias=False) if d_output else nn.Identity()

    def forward(
        self, x: Tensor, allowed: Tensor | None = None, positions: Tensor | None = None
    ) -> Tensor:
        """x (B, T, D) -> (B, T, `d_output`). allowed: True where a query may see a key, (B or 1, 1,
        T or 1, T), or None. positions: (T,) or (B, T), for a rotation or a bias."""
        v = self.split_heads(self.v_proj(x))
        if self.fast_attention is None:
            maps = self.dropout(self.weights(x, allowed, positions))
            y = maps @ v  # (B, H, T, Dv)
        else:  # The map is never written as a whole.
            q, k = self.queries_and_keys(x, positions)
            y = self.fast_attention(q, k, v, attn_mask=allowed, scale=self.score.scale)
        # Dropout draws in the order of memory, which differs between torch's kernels.
        heads_side_by_side = y.transpose(-3, -2).flatten(-2).contiguous()
        output: Tensor = self.out_proj(heads_side_by_side)
        return output

    def weights(
        self, x: Tensor, allowed: Tensor | None = None, positions: Tensor | None = None
    ) -> Tensor:
        """The attention map before dropout: (B, H, T queries, T keys)."""
        scores: Tensor = self.score(*self.queries_and_keys(x, positions))
        if self.bias is not None:
            scores = scores + self.bias(positions)
        return attention_weights(scores, allowed, mode=self.mask_mode)

    def queries_and_keys(self, x: Tensor, positions: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """q (B, H, T, Dq) and k (B, H, T, Dk) of every head."""
        q = self.split_heads(self.q_proj(x))
        k = self.split_heads(self.k_proj(x))
        if self.rotary is not None:
            q = self.rotary(q, positions)
            k = self.rotary(k, positions)
        return q, k

    def split_heads(self, x: Tensor) -> Tensor:
        """(B, T, H Dh) -> (B, H, T, Dh), and likewise for Dq, Dk and Dv."""
        return torch.unflatten(x, -1, (self.num_heads, -1)).transpose(-3, -2)


class FeedForward(KerasInit):
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
    """x -> [x +] attention(x), then optionally x -> [x +] feed_forward(x) (C17, C28). norm: `none`,
    `post` (LayerNorm of each sum, as in the paper) or `pre` (of the input of each sublayer). Raises
    `ValueError` where a residual sum would add two widths."""

    def __init__(
        self,
        attention: MultiHeadSelfAttention,
        *,
        d_feed_forward: int | None = None,
        residual: bool = False,
        norm: str = "none",
        dropout: float = 0.0,
        hide_padded_queries: bool = False,
    ) -> None:
        super().__init__()
        d_input = attention.q_proj.in_features
        d_output = attention.d_output
        if residual and d_input != d_output:
            raise ValueError(
                f"a sum needs one width, not {d_input} and {d_output}: "
                f"set model.output_projection=true"
            )
        self.attention = attention
        self.feed_forward = FeedForward(d_output, d_feed_forward) if d_feed_forward else None
        self.residual = residual
        self.norm = norm
        self.hide_padded_queries = hide_padded_queries
        self.dropout = nn.Dropout(dropout)
        make_norm = nn.Identity if norm == "none" else partial(nn.LayerNorm, eps=1e-6)
        self.norms = nn.ModuleList([make_norm(d_input if norm == "pre" else d_output)])
        if d_feed_forward:
            self.norms.append(make_norm(d_output))

    def forward(
        self, x: Tensor, padding: Tensor, allowed: Tensor | None, positions: Tensor
    ) -> Tensor:
        """(B, T, d_input) -> (B, T, d_output). padding: (B, T), True at padding."""

        def attend(x: Tensor) -> Tensor:
            y: Tensor = self.attention(x, allowed, positions)
            return y.masked_fill(padding[..., None], 0.0) if self.hide_padded_queries else y

        x = self.sublayer(attend, x, self.norms[0])
        if self.feed_forward is not None:
            x = self.sublayer(self.feed_forward, x, self.norms[1])
        return x

    def sublayer(self, function: Callable[[Tensor], Tensor], x: Tensor, norm: nn.Module) -> Tensor:
        """[x +] dropout(function(x)), with LayerNorm before or after it, or none."""
        z = norm(x) if self.norm == "pre" else x
        y: Tensor = self.dropout(function(z))
        if self.residual:
            y = x + y
        if self.norm == "post":
            y = norm(y)
        return y


class Attention(Layers):
    """Blocks on top of each other. K's model has one, with nothing around its attention."""

    def __init__(
        self,
        d_input: int,
        d_model: int,
        context: LayerContext,
        *,
        heads: Annotated[int, Ge(1), Doc("Number of heads, each d_head wide.")] = 8,
        d_head: Annotated[int, Ge(1), Doc("Width of a head's queries, keys and values.")] = 16,
        d_query: Width = None,
        d_key: Width = None,
        d_value: Width = None,
        layers: Annotated[int, Ge(1), Le(1000), Doc("Number of layers, one on the other.")] = 1,
        score: Annotated[type[Score], Doc("How well a query matches a key.")] = DotProduct,
        output_projection: Annotated[bool, Doc("W_O after the heads.")] = False,
        residual: Annotated[bool, Doc("Add a sublayer's input to its output.")] = False,
        norm: Annotated[Literal["none", "pre", "post"], Doc("Place of LayerNorm.")] = "none",
        feed_forward: Annotated[int | None, Ge(1), Doc("Width of that sublayer, if any.")] = None,
        layer_dropout: Annotated[float, Ge(0), Lt(1), Doc("Dropout of a sublayer's output.")] = 0.0,
        attention_dropout: Annotated[float, Ge(0), Lt(1), Doc("Dropout of the weights.")] = 0.0,
    ) -> None:
        super().__init__()
        self.num_tokens = context.num_tokens
        for _ in range(layers):
            attention = MultiHeadSelfAttention(
                d_input,
                num_heads=heads,
                d_head=d_head,
                d_query=d_query,
                d_key=d_key,
                d_value=d_value,
                d_output=d_model if output_projection else None,
                score=score,
                mask_mode=context.mask_mode,
                rotary=context.rotation(d_query or d_head) if context.rotation else None,
                bias=context.bias(heads) if context.bias else None,
                dropout=attention_dropout,
            )
            block = Block(
                attention,
                d_feed_forward=feed_forward,
                residual=residual,
                norm=norm,
                dropout=layer_dropout,
                hide_padded_queries=context.hide_padded_queries,
            )
            self.append(block)
            d_input = attention.d_output
        self.d_output = d_input
