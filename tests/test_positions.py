"""Positions are the paper's, and what the sources say of them holds."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from attnexp.model.positions import SinusoidalPosition, sinusoidal_table

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
def test_an_odd_width_cannot_pair(d_model: int, layout: str) -> None:
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
def test_layouts_are_equally_expressive_before_a_linear_map(combine: str) -> None:
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
    layout: str, num_tokens: int
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
