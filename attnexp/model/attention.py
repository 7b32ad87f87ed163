"""Multi-head self-attention, as in Vaswani et al. 2017, section 3.2.

Shapes: B batch, T tokens, D input width, H heads; K, Kv width of a head's queries and values.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from attnexp.model.init import Stream, init_layers
from attnexp.model.scores import DotProduct
from attnexp.model.seams import Score
from attnexp.model.softmax import attention_weights


class MultiHeadSelfAttention(nn.Module):
    """softmax(score(Q, K)) V for H heads at once (C18), then an optional W_O.

    K's layer has dot-product scores, no biases and no output projection: 3 D H K parameters (C13).
    """

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
        """Widths and pieces.

        d_query, d_key, d_value: widths within a head, `d_head` where None. score: the class of
        scores; only additive ones join queries and keys of different widths (`ValueError`
        otherwise; C15). d_output: width after W_O; None leaves W_O out. rotary: (q or k, positions)
        -> rotated. bias: positions -> what is added to the scores. dropout: share of attention
        weights set to zero in training, as in `nn.MultiheadAttention`.
        """
        super().__init__()
        self.num_heads, self.mask_mode = num_heads, mask_mode
        d_query, d_key, d_value = d_query or d_head, d_key or d_head, d_value or d_head
        self.q_proj = nn.Linear(d_input, num_heads * d_query, bias=False)
        self.k_proj = nn.Linear(d_input, num_heads * d_key, bias=False)
        self.v_proj = nn.Linear(d_input, num_heads * d_value, bias=False)
        self.score = score(num_heads, d_query, d_key, d_head)
        self.rotary, self.bias = rotary, bias
        self.dropout = nn.Dropout(dropout)
        width = num_heads * d_value
        self.d_output = d_output or width
        self.out_proj = nn.Linear(width, d_output, bias=False) if d_output else nn.Identity()

    def init_parameters(self, stream: Stream) -> None:
        """Glorot uniform, each projection from a stream of its own."""
        init_layers(self, stream, "q_proj", "k_proj", "v_proj", "out_proj")

    def forward(
        self, x: Tensor, allowed: Tensor | None = None, positions: Tensor | None = None
    ) -> Tensor:
        """x (B, T, D) -> (B, T, `d_output`).

        allowed: see `attention_weights`. positions: (T,) or (B, T), 0..T-1 where None.
        """
        v = self.split_heads(self.v_proj(x))
        y = self.dropout(self.weights(x, allowed, positions)) @ v  # (B, H, T, Kv)
        return self.join_heads(y)

    def weights(
        self, x: Tensor, allowed: Tensor | None = None, positions: Tensor | None = None
    ) -> Tensor:
        """The attention map before dropout: (B, H, T queries, T keys)."""
        scores: Tensor = self.score(*self.queries_and_keys(x, positions))
        if self.bias is not None:
            scores = scores + self.bias(_or_count(positions, x))
        return attention_weights(scores, allowed, mode=self.mask_mode)

    def queries_and_keys(self, x: Tensor, positions: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Q and K of every head: (B, H, T, Kq), (B, H, T, Kk)."""
        q, k = self.split_heads(self.q_proj(x)), self.split_heads(self.k_proj(x))
        if self.rotary is not None:
            positions = _or_count(positions, x)
            q, k = self.rotary(q, positions), self.rotary(k, positions)
        return q, k

    def split_heads(self, x: Tensor) -> Tensor:
        """(B, T, H K) -> (B, H, T, K)."""
        heads: Tensor = x.unflatten(-1, (self.num_heads, -1))
        return heads.transpose(-3, -2)

    def join_heads(self, y: Tensor) -> Tensor:
        """(B, H, T, Kv) -> (B, T, `d_output`), through W_O if there is one."""
        joined: Tensor = self.out_proj(y.transpose(-3, -2).flatten(-2))
        return joined


def _or_count(positions: Tensor | None, x: Tensor) -> Tensor:
    return torch.arange(x.shape[-2], device=x.device) if positions is None else positions
