"""Positions are the paper's, and what the sources say of them holds."""

from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from attnexp.claims.measure import normal
from attnexp.model.biases import AlibiBias, RelativeBias
from attnexp.model.classifier import shuffled_positions
from attnexp.model.positions import (
    Combine,
    Layout,
    LearnedPosition,
    SinusoidalPosition,
    sinusoidal_table,
)
from attnexp.model.rotary import RotaryPosition

Float = NDArray[np.float64]


def frequencies(d_model: int) -> Float:
    pairs: Float = np.arange(0, d_model, 2) * (-np.log(10_000.0) / d_model)
    return np.exp(pairs)


@pytest.mark.parametrize("module", [SinusoidalPosition(9, 6), AlibiBias(4)], ids=["PE", "alibi"])
def test_a_fixed_table_is_neither_trained_nor_saved(module: torch.nn.Module) -> None:
    assert not list(module.parameters())
    assert not module.state_dict()


@pytest.mark.parametrize("scale", [0.0, 0.05, 1.0])
@pytest.mark.parametrize("combine", ["add", "concat"])
@pytest.mark.parametrize("kind", [SinusoidalPosition, LearnedPosition])
def test_each_review_takes_scaled_rows_by_its_own_positions(
    kind: type[SinusoidalPosition] | type[LearnedPosition], combine: Combine, scale: float
) -> None:
    """Without positions they are counted from zero."""
    x, table = normal(2, 3, 6).float(), sinusoidal_table(9, 6, layout="split")
    position = kind(9, 6, combine=combine, scale=scale)
    if isinstance(position, LearnedPosition):
        position.weight.data = table
    positions = torch.tensor([[2, 0, 8], [5, 5, 1]])
    for chosen in (positions, None):
        for review, own, alone in zip(position(x, chosen), positions, x, strict=True):
            row = scale * table[own if chosen is not None else torch.arange(3)]
            expected = alone + row if combine == "add" else torch.cat([row, alone], dim=-1)
            torch.testing.assert_close(review, expected)


@pytest.mark.parametrize("combine", ["add", "concat"])
def test_a_learned_table_learns_in_the_rows_it_used_alone(combine: Combine) -> None:
    """C10."""
    position = LearnedPosition(9, 6, combine=combine, scale=0.5)
    x = normal(2, 3, 6).float()
    positions = torch.tensor([[2, 0, 8], [5, 5, 2]])
    position(x, positions).sum().backward()
    assert position.weight.grad is not None
    uses = torch.bincount(positions.flatten(), minlength=9)
    assert torch.equal(position.weight.grad, 0.5 * uses[:, None].expand(9, 6))


LAYOUTS = pytest.mark.parametrize("layout", ["interleaved", "split"])


@LAYOUTS
def test_rotation_is_multiplication_by_a_complex_number(layout: Layout) -> None:
    """Su et al. 2021, section 3.2.1: a pair as a complex number, times exp(i p theta)."""
    x, positions = normal(2, 3, 7, 8).numpy(), np.array([0, 1, 2, 5, 79, 80, 10_000])
    pairs = x.reshape(2, 3, 7, 4, 2) if layout == "interleaved" else x.reshape(2, 3, 7, 2, 4)
    real, imaginary = np.moveaxis(pairs, -1 if layout == "interleaved" else -2, 0)
    phase = positions[:, None] * frequencies(8)
    product = (real + 1j * imaginary) * np.exp(1j * phase)
    axis = -1 if layout == "interleaved" else -2
    expected = np.stack([product.real, product.imag], axis=axis).reshape(x.shape)
    turned = RotaryPosition(8, layout=layout)(torch.from_numpy(x), torch.from_numpy(positions))
    np.testing.assert_allclose(turned.numpy(), expected, rtol=0, atol=1e-11)


def test_rotation_by_positions_of_each_review_is_each_review_rotated_alone() -> None:
    x, positions = normal(2, 3, 4, 6), torch.tensor([[3, 0, 1, 2], [2, 2, 7, 0]])
    rotate = RotaryPosition(6)
    together = rotate(x, positions)
    for i in range(2):
        assert torch.equal(together[i : i + 1], rotate(x[i : i + 1], positions[i]))


@LAYOUTS
def test_rotation_computes_in_single_precision_at_least(layout: Layout) -> None:
    x, rotate = normal(1, 2, 50, 16).bfloat16(), RotaryPosition(16, layout=layout)
    turned = rotate(x, torch.arange(50))
    assert turned.dtype is torch.bfloat16
    assert torch.equal(turned, rotate(x.float(), torch.arange(50)).bfloat16())


def test_what_cannot_be_built_is_refused() -> None:
    with pytest.raises(ValueError, match="even; got 7"):
        RotaryPosition(7)
    with pytest.raises(ValueError, match="max_distance must be 1 or more; got 0"):
        RelativeBias(2, max_distance=0)


def relative(num_heads: int, max_distance: int) -> RelativeBias:
    bias = RelativeBias(num_heads, max_distance=max_distance)
    torch.nn.init.normal_(bias.weight, generator=torch.Generator().manual_seed(0))
    return bias


def test_a_relative_bias_is_its_weight_by_clipped_distance() -> None:
    """Shaw et al. 2018, section 3.2; the loop is the definition."""
    bias = relative(2, 3)
    scores = bias(torch.arange(9))
    assert scores.shape == (2, 9, 9)
    for head in range(2):
        for query in range(9):
            for key in range(9):
                column = 3 + max(-3, min(3, key - query))
                assert scores[head, query, key] == bias.weight[head, column]


def test_alibi_has_the_slopes_of_the_paper() -> None:
    """Press et al. 2022, section 3: 1/2, 1/4, ..., 1/256 for 8 heads."""
    next_key = AlibiBias(8)(torch.arange(2))[:, 0, 1]
    assert next_key.tolist() == [-1 / 2**h for h in range(1, 9)]
    assert AlibiBias(16)(torch.arange(2))[1::2, 0, 1].tolist() == next_key.tolist()
    three = AlibiBias(3)(torch.arange(2))[:, 0, 1]
    torch.testing.assert_close(three, -torch.tensor([2 ** (-8 / 3), 2 ** (-16 / 3), 2**-8]))


@given(num_heads=st.integers(1, 12), num_tokens=st.integers(1, 12))
def test_alibi_falls_in_a_straight_line_to_both_sides(num_heads: int, num_tokens: int) -> None:
    scores = AlibiBias(num_heads)(torch.arange(num_tokens))
    assert scores.shape == (num_heads, num_tokens, num_tokens)
    assert torch.equal(scores, scores.mT)
    assert not scores.diagonal(dim1=-2, dim2=-1).any()
    for query in range(num_tokens):
        for key in range(num_tokens):
            slope = -scores[:, 0, -1] / max(num_tokens - 1, 1)
            torch.testing.assert_close(scores[:, query, key], -slope * abs(query - key))


@pytest.mark.parametrize("bias", [relative(3, 2), AlibiBias(3)], ids=["relative", "alibi"])
def test_biases_take_positions_of_each_review(bias: RelativeBias | AlibiBias) -> None:
    positions = torch.tensor([[3, 0, 1, 2], [2, 1, 7, 0]])
    together = bias(positions)
    assert together.shape == (2, 3, 4, 4)
    for i in range(2):
        assert torch.equal(together[i], bias(positions[i]))


def reviews(num_reviews: int, num_tokens: int, *, seed: int = 0) -> Tensor:
    """Ids with the skew of words: frequent ones are small and come again and again."""
    generator = torch.Generator().manual_seed(seed)
    uniform = torch.rand(num_reviews, num_tokens, generator=generator)
    return (20_000**uniform).long() - 1


IDS = st.lists(st.integers(0, 2**31 - 1) | st.integers(0, 5), min_size=1, max_size=30)


@given(ids=IDS, shuffle=st.randoms(use_true_random=False))
def test_shuffled_positions_follow_the_bag_of_words_alone(ids: list[int], shuffle: Random) -> None:
    """Reorder the review, and the same (token, position) pairs come out."""
    other = list(ids)
    shuffle.shuffle(other)
    rows = torch.tensor([ids, other])
    positions = shuffled_positions(rows)
    assert positions.dtype is torch.int64
    pairs = [
        sorted(zip(row, places, strict=True))
        for row, places in zip(rows.tolist(), positions.tolist(), strict=True)
    ]
    assert pairs[0] == pairs[1]
    assert sorted(positions[0].tolist()) == list(range(len(ids)))


def test_no_two_words_tie_however_many() -> None:
    """A tie would be broken by order. The hash is one-to-one, so a vocabulary has none."""
    ids = torch.arange(300_000)
    positions = shuffled_positions(torch.stack([ids, ids.flip(0)]))
    assert torch.equal(positions[0], positions[1].flip(0))


def test_shuffled_positions_of_a_batch_are_those_of_each_review_alone() -> None:
    ids = reviews(20, 80)
    together = shuffled_positions(ids)
    for i, row in enumerate(ids):
        assert torch.equal(together[i : i + 1], shuffled_positions(row[None]))
    assert torch.equal(shuffled_positions(ids.int()), together)


def test_shuffled_positions_know_neither_order_nor_frequency() -> None:
    """Correlations over the vocabulary, and over tokens as reviews have them."""
    vocabulary = torch.arange(20_000)
    ranks = shuffled_positions(vocabulary[None])[0].double()
    correlation = torch.corrcoef(torch.stack([vocabulary.double(), ranks]))[0, 1]
    assert abs(correlation) < 0.03  # four standard deviations of chance
    top = ranks[:200].sort().values / 20_000  # the frequent words, which are most tokens
    assert (top - torch.linspace(0, 1, 200)).abs().max() < 0.12  # Kolmogorov-Smirnov, 1 %

    ids = reviews(500, 80)
    positions = shuffled_positions(ids)
    counted = torch.arange(80).expand_as(ids)
    assert (positions != counted).double().mean() > 0.95
    # A few words make half of all tokens, so chance alone gives frequency some 0.1.
    for known, chance in ((ids.double().log1p(), 0.25), (counted.double(), 0.03)):
        pair = torch.stack([known.flatten(), positions.double().flatten()])
        assert abs(torch.corrcoef(pair)[0, 1]) < chance
