"""Positions joined to embeddings: how a token learns where it stands.

Shapes: B batch, T tokens, D model width. `positions` are whole numbers: (T,), shared by the batch,
or (B, T), each text's own; None means 0 to T-1.
"""

from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import Doc

from attnexp.model.init import Stream, init_table
from attnexp.model.seams import Even, JoinedPosition

Layout = Annotated[
    Literal["split", "interleaved"], Doc("K's table, all cosines then all sines, or the paper's.")
]
Combine = Annotated[Literal["add", "concat"], Doc("Concatenation puts the table in front.")]
Scale = Annotated[
    float, Doc("Multiplies the table: K's has norm 8 against embeddings of norm 0.33.")
]


def angles(positions: Tensor, width: int) -> Tensor:
    """The phase of every pair of columns: position p, pair i -> p / 10000^(2i / width).

    (...) -> (..., width/2), in float64: at p = 10^4 a float32 angle is already wrong in the third
    decimal.
    """
    exponent = torch.arange(0, width, 2, dtype=torch.float64, device=positions.device) / width
    return positions[..., None].double() / 10_000**exponent


def sinusoidal_table(num_positions: int, d_model: int, *, layout: str = "interleaved") -> Tensor:
    """Sines and cosines of falling frequency (Vaswani et al. 2017, section 3.5; C05, C07).

    The angle of position p and pair i is p / 10000^(2i / D). Layout `interleaved` is the paper's:
    column 2i holds its sine, 2i+1 its cosine. Layout `split` is K's: all cosines, then all sines.
    The two are one encoding up to a permutation of columns.

    Returns (T, D). Raises `ValueError` for an odd D, which leaves a sine without its cosine.
    """
    if d_model % 2:
        raise ValueError(f"sines and cosines pair up, so d_model must be even; got {d_model}")
    angle = angles(torch.arange(num_positions), d_model)  # (T, D/2)
    if layout == "split":
        table = torch.cat([angle.cos(), angle.sin()], dim=-1)
    else:
        table = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)
    return table.float()


class SinusoidalPosition(JoinedPosition):
    """Join the fixed table, times `scale`, to embeddings (Vaswani et al. 2017, section 3.5).

    By addition, or by concatenation in front (C11). A row of the table has norm sqrt(D/2), some 25
    times that of an embedding fresh from Keras's init; `scale` takes that out of a comparison.
    """

    table: Tensor

    def __init__(
        self,
        max_len: int,
        d_model: Even,
        *,
        layout: Layout = "split",
        combine: Combine = "add",
        scale: Scale = 1.0,
    ) -> None:
        super().__init__()
        self.combine = combine
        self.d_output = d_model * (2 if combine == "concat" else 1)
        table = scale * sinusoidal_table(max_len, d_model, layout=layout)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, T, D), or (B, T, 2D) when concatenated."""
        return join(x, rows(self.table, x, positions), combine=self.combine)

    def table_rows(self) -> Tensor:
        """The table, times `scale`: (max_len, D)."""
        return self.table


class LearnedPosition(JoinedPosition):
    """Join a trained table, times `scale`, to embeddings (Gehring et al. 2017, section 3.1; C10).

    The constructor makes it zero, which is no position at all; in a model it starts uniformly in
    ±0.05, as embeddings do.
    """

    def __init__(
        self, max_len: int, d_model: int, *, combine: Combine = "add", scale: Scale = 1.0
    ) -> None:
        super().__init__()
        self.combine = combine
        self.d_output = d_model * (2 if combine == "concat" else 1)
        self.scale = scale
        self.weight = nn.Parameter(torch.zeros(max_len, d_model))

    def init_parameters(self, stream: Stream) -> None:
        """Uniform in ±0.05."""
        init_table(self.weight, stream("weight"))

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, T, D), or (B, T, 2D) when concatenated."""
        return join(x, self.scale * rows(self.weight, x, positions), combine=self.combine)

    def table_rows(self) -> Tensor:
        """The table, times `scale`: (max_len, D)."""
        return self.scale * self.weight


def rows(table: Tensor, x: Tensor, positions: Tensor | None) -> Tensor:
    """The table's row for each token of x: (T, D), or (B, T, D) for positions (B, T)."""
    if positions is None:
        return table[: x.shape[-2]]
    return F.embedding(positions, table)


def join(x: Tensor, table: Tensor, *, combine: str) -> Tensor:
    """`add` keeps the width; `concat` puts the table in front and doubles it (C11)."""
    table = table.to(x.dtype)
    if combine == "concat":
        return torch.cat([table.expand_as(x), x], dim=-1)
    return x + table
