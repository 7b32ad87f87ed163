"""Claims of the sources that hold by construction, where tests/model/test_oracle.py has no loop."""

import pytest
import torch
from samples import redrawn

from attnexp.model.attention import MultiHeadSelfAttention
from attnexp.model.positions import sinusoidal_table

X = torch.randn(2, 7, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_layouts_differ_by_a_permutation() -> None:  # C07
    split = sinusoidal_table(9, 16, layout="split")
    interleaved = sinusoidal_table(9, 16, layout="interleaved")
    cosines_first = [*range(1, 16, 2), *range(0, 16, 2)]
    assert torch.equal(split, interleaved[:, cosines_first])


@pytest.mark.parametrize("shift", [1, 7, 40, 500])
def test_shifts_are_rotations(shift: int) -> None:  # C08
    table = sinusoidal_table(1000, 32).double()
    points = torch.complex(table[:, 1::2], table[:, ::2])  # cosines and sines
    frequencies = 10_000 ** (-torch.arange(0, 32, 2).double() / 32)
    turns = torch.polar(torch.ones(16).double(), shift * frequencies)
    torch.testing.assert_close(points[:-shift] * turns, points[shift:], rtol=0, atol=3e-7)


def test_later_columns_oscillate_slower() -> None:  # C09
    waves = sinusoidal_table(600, 32)[1:, 6:10]
    num_crossings = (waves[1:] * waves[:-1] < 0).sum(dim=0)
    assert num_crossings[:2].min() > num_crossings[2:].max()
    squares = waves[:, :2].square().sum(dim=1)  # of a sine and a cosine
    torch.testing.assert_close(squares, torch.ones(599))


def test_joined_heads_are_a_sum_of_low_rank_maps() -> None:  # C16
    layer = redrawn(MultiHeadSelfAttention(8, num_heads=3, d_head=2, d_output=8))
    w_down = layer.v_proj.weight.chunk(3, dim=0)  # of each head: (K, D)
    w_up = layer.out_proj.weight.chunk(3, dim=1)  # of each head: (D, K)
    weights = layer.weights(X)  # (B, H, T, T)
    output = torch.zeros_like(X)
    for head in range(3):
        low_rank = w_up[head] @ w_down[head]
        output += weights[:, head] @ X @ low_rank.T
    torch.testing.assert_close(layer(X), output)
