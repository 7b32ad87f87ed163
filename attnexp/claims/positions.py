"""Claims about order and position encoding. The table of sines is stored in float32.

The docstring of a check is the result that would refute its claim.
"""

import math
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from attnexp.claims.finding import Finding, claim, definition, judge_equality, max_abs_diff
from attnexp.claims.samples import draw_normal, encode_positions, random_attention
from attnexp.config.compose import compose
from attnexp.model.positions import SinusoidalPosition, sinusoidal_table
from attnexp.network.build import build_model

IN_FLOAT32 = 1e-7  # tolerance of numbers up to 1 that are stored in float32


@claim("C04", "M, K", "Attention is permutation-equivariant without PE, not with it")
def attention_without_positions_is_blind_to_order() -> Finding:
    """Outputs that do not swap places when two tokens do; with PE a mean that stays the same."""
    layer = random_attention()
    order = [1, 0, 2, 3, 4, 5, 6]
    x = draw_normal(1, 7, 8)
    swapped = x[:, order]
    position = SinusoidalPosition(7, 8)
    mean = layer(position(x)).mean(dim=1)
    mean_swapped = layer(position(swapped)).mean(dim=1)
    change = max_abs_diff((mean_swapped, mean))
    shown = f"the mean with PE by {change:.2g}"
    return judge_equality((layer(swapped), layer(x)[:, order]), also=change > 1e-3, shown=shown)


@definition("C05", "M, P, K", "PE is sin, cos of p/10000^(2i/d), in two forms, d even")
def positions_are_sines_and_cosines() -> Finding:
    """A table other than the formula, two forms of the frequency that differ, or an odd width."""
    with suppress(ValueError):  # which an odd width must raise
        table = sinusoidal_table(9, 127)
        return Finding("refuted", f"an odd width gives {table.shape}")
    two_i = torch.arange(0, 128, 2).double()
    by_power = 10_000 ** (-two_i / 128)
    by_exponential = (-math.log(10_000) / 128 * two_i).exp()
    tables = (sinusoidal_table(1000, 128), encode_positions(1000, 128))
    frequencies = (by_power, by_exponential)
    return judge_equality(tables, frequencies, within=IN_FLOAT32, shown="odd width refused")


@definition("C06", "P", "Embeddings are scaled by √d before PE; a step has its own PE")
def embeddings_are_scaled_before_positions_join() -> Finding:
    """A first layer that gets other than √d · embedding + PE, or single steps with another PE."""
    words = """position=sinusoidal position.layout=interleaved model.scale_embedding=true
        model.d_model=16 data.vocab_size=20 data.max_len=9"""
    model: Any = build_model(compose(words.split())).double().eval()
    formula = encode_positions(9, 16)
    ids = torch.arange(5, 14)
    entering: list[Tensor] = []
    model.layers[0].register_forward_pre_hook(lambda _, args: entering.append(args[0][0]))
    model(ids[None])
    expected = math.sqrt(16) * model.embedding(ids) + formula
    nothing = torch.zeros(9, 1, 16).double()
    steps = model.position(nothing, torch.arange(9)[:, None])
    return judge_equality((entering[0], expected), (steps[:, 0], formula), within=IN_FLOAT32)


@claim("C07", "K", "Interleaved and split PE are equal up to a permutation")
def layouts_differ_by_a_permutation() -> Finding:
    """A table whose columns, put in the other order, are not those of the other."""
    split = sinusoidal_table(9, 16, layout="split")
    interleaved = sinusoidal_table(9, 16, layout="interleaved")
    cosines_then_sines = torch.cat([interleaved[:, 1::2], interleaved[:, 0::2]], dim=1)
    return judge_equality((split, cosines_then_sines), within=0)


@claim("C08", "M, K", "PE(p+δ) = R(δ)·PE(p), a rotation that does not depend on p")
def shifts_are_rotations() -> Finding:
    """A position from which R(δ), built from the formula, does not lead to that δ further on."""
    table = sinusoidal_table(1000, 32).double()
    pairs = []
    for shift in (1, 7, 40, 500):
        angles = encode_positions(shift + 1, 32)[shift]
        blocks = []
        for sin, cos in angles.view(-1, 2):
            blocks.append(torch.tensor([[cos, sin], [-sin, cos]]))
        rotation = torch.block_diag(*blocks)
        rotated = table[:-shift] @ rotation.T
        pairs.append((table[shift:], rotated))
    shown = "δ = 1, 7, 40, 500 from all p < 1000 - δ"
    return judge_equality(*pairs, within=2 * IN_FLOAT32, shown=shown)


@claim("C09", "M", "Columns 6, 7 are faster than 8, 9, a quarter period apart")
def later_columns_oscillate_slower() -> Finding:
    """A period of columns 6, 7 no shorter than of 8, 9; squares of 6 and 7 that do not sum to 1."""
    table = sinusoidal_table(60, 32).double()
    wave = table[:, 6:10]
    # a sine s of frequency w has s[p-1] + s[p+1] = 2 cos(w) s[p]; least squares give cos(w)
    middle = wave[1:-1]
    neighbours = wave[:-2] + wave[2:]
    products = neighbours * middle
    slopes = products.sum(dim=0) / middle.square().sum(dim=0)
    frequencies = (slopes / 2).acos()
    first, second, third, fourth = (2 * math.pi / frequencies).tolist()
    squares = wave[:, :2].square().sum(dim=1)
    return judge_equality(
        (squares, torch.ones(60)),
        within=2 * IN_FLOAT32,
        also=max(first, second) < min(third, fourth),
        shown=f"periods {first:.2f}, {second:.2f}, {third:.2f}, {fourth:.2f}",
    )
