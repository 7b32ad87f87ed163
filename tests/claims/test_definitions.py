"""Claims of the sources that hold by construction, where tests/model/test_oracle.py has no loop."""

import math

import torch
from samples import redrawn

from attnexp.model.attention import MultiHeadSelfAttention
from attnexp.model.mixers import MaskedMean
from attnexp.model.positions import sinusoidal_table
from attnexp.model.scores import Causal, attention_weights, grid, real_keys

X = torch.randn(2, 7, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
LATER = torch.arange(7)[None, :, None] > 3


def test_masked_keys_get_no_weight() -> None:  # C03
    scores = X[:, :3, :5]
    for lengths in (torch.tensor([[2], [4]]), torch.tensor([[1, 3, 5], [2, 4, 1]])):
        allowed = (torch.arange(5) < lengths[..., None]).expand(2, 3, 5)
        exponentials = scores.exp() * allowed
        expected = exponentials / exponentials.sum(-1, keepdim=True)
        weights = attention_weights(scores, allowed)
        torch.testing.assert_close(weights, expected)
        assert torch.equal(weights > 0, allowed)


def test_layouts_differ_by_a_permutation() -> None:  # C07
    split = sinusoidal_table(9, 16, layout="split")
    interleaved = sinusoidal_table(9, 16, layout="interleaved")
    assert torch.equal(split, torch.cat([interleaved[:, 1::2], interleaved[:, ::2]], dim=1))


def test_shifts_are_rotations() -> None:  # C08
    table = sinusoidal_table(1000, 32).double()
    frequencies = 10_000 ** (-torch.arange(0, 32, 2).double() / 32)
    for shift in (1, 7, 40, 500):
        rotations = [
            torch.tensor([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
            for angle in (shift * frequencies).tolist()
        ]
        rotation = torch.block_diag(*rotations).double()
        torch.testing.assert_close(table[:-shift] @ rotation.T, table[shift:], rtol=0, atol=3e-7)


def test_later_columns_oscillate_slower() -> None:  # C09
    waves = sinusoidal_table(60, 32).double()[:, 6:10]
    # A sine s of frequency w has s[p-1] + s[p+1] = 2 cos(w) s[p].
    neighbours = waves[:-2] + waves[2:]
    frequencies = (neighbours.norm(dim=0) / waves[1:-1].norm(dim=0) / 2).acos()
    assert frequencies[:2].min() > frequencies[2:].max()
    squares = waves[:, :2].square().sum(dim=1)  # of a sine and a cosine
    torch.testing.assert_close(squares, torch.ones_like(squares), rtol=0, atol=2e-7)


def test_a_causal_mask_hides_later_tokens() -> None:  # C14
    layer = redrawn(MultiHeadSelfAttention(8, num_heads=2, d_head=4))
    causal = Causal()(*grid(7))
    weights = layer.weights(X, causal)
    assert torch.equal(weights, weights.tril())
    changed = X.masked_fill(LATER, 9.0)
    assert torch.equal(layer(changed, causal)[:, :4], layer(X, causal)[:, :4])
    assert not torch.allclose(layer(changed)[:, :4], layer(X)[:, :4])


def test_joined_heads_are_a_sum_of_low_rank_maps() -> None:  # C16
    layer = redrawn(MultiHeadSelfAttention(8, num_heads=3, d_head=2, d_output=8))
    w_down = layer.v_proj.weight.chunk(3, dim=0)  # of each head: (K, D)
    w_up = layer.out_proj.weight.chunk(3, dim=1)  # of each head: (D, K)
    outputs = [
        weights @ X @ (up @ down).T
        for weights, up, down in zip(layer.weights(X).unbind(dim=1), w_up, w_down, strict=True)
    ]
    torch.testing.assert_close(layer(X), sum(outputs))


def test_padding_masked_before_softmax_has_no_effect() -> None:  # C19
    layer = redrawn(MultiHeadSelfAttention(8, num_heads=2, d_head=4))
    padding = torch.arange(7)[None] < 3
    real = real_keys(padding)
    pool = MaskedMean(8)
    changed = X.masked_fill(padding[..., None], 9.0)
    torch.testing.assert_close(pool(layer(changed, real), padding), pool(layer(X, real), padding))
    q, k = layer.queries_and_keys(X)
    weights_of_k = (layer.score(q, k) - 1e12 * padding).softmax(dim=-1)
    torch.testing.assert_close(layer.weights(X, real), weights_of_k)
    multiplying = redrawn(MultiHeadSelfAttention(8, num_heads=2, d_head=4, mask_mode="mul"))
    assert multiplying.weights(X, real).sum(dim=-1).mean() < 0.99
