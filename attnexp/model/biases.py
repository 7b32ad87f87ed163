"""Score biases: how far a key stands from the query, added to q k^T before softmax.

Shapes: B batch, H heads, T tokens. `positions` (T,) -> (H, T queries, T keys), and (B, T) ->
(B, H, T queries, T keys); both broadcast to scores.
"""

from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor, nn
from typing_extensions import Doc

from attnexp.model.seams import ScoreBias


class RelativeBias(ScoreBias):
    """One learned number per head and distance (Raffel et al. 2020, section 2.1).

    Distances are clipped to ±`max_distance` as in Shaw et al. 2018, section 3.2, instead of T5's
    logarithmic buckets. Sides differ: a key in front of the query has another number than one
    behind it. It starts at zero, which is no bias.
    """

    def __init__(
        self,
        num_heads: int,
        *,
        max_distance: Annotated[int, Ge(1), Doc("Distances beyond share one weight.")] = 16,
    ) -> None:
        super().__init__()
        if max_distance < 1:
            # One number for all keys is one that softmax cancels.
            raise ValueError(f"max_distance must be 1 or more; got {max_distance}")
        self.max_distance = max_distance
        self.weight = nn.Parameter(torch.zeros(num_heads, 2 * max_distance + 1))

    def forward(self, positions: Tensor) -> Tensor:
        """Column `max_distance + d` of the weight is the bias of a key d after its query."""
        distance = key_minus_query(positions).clamp(-self.max_distance, self.max_distance)
        bias = self.weight[:, distance + self.max_distance]  # (H, T, T) or (H, B, T, T)
        return bias.movedim(0, -3)


class AlibiBias(ScoreBias):
    """Minus a slope times the distance; nothing learned (Press et al. 2022, section 3).

    Head h of H, counted from 1, has slope 2^(-8h / H), the paper's for a power of two, kept for any
    other number. The paper's attention is causal; a classifier's looks both ways, and so
    does this: -slope |q - k|.
    """

    slopes: Tensor

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        slopes = 2.0 ** (-8 * torch.arange(1, num_heads + 1) / num_heads)
        self.register_buffer("slopes", slopes[:, None, None], persistent=False)

    def forward(self, positions: Tensor) -> Tensor:
        """Zero for the query itself, falling in a straight line to both sides."""
        distance = key_minus_query(positions).abs()
        return -self.slopes * distance.unsqueeze(-3)


def key_minus_query(positions: Tensor) -> Tensor:
    """How far each key stands behind each query: (..., T) -> (..., T queries, T keys)."""
    return positions[..., None, :] - positions[..., :, None]
