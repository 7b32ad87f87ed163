"""Claims of the sources that hold by construction, where tests/model/test_oracle.py has no loop."""

import torch
from samples import redrawn

from attnexp.model.attention import MultiHeadSelfAttention
from attnexp.model.positions import sinusoidal_table

X = torch.arange(112.0).sin().reshape(2, 7, 8).double()


def test_sines_and_cosines_are_what_the_sources_say() -> None:
    interleaved = sinusoidal_table(1000, 32)
    sines = interleaved[:, ::2].double()
    cosines = interleaved[:, 1::2].double()
    split = sinusoidal_table(1000, 32, layout="split").double()
    assert torch.equal(split, torch.hstack([cosines, sines]))  # C07: a permutation
    points = torch.complex(cosines, sines)
    for shift in (1, 7, 40, 500):  # C08: a rotation that does not depend on the position
        rotated = points[:-shift] * points[shift]
        torch.testing.assert_close(rotated, points[shift:], rtol=0, atol=5e-7)
    num_crossings = (sines[1:] * sines[:-1] < 0).sum(dim=0)
    assert num_crossings[3] > num_crossings[4]  # C09: columns 6 and 8, of one circle with 7 and 9
    torch.testing.assert_close(points.abs(), torch.ones(1000, 16).double())


def test_joined_heads_are_a_sum_of_low_rank_maps() -> None:  # C16
    layer = redrawn(MultiHeadSelfAttention(8, num_heads=3, d_head=2, d_output=8))
    w_down = layer.v_proj.weight.chunk(3, dim=0)  # of each head: (Dh, D)
    w_up = layer.out_proj.weight.chunk(3, dim=1)  # of each head: (D, Dh)
    weights = layer.weights(X).unbind(dim=1)  # of each head: (B, T, T)
    output = torch.zeros_like(X)
    for head_weights, down, up in zip(weights, w_down, w_up, strict=True):
        output += head_weights @ X @ (up @ down).T
    torch.testing.assert_close(layer(X), output)
