"""A layer: attention, and around it what Vaswani et al. 2017, section 3.1, adds.

Shapes: B batch, T tokens, D width. K's layer is the attention alone; residual, LayerNorm and
feed-forward are each a choice of their own.
"""

from typing import Annotated, Literal

import torch.nn.functional as F
from annotated_types import Ge, Le, Lt
from torch import Tensor, nn
from typing_extensions import Doc

from attnexp.model import fast
from attnexp.model.attention import MultiHeadSelfAttention
from attnexp.model.init import Stream, init_layers
from attnexp.model.scores import DotProduct
from attnexp.model.seams import REFERENCE, LayerContext, Layers, Score


class FeedForward(nn.Module):
    """Two linear maps with ReLU between, at each position alone: convolutions of width 1 (C24)."""

    def __init__(self, d_model: int, d_hidden: int) -> None:
        super().__init__()
        self.up = nn.Linear(d_model, d_hidden)
        self.down = nn.Linear(d_hidden, d_model)

    def init_parameters(self, stream: Stream) -> None:
        """Matrices Glorot uniform, biases 0."""
        init_layers(self, stream, "up", "down")

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
        hide_padded_queries: bool = False,
    ) -> None:
        super().__init__()
        d_output = attention.d_output
        if residual and d_input != d_output:
            raise ValueError(f"a residual sum needs one width; got {d_input} and {d_output}")
        self.attention = attention
        self.feed_forward = FeedForward(d_output, d_feed_forward) if d_feed_forward else None
        self.residual, self.norm = residual, norm
        self.hide_padded_queries = hide_padded_queries
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
        y = self.attention(self.normed(0, x, "pre"), allowed, positions)
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


Width = Annotated[int | None, Ge(1), Doc("Width within a head, where it is not d_head.")]


class Attention(Layers):
    """Blocks on top of each other. K's model has one, with nothing around its attention.

    Raises `ValueError` where a residual sum has two widths.
    """

    def __init__(
        self,
        d_input: int,
        d_model: int,
        context: LayerContext,
        *,
        heads: Annotated[
            int, Ge(1), Doc("How many; each is d_head wide, whatever their number.")
        ] = 8,
        d_head: Annotated[int, Ge(1), Doc("Width of a head's queries, keys and values.")] = 16,
        d_query: Width = None,
        d_key: Width = None,
        d_value: Width = None,
        layers: Annotated[int, Ge(1), Le(1000), Doc("How many, on top of each other.")] = 1,
        score: Annotated[type[Score], Doc("How well a query matches a key.")] = DotProduct,
        output_projection: Annotated[bool, Doc("W_O after the heads.")] = False,
        residual: Annotated[bool, Doc("Add a part's input to its output.")] = False,
        norm: Annotated[
            Literal["none", "pre", "post"], Doc("LayerNorm around each part.")
        ] = "none",
        feed_forward: Annotated[
            int | None, Ge(1), Doc("Hidden width, after each attention.")
        ] = None,
        layer_dropout: Annotated[float, Ge(0), Lt(1), Doc("On what each part gives.")] = 0.0,
        attention_dropout: Annotated[float, Ge(0), Lt(1), Doc("On the attention weights.")] = 0.0,
    ) -> None:
        super().__init__()
        if context.rotation and (d_query or d_head) != (d_key or d_head):
            raise ValueError(
                f"a rotation turns q and k alike, so they need one width; got "
                f"{d_query or d_head} and {d_key or d_head}"
            )
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
            self.append(
                Block(
                    attention,
                    d_input=d_input,
                    d_feed_forward=feed_forward,
                    residual=residual,
                    norm=norm,
                    dropout=layer_dropout,
                    hide_padded_queries=context.hide_padded_queries,
                )
            )
            d_input = attention.d_output
        self.d_output = d_input

    def init_parameters(self, stream: Stream) -> None:
        """Nothing here: the modules within each block have rules of their own."""

    def take_fast_path(self, classifier: nn.Module) -> str:
        """See `fast.take_fast_path`. Layers and blocks of subclasses compute as they are."""
        if type(self) is not Attention or not all(type(block) is Block for block in self):
            return REFERENCE
        return fast.take_fast_path(classifier, [*self], self.num_tokens)
