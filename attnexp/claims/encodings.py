"""Claims about order, and sines and cosines as positions: C04 to C09.

Shapes: T positions, D model width. The table is stored in float32, which rounds its entries by up
to 3e-8; `ROUNDED` allows for that.
"""

import copy
import math

import torch
from torch import Tensor

from attnexp.claims.claim import Finding, claim
from attnexp.claims.measure import (
    EXACT,
    max_abs_diff,
    max_or_nan,
    normal,
    raises_value_error,
    random_attention,
    with_random_weights,
)
from attnexp.config.compose import compose
from attnexp.model.classifier import Classifier
from attnexp.model.positions import SinusoidalPosition, sinusoidal_table

ROUNDED = 1e-7
"""Tolerance for an entry of the table against its formula in float64."""


@claim("C04", "M, K")
def c04() -> Finding:
    """Without PE attention is permutation-equivariant, its mean invariant."""
    attention = random_attention()
    position, x = with_random_weights(SinusoidalPosition, 7, 8), normal(1, 7, 8)
    order = [1, 0, 2, 3, 4, 5, 6]
    y, swapped = attention(x), attention(x[:, order])
    moved = max_abs_diff(swapped, y[:, order])
    pooled = max_abs_diff(swapped.mean(dim=1), y.mean(dim=1))

    y, swapped = attention(position(x)), attention(position(x[:, order]))
    moved_pe = max_abs_diff(swapped, y[:, order])
    pooled_pe = max_abs_diff(swapped.mean(dim=1), y.mean(dim=1))
    return Finding.exact(
        max_or_nan(moved, pooled) <= EXACT and moved_pe > 1e-3 and pooled_pe > 1e-3,
        f"two tokens swapped: outputs differ by {moved:.1g}, mean by {pooled:.1g} "
        f"(tol {EXACT:g}); with PE by {moved_pe:.2g}, {pooled_pe:.2g} (> 0.001)",
    )


@claim("C05", "M, P, K")
def c05() -> Finding:
    """PE is sin, cos of p/10000^(2i/d), in two equal forms, for even d only."""
    table = sinusoidal_table(1000, 128).double()
    by_power, by_log = _by_power(1000, 128), _by_exp_log(1000, 128)
    gap, forms = max_abs_diff(table, by_power), max_abs_diff(by_power, by_log)
    odd = raises_value_error(lambda: sinusoidal_table(1000, 127))
    return Finding.exact(
        gap <= ROUNDED and forms <= 1e-10 and odd,
        f"table off by {gap:.1g} (tolerance {ROUNDED:g}), forms by {forms:.1g} (1e-10); "
        f"width 127 {'refused' if odd else 'accepted'}",
    )


@claim("C06", "P")
def c06() -> Finding:
    """Embeddings are scaled by √d before PE; a step index gives its PE."""
    num_tokens, width = 9, 16
    words = f"""model=mean model.scale_embedding=true position=sinusoidal
        position.layout=interleaved model.d_model={width} data.max_len={num_tokens}
        data.vocab_size=20"""
    model = with_random_weights(Classifier, compose(words.split()))
    entered: list[Tensor] = []
    model.pool.register_forward_pre_hook(lambda _, given: entered.append(given[0]))
    ids, encoding = torch.arange(5, 5 + num_tokens)[None], _by_power(num_tokens, width)
    embedded = model.embedding(ids)
    model(ids)
    scaled = max_abs_diff(entered[0], math.sqrt(width) * embedded + encoding)

    assert model.position is not None
    nothing = torch.zeros(1, 1, width, dtype=torch.float64)
    steps = [model.position(nothing, torch.tensor([step]))[0] for step in range(num_tokens)]
    step = max_abs_diff(torch.cat(steps), encoding)
    return Finding.exact(
        max_or_nan(scaled, step) <= ROUNDED,
        f"√d·x + PE off by {scaled:.1g}, single steps by {step:.1g} (tolerance {ROUNDED:g})",
    )


@claim("C07", "K")
def c07() -> Finding:
    """Interleaved and split layouts are equal up to a permutation of columns.

    Any linear map can undo the permutation.
    """
    num_tokens, width = 9, 16
    columns = torch.cat([torch.arange(1, width, 2), torch.arange(0, width, 2)])  # cosines, sines
    back = columns.argsort()
    split, interleaved = (
        with_random_weights(SinusoidalPosition, num_tokens, width, layout=layout)
        for layout in ("split", "interleaved")
    )
    table = max_abs_diff(split.table, interleaved.table[:, columns])

    # Permuting the columns of its projections makes attention on one layout equal to the other.
    one = random_attention(width)
    other = copy.deepcopy(one)
    for projection in (other.q_proj, other.k_proj, other.v_proj):
        projection.weight.copy_(projection.weight[:, back])
    x = normal(2, num_tokens, width)
    outputs = max_abs_diff(one(split(x)), other(interleaved(x[..., back])))
    return Finding.exact(
        table == 0 and outputs <= EXACT,
        f"tables off by {table:.1g} after permuting (exact), "
        f"attention outputs by {outputs:.1g} (tolerance {EXACT:g})",
    )


@claim("C08", "M, K")
def c08() -> Finding:
    """PE(p+δ) = R(δ)·PE(p), a block rotation that does not depend on p."""
    num_positions, width, shifts = 1000, 32, (1, 7, 40, 500)
    table = sinusoidal_table(num_positions, width).double()
    rotations = [_rotation(shift, width) for shift in shifts]
    gap = max_or_nan(
        *(
            max_abs_diff(table[shift:], table[:-shift] @ rotation.T)
            for shift, rotation in zip(shifts, rotations, strict=True)
        )
    )
    identity = torch.eye(width, dtype=torch.float64)
    turned = max_or_nan(*(max_abs_diff(rotation @ rotation.T, identity) for rotation in rotations))
    return Finding.exact(
        gap <= 2 * ROUNDED and turned <= EXACT,
        f"δ = 1, 7, 40, 500 from all p < {num_positions} - δ: off by {gap:.1g} "
        f"(tolerance {2 * ROUNDED:g})",
    )


@claim("C09", "M")
def c09() -> Finding:
    """Columns 6, 7 are faster than 8, 9 and shifted by a quarter period."""
    table = sinusoidal_table(60, 32).double()
    periods = [2 * math.pi / _frequency(table[:, column]) for column in (6, 7, 8, 9)]
    shift = abs(_phase(table[:, 7]) - _phase(table[:, 6])) / (2 * math.pi)
    faster = max_or_nan(*periods[:2]) < -max_or_nan(*(-period for period in periods[2:]))
    shown = ", ".join(f"{period:.2f}" for period in periods)
    return Finding.exact(
        faster and abs(min(shift, 1 - shift) - 0.25) <= 1e-3,
        f"periods {shown}; shift from 6 to 7: {shift:.4f} periods (tolerance 0.001)",
    )


def _by_power(num_positions: int, width: int) -> Tensor:
    """The paper's formula, entry by entry: (T, D)."""
    entries = []
    for p in range(num_positions):
        angles = [p / 10_000 ** (2 * i / width) for i in range(width // 2)]
        entries.append([wave(angle) for angle in angles for wave in (math.sin, math.cos)])
    return torch.tensor(entries, dtype=torch.float64)


def _by_exp_log(num_positions: int, width: int) -> Tensor:
    """The form common in code, exp(-2i log(10000) / D): (T, D)."""
    frequency = torch.exp(torch.arange(0, width, 2).double() * (-math.log(10_000) / width))
    angle = torch.arange(num_positions).double()[:, None] * frequency
    table = torch.empty(num_positions, width, dtype=torch.float64)
    table[:, 0::2], table[:, 1::2] = angle.sin(), angle.cos()
    return table


def _rotation(shift: int, width: int) -> Tensor:
    """R(δ), (D, D): a 2 x 2 rotation for every sine and its cosine, zeros elsewhere."""
    blocks = []
    for i in range(0, width, 2):
        angle = shift / 10_000 ** (i / width)
        cos, sin = math.cos(angle), math.sin(angle)
        blocks.append(torch.tensor([[cos, sin], [-sin, cos]], dtype=torch.float64))
    rotation: Tensor = torch.block_diag(*blocks)
    return rotation


def _frequency(column: Tensor) -> float:
    """Angular frequency w of a sampled wave of any phase, from s[p-1] + s[p+1] = 2 cos(w) s[p]."""
    middle, around = column[1:-1], column[:-2] + column[2:]
    return torch.acos((around @ middle) / (2 * middle @ middle)).item()


def _phase(column: Tensor) -> float:
    """Phase of a sampled wave at position 0: s[p] = a sin(w p + phase)."""
    angle = _frequency(column) * torch.arange(len(column), dtype=torch.float64)
    waves = torch.stack([angle.sin(), angle.cos()], dim=-1)
    in_phase, ahead = torch.linalg.lstsq(waves, column[:, None]).solution.flatten().tolist()
    return math.atan2(ahead, in_phase)
