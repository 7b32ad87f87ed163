"""Rotary positions: turn q and k, so that their product knows how far apart they stand.

Shapes: B batch, H heads, T tokens, K head width. `positions`: (T,), or (B, T).
"""

from typing import Annotated, Literal

import torch
from torch import Tensor
from typing_extensions import Doc

from attnexp.model.positions import angles
from attnexp.model.seams import Even, Rotation


class RotaryPosition(Rotation):
    """Rotate each pair of columns of q or k by its position's angle (Su et al. 2021, section 3.2).

    <R(m) q, R(n) k> depends on m - n alone, since R(m)^T R(n) = R(n - m): the rotation of C08,
    applied to what is compared instead of added to what is read. Values stay as they are.

    Layout `interleaved` is the paper's: columns 2i and 2i+1 are a pair. Layout `split` pairs
    column i with i + K/2. The two are one encoding up to a permutation of columns, as in C07.

    Raises `ValueError` for an odd K, which leaves a column without its partner.
    """

    def __init__(
        self,
        d_head: Even,
        *,
        layout: Annotated[Literal["interleaved", "split"], Doc("Which columns are a pair.")] = (
            "interleaved"
        ),
    ) -> None:
        super().__init__()
        if d_head % 2:
            raise ValueError(f"a rotation turns pairs, so d_head must be even; got {d_head}")
        self.layout = layout

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """(B, H, T, K) -> (B, H, T, K), for q and for k alike."""
        angle = angles(positions, x.shape[-1]).unsqueeze(-3)  # (1 or B, 1, T, K/2)
        # A number format of 8 or 11 bits is for the result, not for the rotation itself.
        dtype = torch.promote_types(x.dtype, torch.float32)
        cos, sin = angle.cos().to(dtype), angle.sin().to(dtype)
        if self.layout == "split":
            a, b = x.chunk(2, dim=-1)
            turned = torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)
        else:
            a, b = x[..., 0::2], x[..., 1::2]
            turned = torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)
        return turned.to(x.dtype)
