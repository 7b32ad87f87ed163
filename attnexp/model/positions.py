"""Positions: how a token learns where it stands.

Shapes: B batch, T tokens, D model width.
"""

import torch
from torch import Tensor, nn


def sinusoidal_table(num_positions: int, d_model: int, *, layout: str = "interleaved") -> Tensor:
    """Sines and cosines of falling frequency (Vaswani et al. 2017, section 3.5; C05, C07).

    The angle of position p and pair i is p / 10000^(2i / D). Layout `interleaved` is the paper's:
    column 2i holds its sine, 2i+1 its cosine. Layout `split` is K's: all cosines, then all sines.
    The two are one encoding up to a permutation of columns.

    Returns (T, D). Raises `ValueError` for an odd D, which leaves a sine without its cosine.
    """
    if d_model % 2:
        raise ValueError(f"sines and cosines pair up, so d_model must be even; got {d_model}")
    # In float64: at p = 10^4 a float32 angle is already wrong in the third decimal.
    position = torch.arange(num_positions, dtype=torch.float64)[:, None]
    exponent = torch.arange(0, d_model, 2, dtype=torch.float64) / d_model
    angle = position / 10_000**exponent  # (T, D/2)
    if layout == "split":
        table = torch.cat([angle.cos(), angle.sin()], dim=-1)
    else:
        table = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)
    return table.float()


class SinusoidalPosition(nn.Module):
    """Join the fixed table to embeddings, by addition or by concatenation in front (C11)."""

    table: Tensor

    def __init__(
        self, max_len: int, d_model: int, *, layout: str = "split", combine: str = "add"
    ) -> None:
        super().__init__()
        self.combine = combine
        table = sinusoidal_table(max_len, d_model, layout=layout)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D), or (B, T, 2D) when concatenated."""
        table = self.table[: x.shape[-2]].to(x.dtype)
        if self.combine == "concat":
            return torch.cat([table.expand_as(x), x], dim=-1)
        return x + table
