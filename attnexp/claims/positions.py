"""Claims about order and position encoding. The table of sines is stored in float32."""

import math

import torch

from attnexp.claims.finding import Finding, claim, judge_equality, max_abs_diff
from attnexp.claims.samples import draw_normal, random_attention
from attnexp.model.positions import SinusoidalPosition, sinusoidal_table

IN_FLOAT32 = 1e-7  # tolerance of numbers up to 1 that are stored in float32


@claim("C04", "M, K", "Attention is permutation-equivariant without PE, not with it")
def attention_without_positions_is_blind_to_order() -> Finding:
    """Outputs that do not swap places when two tokens do; with PE a mean that stays the same."""
    layer = random_attention()
    order = [1, 0, 2, 3, 4, 5, 6]
    x = draw_normal(1, 7, 8)
    swapped = x[:, order]
    add_positions = SinusoidalPosition(7, 8)
    mean = layer(add_positions(x)).mean(dim=1)
    mean_swapped = layer(add_positions(swapped)).mean(dim=1)
    change = max_abs_diff((mean_swapped, mean))
    return judge_equality(
        (layer(swapped), layer(x)[:, order]),
        also=change > 1e-3,
        shown=f"the mean with PE by {change:.2g}",
    )


@claim("C07", "K", "Interleaved and split PE are equal up to a permutation")
def layouts_differ_by_a_permutation() -> Finding:
    """A table whose columns, put in the other order, are not those of the other."""
    split = sinusoidal_table(9, 16, layout="split")
    interleaved = sinusoidal_table(9, 16, layout="interleaved")
    sines = interleaved[:, ::2]
    cosines = interleaved[:, 1::2]
    cosines_first = torch.cat([cosines, sines], dim=1)
    return judge_equality((split, cosines_first), within=0)


@claim("C08", "M, K", "PE(p+δ) = R(δ)·PE(p), a rotation that does not depend on p")
def shifts_are_rotations() -> Finding:
    """A position from which R(δ), built from the formula, does not lead to that δ further on."""
    table = sinusoidal_table(1000, 32).double()
    two_i = torch.arange(0, 32, 2).double()
    frequencies = 10_000 ** (-two_i / 32)
    pairs = []
    for shift in (1, 7, 40, 500):
        rotations = []
        for angle in shift * frequencies:  # one for each pair of columns
            sin = angle.sin()
            cos = angle.cos()
            rows = [[cos, sin], [-sin, cos]]
            rotations.append(torch.tensor(rows))
        rotation = torch.block_diag(*rotations)
        rotated = table[:-shift] @ rotation.T
        pairs.append((table[shift:], rotated))
    shown = "δ = 1, 7, 40, 500 from all p < 1000 - δ"
    return judge_equality(*pairs, within=2 * IN_FLOAT32, shown=shown)


@claim("C09", "M", "Columns 6, 7 are faster than 8, 9, a quarter period apart")
def later_columns_oscillate_slower() -> Finding:
    """A period of columns 6, 7 no shorter than of 8, 9; squares of 6 and 7 that do not sum to 1."""
    table = sinusoidal_table(60, 32).double()
    waves = table[:, 6:10]
    # a sine s of frequency w has s[p-1] + s[p+1] = 2 cos(w) s[p]
    before = waves[:-2]
    middle = waves[1:-1]
    after = waves[2:]
    neighbours = before + after
    ratios = neighbours.norm(dim=0) / middle.norm(dim=0)
    frequencies = (ratios / 2).acos()
    periods = (math.tau / frequencies).tolist()
    early = periods[:2]
    late = periods[2:]
    shown = ", ".join(f"{period:.2f}" for period in periods)
    squares = waves[:, :2].square()
    radii = squares.sum(dim=1)
    return judge_equality(
        (radii, torch.ones(60)),
        within=2 * IN_FLOAT32,
        also=max(early) < min(late),
        shown=f"periods {shown}",
    )
