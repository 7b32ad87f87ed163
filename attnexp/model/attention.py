"""Multi-head self-attention, as in Vaswani et al. 2017, section 3.2.

Shapes: B batch, T tokens, D input width, H heads; K, Kv width of a head's queries and values.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from attnexp.model.scores import DotProduct
from attnexp.model.seams import Score
from attnexp.model.softmax import attention_weights
from attnexp.model.window import window_attention


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
        window: int | None = None,
    ) -> None:
        """Widths and pieces.

        d_query, d_key, d_value: widths within a head, `d_head` where None. score: the class of
        scores; only additive ones join queries and keys of different widths (`ValueError`
        otherwise; C15). d_output: width after W_O; None leaves W_O out. rotary: (q or k, positions)
        -> rotated. bias: positions -> what is added to the scores. window: see only that far,
        without ever making the whole (T, T) map; dot-product scores without bias only.
        """
        super().__init__()
        self.num_heads, self.mask_mode, self.window = num_heads, mask_mode, window
        d_query, d_key, d_value = d_query or d_head, d_key or d_head, d_value or d_head
        self.q_proj = nn.Linear(d_input, num_heads * d_query, bias=False)
        self.k_proj = nn.Linear(d_input, num_heads * d_key, bias=False)
        self.v_proj = nn.Linear(d_input, num_heads * d_value, bias=False)
        self.score = score(num_heads, d_query, d_key, d_head)
        self.rotary, self.bias = rotary, bias
        width = num_heads * d_value
        self.d_output = d_output or width
        self.out_proj = nn.Linear(width, d_output, bias=False) if d_output else nn.Identity()

    def forward(
        self,
        x: Tensor,
        allowed: Tensor | None = None,
        positions: Tensor | None = None,
        real_keys: Tensor | None = None,
    ) -> Tensor:
        """x (B, T, D) -> (B, T, `d_output`).

        allowed: see `attention_weights`. positions: (T,) or (B, T), 0..T-1 where None.
        real_keys: (B, T), for a window alone, which knows no `allowed`.
        """
        v = self.split_heads(self.v_proj(x))
        if self.window is None:
            y = self.weights(x, allowed, positions) @ v  # (B, H, T, Kv)
        else:
            q, k = self.queries_and_keys(x, positions)
            assert isinstance(self.score, DotProduct)
            y = window_attention(
                q * self.score.scale, k, v, radius=self.window, real_keys=real_keys
            )
        joined: Tensor = self.out_proj(y.transpose(-3, -2).flatten(-2))
        return joined

    def weights(
        self, x: Tensor, allowed: Tensor | None = None, positions: Tensor | None = None
    ) -> Tensor:
        """The attention map: (B, H, T queries, T keys)."""
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


def _or_count(positions: Tensor | None, x: Tensor) -> Tensor:
    return torch.arange(x.shape[-2], device=x.device) if positions is None else positions
