"""Positions: joined to embeddings, turning queries and keys, added to scores; and their control.

Shapes: B batch, H heads, T tokens, D model width, Dh head width. `positions` are whole numbers:
(T,), shared by the batch, or (B, T), each text's own."""

from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from annotated_types import Ge
from torch import Tensor, nn
from typing_extensions import Doc

from attnexp.model.init import Stream, init_table
from attnexp.model.seams import JoinedPosition, Rotation, ScoreBias

Order = Annotated[Literal["split", "interleaved"], Doc("K's cosines, then sines; or the paper's.")]
Pairs = Annotated[Literal["interleaved", "split"], Doc("Which columns are a pair.")]
MaxDistance = Annotated[int, Ge(1), Doc("Distances beyond share one weight.")]
Combine = Annotated[Literal["add", "concat"], Doc("Concatenation puts the table in front.")]
Scale = Annotated[float, Doc("Multiplies the table; sinusoidal rows have norm sqrt(d_model / 2).")]


def angles(num_positions: int, width: int) -> Tensor:
    """The angle of position p and pair of columns i, p / 10000^(2i / width): (T, width/2). In
    float64, since at p = 10^4 a float32 angle is already wrong in the third decimal, and made on
    the host, since Apple's GPUs have no float64. Raises `ValueError` for an odd width."""
    if width % 2:
        raise ValueError(f"sines and cosines come in pairs, so the width must be even; got {width}")
    even_column = torch.arange(0, width, 2, dtype=torch.float64)
    exponent = even_column / width
    position = torch.arange(num_positions, dtype=torch.float64)
    return position[:, None] / 10_000**exponent


def sinusoidal_table(num_positions: int, d_model: int, *, layout: str = "interleaved") -> Tensor:
    """Sines and cosines of `angles`: (T, D) (Vaswani et al. 2017, section 3.5; C05). Layout
    `interleaved` is the paper's: column 2i holds the sine of pair i, 2i+1 its cosine. `split` is
    K's: all cosines, then all sines. They are equal but for the order of columns (C07)."""
    angle = angles(num_positions, d_model)  # (T, D/2)
    if layout == "split":
        table = torch.cat([angle.cos(), angle.sin()], dim=-1)
    else:
        table = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)
    return table.float()


class TablePosition(JoinedPosition):
    """Joins rows of a table to embeddings, by addition or by concatenation in front (C11)."""

    def __init__(self, d_model: int, combine: Combine) -> None:
        super().__init__()
        self.combine = combine
        self.d_output = 2 * d_model if combine == "concat" else d_model

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D), or (B, T, 2D) when concatenated."""
        table: Any = self.table_rows()
        rows = F.embedding(positions, table).to(x.dtype)
        if self.combine == "add":
            return x + rows
        rows = rows.expand_as(x)
        return torch.cat([rows, x], dim=-1)


class SinusoidalPosition(TablePosition):
    """The fixed table, times `scale`. A row has norm sqrt(D/2), some 25 times that of an embedding
    at the start; `scale` takes that out of a comparison."""

    table: Tensor

    def __init__(
        self,
        max_len: int,
        d_model: int,
        *,
        layout: Order = "split",
        combine: Combine = "add",
        scale: Scale = 1.0,
    ) -> None:
        super().__init__(d_model, combine)
        table = scale * sinusoidal_table(max_len, d_model, layout=layout)
        self.register_buffer("table", table, persistent=False)

    def table_rows(self) -> Tensor:
        """The table, times `scale`: (max_len, D)."""
        return self.table


class LearnedPosition(TablePosition):
    """A trained table, times `scale` (Gehring et al. 2017, section 3.1; C10)."""

    def __init__(
        self, max_len: int, d_model: int, *, combine: Combine = "add", scale: Scale = 1.0
    ) -> None:
        super().__init__(d_model, combine)
        self.scale = scale
        self.weight = nn.Parameter(torch.zeros(max_len, d_model))

    def init_parameters(self, stream: Stream) -> None:
        """Uniform in ±0.05."""
        init_table(self.weight, stream("weight"))

    def table_rows(self) -> Tensor:
        """The table, times `scale`: (max_len, D)."""
        return self.scale * self.weight


class RotaryPosition(Rotation):
    """Rotate each pair of columns of q or k by its position's angle (Su et al. 2021, section 3.2).
    <R(m) q, R(n) k> depends on m - n alone, since R(m)^T R(n) = R(n - m) (C08). In the paper's
    layout, `interleaved`, columns 2i and 2i+1 are a pair. Layout `split` pairs column i with
    i + Dh/2. The two are equal but for the order of columns (C07)."""

    MAX_POSITIONS = 2**14  # A text with more tokens fails.
    table: Tensor  # cosine and sine of every angle, (2, MAX_POSITIONS, Dh/2)

    def __init__(self, d_head: int, *, layout: Pairs = "interleaved") -> None:
        super().__init__()
        self.layout = layout
        angle = angles(self.MAX_POSITIONS, d_head)
        table = torch.stack([angle.cos(), angle.sin()]).float()
        self.register_buffer("table", table, persistent=False)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """(B, H, T, Dh) -> (B, H, T, Dh), for q and for k alike."""
        cos, sin = self.table[:, positions].unsqueeze(-3)  # (1, T, Dh/2), or (B, 1, T, Dh/2)
        if self.layout == "split":
            a, b = x.chunk(2, dim=-1)
        else:
            a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
        turned_a = a * cos - b * sin  # in float32 even where x has fewer bits
        turned_b = a * sin + b * cos
        if self.layout == "split":
            y = torch.cat([turned_a, turned_b], dim=-1)
        else:
            y = torch.stack([turned_a, turned_b], dim=-1).flatten(-2)
        return y.to(x.dtype)


def distances(positions: Tensor) -> Tensor:
    """How far each key stands after each query, (T queries, T keys) or (B, T, T)."""
    return positions.unsqueeze(-2) - positions.unsqueeze(-1)


class RelativeBias(ScoreBias):
    """One learned number per head and distance, from 0 (Raffel et al. 2020, section 2.1). Distances
    are clipped to ±`max_distance` as in Shaw et al. 2018, section 3.2, instead of T5's logarithmic
    buckets; a key in front of the query has another number than one behind it."""

    def __init__(self, num_heads: int, *, max_distance: MaxDistance = 16) -> None:
        super().__init__()
        self.max_distance = max_distance
        num_columns = 2 * max_distance + 1
        self.weight = nn.Parameter(torch.zeros(num_heads, num_columns))

    def forward(self, positions: Tensor) -> Tensor:
        """Column `max_distance + d` of the weight is the bias of a key d after its query."""
        clipped = distances(positions).clamp(-self.max_distance, self.max_distance)
        column = clipped + self.max_distance
        return self.weight[:, column].movedim(0, -3)  # (H, T, T), or (B, H, T, T)


class AlibiBias(ScoreBias):
    """Minus a slope times the distance; nothing learned (Press et al. 2022, section 3). Head h of
    H, counted from 1, has slope 2^(-8h / H). For H that is no power of two this is the paper's
    formula; its code interleaves the slopes of two powers of two. The paper's looks back only."""

    slopes: Tensor

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        head = torch.arange(1, num_heads + 1)
        slopes = 2.0 ** (-8 * head / num_heads)
        self.register_buffer("slopes", slopes[:, None, None], persistent=False)

    def forward(self, positions: Tensor) -> Tensor:
        """Zero for the query itself, falling in a straight line to both sides."""
        distance = distances(positions).abs()
        return -self.slopes * distance.unsqueeze(-3)


def shuffled_positions(ids: Tensor) -> Tensor:
    """The control of all positions: ids (B, T) -> (B, T), each row a permutation of 0 to T-1.
    Tokens are ranked by a hash of their id: reorder the text, and each word takes its position
    along. Norms, widths and parameters stay those of the encoding; only order is gone."""
    # Two rounds of multiply and xor-shift on 32 bits. Each is one-to-one, so no two words ever tie
    # (a tie would be broken by order), and ids, which are ranks by frequency, are well scattered.
    scattered = ids.long() + 1  # 0 would stay 0, and padding always come first
    for _ in range(2):
        scattered = (scattered * 0x7FEB352D) & 0xFFFFFFFF
        scattered = scattered ^ (scattered >> 15)
    order = scattered.argsort(dim=-1, stable=True)
    return order.argsort(dim=-1)  # the inverse: a token's rank
