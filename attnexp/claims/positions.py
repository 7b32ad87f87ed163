"""Claims about order and position encoding: C04 to C09."""

import math
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from attnexp.claims.finding import Finding, judge_equality, max_abs_diff
from attnexp.claims.samples import draw_normal, encode_positions, random_attention
from attnexp.config.compose import compose
from attnexp.model.positions import SinusoidalPosition, sinusoidal_table
from attnexp.network.build import build_model

IN_FLOAT32 = 1e-7
"""Tolerance of numbers up to 1 that are stored in float32."""

NOTICED = 1e-3
"""Difference from which on an output has changed."""


def attention_without_positions_is_blind_to_order() -> Finding:
    """C04: two tokens are swapped; outputs swap with them, and so have the same mean."""
    layer = random_attention()
    x = draw_normal(1, 7, 8)
    swapped = x[:, [1, 0, 2, 3, 4, 5, 6]]
    outputs_swapped = layer(x)[:, [1, 0, 2, 3, 4, 5, 6]]

    position = SinusoidalPosition(7, 8)
    mean = layer(position(x)).mean(dim=1)
    mean_swapped = layer(position(swapped)).mean(dim=1)
    change = max_abs_diff([(mean_swapped, mean)])
    return judge_equality(
        [(layer(swapped), outputs_swapped)],
        also=change > NOTICED,
        shown=f"the mean with PE by {change:.2g}",
    )


def positions_are_sines_and_cosines() -> Finding:
    """C05: the table against the formula, both forms of the frequency, and an odd width."""
    with suppress(ValueError):  # which an odd width must raise
        table = sinusoidal_table(9, 127)
        return Finding("refuted", f"an odd width gives {table.shape}")
    two_i = torch.arange(0, 128, 2).double()
    by_power = 10_000 ** (-two_i / 128)
    by_exponential = (-math.log(10_000) / 128 * two_i).exp()
    pairs = [
        (sinusoidal_table(1000, 128), encode_positions(1000, 128)),
        (by_power, by_exponential),
    ]
    return judge_equality(pairs, within=IN_FLOAT32, shown="odd width refused")


def embeddings_are_scaled_before_positions_join() -> Finding:
    """C06: what enters the first layer of a model, and the encoding of single steps."""
    words = """position=sinusoidal position.layout=interleaved model.scale_embedding=true
        model.d_model=16 data.vocab_size=20 data.max_len=9"""
    model: Any = build_model(compose(words.split())).double().eval()
    formula = encode_positions(9, 16)
    ids = torch.arange(5, 14)

    entering = _record_input(model.layers[0])
    model(ids[None])
    expected = math.sqrt(16) * model.embedding(ids) + formula

    nothing = torch.zeros(9, 1, 16).double()
    steps = model.position(nothing, torch.arange(9)[:, None])
    pairs = [(entering[0], expected), (steps[:, 0], formula)]
    return judge_equality(pairs, within=IN_FLOAT32)


def _record_input(layer: Any) -> list[Tensor]:
    """A list that gets the first input of a layer whenever the layer is called."""
    inputs: list[Tensor] = []

    def record(_: object, args: tuple[Any, ...]) -> None:
        inputs.append(args[0][0])

    layer.register_forward_pre_hook(record)
    return inputs


def layouts_differ_by_a_permutation() -> Finding:
    """C07: the tables; a linear map after them takes any order of columns."""
    split = sinusoidal_table(9, 16, layout="split")
    interleaved = sinusoidal_table(9, 16, layout="interleaved")
    cosines = interleaved[:, 1::2]
    sines = interleaved[:, 0::2]
    return judge_equality([(split, torch.cat([cosines, sines], dim=1))], within=0)


def shifts_are_rotations() -> Finding:
    """C08: every shift from every position by one rotation of pairs, built from the formula."""
    table = sinusoidal_table(1000, 32).double()
    pairs = []
    for shift in (1, 7, 40, 500):
        rotated = table[:-shift] @ _rotation(shift, 32).T
        pairs.append((table[shift:], rotated))
    shown = "δ = 1, 7, 40, 500 from all p < 1000 - δ"
    return judge_equality(pairs, within=2 * IN_FLOAT32, shown=shown)


def _rotation(shift: int, width: int) -> Tensor:
    """R(δ) as a block-diagonal matrix: (D, D), of which no entry depends on the position."""
    sines_and_cosines = encode_positions(shift + 1, width)[shift].view(-1, 2)
    blocks = []
    for sin, cos in sines_and_cosines.tolist():
        blocks.append(torch.tensor([[cos, sin], [-sin, cos]], dtype=torch.float64))
    rotation: Tensor = torch.block_diag(*blocks)
    return rotation


def later_columns_oscillate_slower() -> Finding:
    """C09: columns 6 to 9 of 32; those of a pair are a quarter period apart, so that their squares
    sum to 1."""
    wave = sinusoidal_table(60, 32).double()[:, 6:10]
    periods = _periods(wave)
    faster = max(periods[:2]) < min(periods[2:])
    squares = wave[:, 0] ** 2 + wave[:, 1] ** 2
    shown = ", ".join(f"{period:.2f}" for period in periods)
    return judge_equality(
        [(squares, torch.ones(60))],
        within=2 * IN_FLOAT32,
        also=faster,
        shown=f"periods {shown}",
    )


def _periods(wave: Tensor) -> list[float]:
    """Period of each column of (T, columns), in tokens.

    A sine s of frequency w has s[p-1] + s[p+1] = 2 cos(w) s[p]; least squares give cos(w).
    """
    middle = wave[1:-1]
    neighbours = wave[:-2] + wave[2:]
    slopes = (neighbours * middle).sum(dim=0) / (middle**2).sum(dim=0)
    frequencies = (slopes / 2).acos()
    periods: list[float] = (2 * math.pi / frequencies).tolist()
    return periods
