"""Positions are the paper's, and what the sources say of them holds."""

from collections.abc import Callable
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from attnexp.model.biases import AlibiBias, RelativeBias
from attnexp.model.positions import (
    Combine,
    Layout,
    LearnedPosition,
    SinusoidalPosition,
    shuffled_positions,
    sinusoidal_table,
)
from attnexp.model.rotary import RotaryPosition

Float = NDArray[np.float64]


def frequencies_by_power(d_model: int) -> Float:
    return np.array([1 / 10_000 ** (2 * i / d_model) for i in range(d_model // 2)])


def frequencies_by_exp_log(d_model: int) -> Float:
    pairs: Float = np.arange(0, d_model, 2) * (-np.log(10_000.0) / d_model)
    return np.exp(pairs)


def interleaved(num_positions: int, frequencies: Float) -> Float:
    """The paper's formula, one number at a time."""
    table = np.zeros((num_positions, 2 * len(frequencies)))
    for p in range(num_positions):
        for i, frequency in enumerate(frequencies):
            table[p, 2 * i] = np.sin(p * frequency)
            table[p, 2 * i + 1] = np.cos(p * frequency)
    return table


def to_split(d_model: int) -> Float:
    """Where each column of the interleaved layout stands in the split one: cosines come first."""
    half = d_model // 2
    return np.array([half + c // 2 if c % 2 == 0 else c // 2 for c in range(d_model)])


@pytest.mark.parametrize("d_model", [2, 6, 32, 128])
@pytest.mark.parametrize("frequencies", [frequencies_by_power, frequencies_by_exp_log])
def test_the_table_is_the_formula_in_both_its_forms(
    d_model: int, frequencies: Callable[[int], Float]
) -> None:
    """C05."""
    table = sinusoidal_table(80, d_model, layout="interleaved").numpy()
    np.testing.assert_allclose(table, interleaved(80, frequencies(d_model)), rtol=0, atol=1e-7)


@pytest.mark.parametrize("d_model", [1, 7, 127])
@pytest.mark.parametrize("layout", ["split", "interleaved"])
def test_an_odd_width_cannot_pair(d_model: int, layout: Layout) -> None:
    """C05."""
    with pytest.raises(ValueError, match=f"even; got {d_model}"):
        sinusoidal_table(10, d_model, layout=layout)


def test_a_position_far_out_is_as_precise_as_the_first() -> None:
    """C05. An angle in float32 would be off by up to 5e-4 here."""
    last = sinusoidal_table(10_001, 64, layout="interleaved")[-1].numpy().astype(np.float64)
    angle = 10_000 * frequencies_by_power(64)
    np.testing.assert_allclose(last[0::2], np.sin(angle), rtol=0, atol=1e-7)
    np.testing.assert_allclose(last[1::2], np.cos(angle), rtol=0, atol=1e-7)


def test_the_split_layout_is_all_cosines_then_all_sines() -> None:
    table = sinusoidal_table(5, 8, layout="split").numpy()
    angle = np.arange(5)[:, None] * frequencies_by_power(8)
    np.testing.assert_allclose(table, np.hstack([np.cos(angle), np.sin(angle)]), atol=1e-7)


@pytest.mark.parametrize("d_model", [2, 10, 64])
def test_layouts_differ_by_a_permutation_of_columns_alone(d_model: int) -> None:
    """C07."""
    columns = to_split(d_model)
    assert sorted(columns) == list(range(d_model))
    split = sinusoidal_table(50, d_model, layout="split")
    paper = sinusoidal_table(50, d_model, layout="interleaved")
    assert torch.equal(split[:, columns], paper)
    assert d_model == 2 or not torch.equal(split, paper)


@pytest.mark.parametrize("combine", ["add", "concat"])
def test_layouts_are_equally_expressive_before_a_linear_map(combine: Combine) -> None:
    """C07: whatever weights follow one layout, permuted weights do the same after the other."""
    torch.manual_seed(0)
    d_model = 12
    x = torch.randn(2, 9, d_model, dtype=torch.float64)
    paper = SinusoidalPosition(9, d_model, layout="interleaved", combine=combine)
    split = SinusoidalPosition(9, d_model, layout="split", combine=combine)
    columns = torch.from_numpy(to_split(d_model))
    back = columns.argsort()
    if combine == "add":  # embeddings are weights too: their columns move along
        moved, rows = x[..., back], back
    else:
        moved, rows = x, torch.cat([back, torch.arange(d_model, 2 * d_model)])
    weight = torch.randn(len(rows), 5, dtype=torch.float64)
    torch.testing.assert_close(split(moved) @ weight[rows], paper(x) @ weight)
    assert not torch.allclose(split(moved) @ weight, paper(x) @ weight)


@given(delta=st.integers(0, 150))
def test_a_step_ahead_is_one_rotation_whatever_the_position(delta: int) -> None:
    """C08: PE(p + delta) = R(delta) PE(p), and R is orthogonal, in blocks of two."""
    d_model, num_positions = 16, 200
    table = sinusoidal_table(num_positions, d_model, layout="interleaved").double().numpy()
    rotation = np.zeros((d_model, d_model))
    for i, frequency in enumerate(frequencies_by_power(d_model)):
        cos, sin = np.cos(delta * frequency), np.sin(delta * frequency)
        rotation[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = [[cos, sin], [-sin, cos]]
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(d_model), atol=1e-12)
    ahead = table[: num_positions - delta] @ rotation.T
    np.testing.assert_allclose(table[delta:], ahead, rtol=0, atol=3e-7)


def test_columns_6_and_7_turn_faster_than_8_and_9_and_a_quarter_period_apart() -> None:
    """C09. A sine and a cosine of one phase: it grows steadily, so they are a quarter apart."""
    table = sinusoidal_table(60, 32, layout="interleaved").double().numpy()
    speeds = []
    for sine, cosine in [(6, 7), (8, 9)]:
        np.testing.assert_allclose(np.hypot(table[:, sine], table[:, cosine]), 1, atol=1e-6)
        phase = np.unwrap(np.arctan2(table[:, sine], table[:, cosine]))
        steps = np.diff(phase)
        np.testing.assert_allclose(steps, steps.mean(), atol=1e-6)
        speeds.append(steps.mean())
    assert speeds[0] > speeds[1] > 0
    assert speeds[0] / speeds[1] == pytest.approx(10_000 ** (2 / 32), rel=1e-6)


@pytest.mark.parametrize("layout", ["split", "interleaved"])
@pytest.mark.parametrize("num_tokens", [1, 5, 9])
def test_adding_keeps_the_width_and_adds_each_position_its_row(
    layout: Layout, num_tokens: int
) -> None:
    """C11."""
    torch.manual_seed(0)
    x = torch.randn(3, num_tokens, 6)
    joined = SinusoidalPosition(9, 6, layout=layout, combine="add")(x)
    table = sinusoidal_table(9, 6, layout=layout)
    assert joined.shape == x.shape
    for p in range(num_tokens):
        torch.testing.assert_close(joined[:, p], x[:, p] + table[p])


@pytest.mark.parametrize("num_tokens", [1, 5, 9])
def test_concatenating_doubles_the_width_and_puts_the_table_in_front(num_tokens: int) -> None:
    """C11."""
    torch.manual_seed(0)
    x = torch.randn(3, num_tokens, 6)
    joined = SinusoidalPosition(9, 6, combine="concat")(x)
    assert joined.shape == (3, num_tokens, 12)
    assert torch.equal(joined[..., 6:], x)
    for review in joined:
        assert torch.equal(review[:, :6], sinusoidal_table(9, 6, layout="split")[:num_tokens])


def test_the_table_is_neither_trained_nor_saved() -> None:
    position = SinusoidalPosition(9, 6)
    assert not list(position.parameters())
    assert not position.state_dict()


def random(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("combine", ["add", "concat"])
@pytest.mark.parametrize("kind", [SinusoidalPosition, LearnedPosition])
def test_no_positions_means_counting_from_zero(
    kind: type[SinusoidalPosition] | type[LearnedPosition], combine: Combine
) -> None:
    x = random(3, 5, 6).float()
    position = kind(9, 6, combine=combine)
    if isinstance(position, LearnedPosition):
        torch.nn.init.normal_(position.weight, generator=torch.Generator().manual_seed(1))
    counted = torch.arange(5)
    assert torch.equal(position(x), position(x, counted))
    assert torch.equal(position(x), position(x, counted.expand(3, 5)))


@pytest.mark.parametrize("combine", ["add", "concat"])
def test_each_review_can_have_positions_of_its_own(combine: Combine) -> None:
    x = random(2, 3, 6).float()
    positions = torch.tensor([[2, 0, 8], [5, 5, 1]])
    joined = SinusoidalPosition(9, 6, combine=combine)(x, positions)
    for review, own, alone in zip(joined, positions, x, strict=True):
        row = sinusoidal_table(9, 6, layout="split")[own]
        expected = alone + row if combine == "add" else torch.cat([row, alone], dim=-1)
        assert torch.equal(review, expected)


@pytest.mark.parametrize("scale", [0.0, 0.05, 3.0])
@pytest.mark.parametrize("kind", [SinusoidalPosition, LearnedPosition])
def test_scale_multiplies_the_table_alone(
    kind: type[SinusoidalPosition] | type[LearnedPosition], scale: float
) -> None:
    x = random(2, 4, 6).float()
    plain, scaled = kind(9, 6, combine="concat"), kind(9, 6, combine="concat", scale=scale)
    for position in (plain, scaled):
        if isinstance(position, LearnedPosition):
            torch.nn.init.normal_(position.weight, generator=torch.Generator().manual_seed(1))
    assert torch.equal(scaled(x)[..., 6:], x)
    torch.testing.assert_close(scaled(x)[..., :6], scale * plain(x)[..., :6])


def test_every_row_of_the_sinusoids_has_the_norm_that_the_docstring_says() -> None:
    norms = sinusoidal_table(80, 128).norm(dim=-1)
    torch.testing.assert_close(norms, torch.full((80,), 8.0))
    fresh = torch.empty(20_000, 128).uniform_(-0.05, 0.05, generator=torch.Generator())
    assert 24 < 8 / fresh.norm(dim=-1).mean() < 25


@pytest.mark.parametrize("combine", ["add", "concat"])
def test_a_learned_table_learns_in_the_rows_it_used_alone(combine: Combine) -> None:
    """C10."""
    position = LearnedPosition(9, 6, combine=combine, scale=0.5)
    x = random(2, 3, 6).float()
    positions = torch.tensor([[2, 0, 8], [5, 5, 2]])
    position(x, positions).sum().backward()
    assert position.weight.grad is not None
    uses = torch.bincount(positions.flatten(), minlength=9)
    assert torch.equal(position.weight.grad, 0.5 * uses[:, None].expand(9, 6))


def test_a_learned_table_starts_at_no_position_and_is_one_parameter() -> None:
    position, x = LearnedPosition(9, 6), random(2, 3, 6).float()
    assert torch.equal(position(x), x)
    assert {name: tuple(p.shape) for name, p in position.named_parameters()} == {"weight": (9, 6)}


LAYOUTS = pytest.mark.parametrize("layout", ["interleaved", "split"])


@LAYOUTS
@settings(deadline=None)
@given(
    m=st.integers(0, 5_000),
    n=st.integers(0, 5_000),
    shift=st.integers(0, 5_000),
    d_head=st.sampled_from([2, 6, 16]),
)
def test_rotated_products_depend_on_the_distance_alone(
    layout: Layout, m: int, n: int, shift: int, d_head: int
) -> None:
    q, k = random(1, 1, 1, d_head, seed=1), random(1, 1, 1, d_head, seed=2)
    rotate = RotaryPosition(d_head, layout=layout)

    def product(m: int, n: int) -> Tensor:
        qk: Tensor = (rotate(q, torch.tensor([m])) * rotate(k, torch.tensor([n]))).sum()
        return qk

    here, ahead = product(m, n), product(m + shift, n + shift)
    torch.testing.assert_close(here, ahead, rtol=0, atol=1e-10)


@LAYOUTS
def test_rotated_products_do_depend_on_the_distance(layout: Layout) -> None:
    rotate = RotaryPosition(16, layout=layout)
    x = random(1, 1, 1, 16).expand(1, 1, 50, 16)
    products = (rotate(x, torch.arange(50)) @ x[0, 0, 0]).flatten()
    assert len(products.unique()) == 50
    torch.testing.assert_close(products[0], x[0, 0, 0] @ x[0, 0, 0])
    assert (products[1:] < products[0]).all()


@LAYOUTS
def test_rotation_keeps_norms_and_leaves_position_zero_alone(layout: Layout) -> None:
    x = random(2, 3, 7, 8)
    turned = RotaryPosition(8, layout=layout)(x, torch.arange(7) * 100)
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(turned[..., 0, :], x[..., 0, :])


@LAYOUTS
def test_rotation_is_multiplication_by_a_complex_number(layout: Layout) -> None:
    """Su et al. 2021, section 3.2.1: a pair as a complex number, times exp(i p theta)."""
    x, positions = random(2, 3, 7, 8).numpy(), np.array([0, 1, 2, 5, 79, 80, 10_000])
    pairs = x.reshape(2, 3, 7, 4, 2) if layout == "interleaved" else x.reshape(2, 3, 7, 2, 4)
    real, imaginary = np.moveaxis(pairs, -1 if layout == "interleaved" else -2, 0)
    phase = positions[:, None] * frequencies_by_exp_log(8)
    product = (real + 1j * imaginary) * np.exp(1j * phase)
    axis = -1 if layout == "interleaved" else -2
    expected = np.stack([product.real, product.imag], axis=axis).reshape(x.shape)
    turned = RotaryPosition(8, layout=layout)(torch.from_numpy(x), torch.from_numpy(positions))
    np.testing.assert_allclose(turned.numpy(), expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("d_head", [2, 6, 16])
def test_rotary_layouts_differ_by_a_permutation_of_columns_alone(d_head: int) -> None:
    """As C07."""
    x, positions = random(2, 3, 7, d_head), torch.arange(7)
    columns = torch.cat([torch.arange(0, d_head, 2), torch.arange(1, d_head, 2)])
    split = RotaryPosition(d_head, layout="split")(x[..., columns], positions)
    assert torch.equal(split, RotaryPosition(d_head)(x, positions)[..., columns])


def test_rotation_by_positions_of_each_review_is_each_review_rotated_alone() -> None:
    x, positions = random(2, 3, 4, 6), torch.tensor([[3, 0, 1, 2], [2, 2, 7, 0]])
    rotate = RotaryPosition(6)
    together = rotate(x, positions)
    for i in range(2):
        assert torch.equal(together[i : i + 1], rotate(x[i : i + 1], positions[i]))


@LAYOUTS
def test_rotation_computes_in_single_precision_at_least(layout: Layout) -> None:
    x, rotate = random(1, 2, 50, 16).bfloat16(), RotaryPosition(16, layout=layout)
    turned = rotate(x, torch.arange(50))
    assert turned.dtype is torch.bfloat16
    assert torch.equal(turned, rotate(x.float(), torch.arange(50)).bfloat16())


@pytest.mark.parametrize("d_head", [1, 7])
def test_a_rotation_cannot_turn_an_odd_width(d_head: int) -> None:
    with pytest.raises(ValueError, match=f"even; got {d_head}"):
        RotaryPosition(d_head)


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


@settings(deadline=None)
@given(num_tokens=st.integers(1, 12), max_distance=st.integers(1, 15), shift=st.integers(0, 1_000))
def test_a_relative_bias_is_constant_along_diagonals(
    num_tokens: int, max_distance: int, shift: int
) -> None:
    bias = relative(3, max_distance)
    scores = bias(torch.arange(num_tokens))
    assert torch.equal(scores[:, 1:, 1:], scores[:, :-1, :-1])
    assert torch.equal(scores, bias(torch.arange(num_tokens) + shift))
    beyond = scores[:, 0, max_distance:]  # the first query's keys, clipped
    assert (beyond == beyond[:, :1]).all()


def test_a_relative_bias_learns_at_the_distances_it_met() -> None:
    bias = relative(2, 4)
    bias(torch.arange(3)).sum().backward()
    assert bias.weight.grad is not None
    assert bias.weight.grad.tolist() == [[0, 0, 1, 2, 3, 2, 1, 0, 0]] * 2


def test_a_relative_bias_starts_as_none_and_needs_two_distances() -> None:
    assert not RelativeBias(2, max_distance=3)(torch.arange(5)).any()
    assert RelativeBias(2, max_distance=3).weight.shape == (2, 7)
    with pytest.raises(ValueError, match="max_distance must be 1 or more; got 0"):
        RelativeBias(2, max_distance=0)


def test_alibi_has_the_slopes_of_the_paper() -> None:
    """Press et al. 2022, section 3: 1/2, 1/4, ..., 1/256 for 8 heads."""
    next_key = AlibiBias(8)(torch.arange(2))[:, 0, 1]
    assert next_key.tolist() == [-1 / 2**h for h in range(1, 9)]
    assert AlibiBias(16)(torch.arange(2))[1::2, 0, 1].tolist() == next_key.tolist()
    three = AlibiBias(3)(torch.arange(2))[:, 0, 1]
    torch.testing.assert_close(three, -torch.tensor([2 ** (-8 / 3), 2 ** (-16 / 3), 2**-8]))


@settings(deadline=None)
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


def test_alibi_has_nothing_to_learn_or_to_save() -> None:
    bias = AlibiBias(4)
    assert not list(bias.parameters())
    assert not bias.state_dict()


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


@settings(deadline=None)
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


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 100))
def test_under_shuffled_positions_attention_is_order_blind(seed: int) -> None:
    """C04, for every seam: a review and its words reordered give the same mean."""
    ids = reviews(1, 12, seed=seed)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(seed))
    embedding = random(20_000, 8)
    join, rotate, bias = SinusoidalPosition(12, 8), RotaryPosition(8), relative(1, 5)

    def mean(ids: Tensor) -> Tensor:
        positions = shuffled_positions(ids)
        x = join(embedding[ids], positions)
        q = rotate(x[:, None], positions)
        weights = (q @ q.mT / 20 + bias(positions)).softmax(dim=-1)
        y: Tensor = (weights @ x[:, None]).mean(dim=-2)
        return y

    torch.testing.assert_close(mean(ids), mean(ids[:, order]))
