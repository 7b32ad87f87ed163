"""Claims of the sources that hold by construction, where tests/model/test_oracle.py has no loop."""

import torch
from samples import redrawn

from attnexp.model.attention import MultiHeadSelfAttention
from attnexp.model.positions import sinusoidal_table

X = torch.randn(2, 7, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_layouts_differ_by_a_permutation() -> None:  # C07
    split = sinusoidal_table(9, 16, layout="split")
    interleaved = sinusoidal_table(9, 16, layout="interleaved")
    assert torch.equal(split, torch.cat([interleaved[:, 1::2], interleaved[:, ::2]], dim=1))


def test_shifts_are_rotations() -> None:  # C08
    table = sinusoidal_table(1000, 32).double()
    frequencies = 10_000 ** (-torch.arange(0, 32, 2).double() / 32)
    turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)
    for shift in (1, 7, 40, 500):
        rotations = [(angle * turn).matrix_exp() for angle in shift * frequencies]
        rotation = torch.block_diag(*rotations)
        torch.testing.assert_close(table[:-shift] @ rotation.T, table[shift:], rtol=0, atol=3e-7)


def test_later_columns_oscillate_slower() -> None:  # C09
    waves = sinusoidal_table(60, 32).double()[:, 6:10]
    # A sine s of frequency w has s[p-1] + s[p+1] = 2 cos(w) s[p].
    neighbours = waves[:-2] + waves[2:]
    frequencies = (neighbours.norm(dim=0) / waves[1:-1].norm(dim=0) / 2).acos()
    assert frequencies[:2].min() > frequencies[2:].max()
    squares = waves[:, :2].square().sum(dim=1)  # of a sine and a cosine
    torch.testing.assert_close(squares, torch.ones_like(squares), rtol=0, atol=2e-7)


def test_joined_heads_are_a_sum_of_low_rank_maps() -> None:  # C16
    layer = redrawn(MultiHeadSelfAttention(8, num_heads=3, d_head=2, d_output=8))
    w_down = layer.v_proj.weight.chunk(3, dim=0)  # of each head: (K, D)
    w_up = layer.out_proj.weight.chunk(3, dim=1)  # of each head: (D, K)
    outputs = [
        weights @ X @ (up @ down).T
        for weights, up, down in zip(layer.weights(X).unbind(dim=1), w_up, w_down, strict=True)
    ]
    torch.testing.assert_close(layer(X), sum(outputs))
