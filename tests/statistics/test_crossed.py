"""Intervals for other texts and for other data sets: numbers, symmetries and error rates."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from attnexp.statistics.crossed import crossed, widen
from attnexp.statistics.intervals import t_interval
from attnexp.statistics.meta import random_effects


def test_components_are_those_of_the_analysis_of_variance() -> None:
    """A balanced design whose effects are orthogonal, so that every mean square is known."""
    seeds = np.array([-3.0, 0, 3])
    texts = np.array([-1.0, -1, 1, 1])
    rest = np.outer([1, -2, 1], [1, -1, 1, -1]) / 10
    interval: Any = crossed(2 + seeds[:, None] + texts + rest)
    ms_seeds = 4 * 18 / 2
    ms_texts = 3 * 4 / 3
    ms_rest = 0.24 / 6
    total = ms_seeds + ms_texts - ms_rest
    df = total**2 / (ms_seeds**2 / 2 + ms_texts**2 / 3 + ms_rest**2 / 6)
    assert interval.df == pytest.approx(df)
    assert interval.se == pytest.approx(math.sqrt(total / 12))
    half = stats.t.ppf(0.975, df) * interval.se
    assert (interval.low, interval.high) == pytest.approx((2 - half, 2 + half))


def test_negative_components_are_left_out() -> None:
    """Seeds and texts whose means are all equal: the rest alone makes the variance."""
    interval: Any = crossed(np.array([[1.0, -1.0], [-1.0, 1.0]]))
    assert (interval.df, interval.se) == pytest.approx((1, 1))
    assert crossed(np.ones((1, 5))) is None
    assert crossed(np.zeros((3, 5))) is None


@given(st.integers(2, 6), st.integers(2, 9), st.integers(0, 999))
def test_seeds_and_texts_play_the_same_part(num_seeds: int, num_texts: int, seed: int) -> None:
    d = np.random.default_rng(seed).normal(size=(num_seeds, num_texts))
    assert crossed(d) == pytest.approx(crossed(d.T))


@given(st.lists(st.integers(-5, 5), min_size=2, max_size=8), st.integers(2, 9), st.integers(1, 4))
def test_with_texts_alike_it_is_the_interval_of_seeds(d: list[int], copies: int, m: int) -> None:
    assume(len(set(d)) > 1)
    same_for_all_texts = np.repeat(np.array(d, float)[:, None], copies, axis=1)
    texts: Any = crossed(same_for_all_texts, m=m)
    seeds = t_interval(d, m=m)
    assert (texts.low, texts.high) == pytest.approx((seeds.low, seeds.high))
    for shift in (-1, 1):
        shifted = seeds._replace(low=texts.low + shift, high=texts.high + shift)
        assert widen(texts, shifted) == (texts.low + min(shift, 0), texts.high + max(shift, 0))


def test_equal_errors_give_the_t_interval_over_data_sets() -> None:
    """Then the weights are equal, and τ² + se² is the variance of the differences."""
    d = [0.01, 0.03, -0.02, 0.05]
    mean = np.mean(d)
    sd = np.std(d, ddof=1)
    interval, next_bounds = random_effects(d, [0.001] * 4)
    assert interval.bounds == pytest.approx(stats.t.interval(0.95, 3, mean, sd / 2))
    assert interval.sd**2 == pytest.approx(sd**2 - 0.001**2)
    half = stats.t.ppf(0.975, 2) * (interval.sd**2 + sd**2 / 4) ** 0.5
    assert next_bounds == pytest.approx((mean - half, mean + half))


def test_differences_closer_than_their_errors_have_no_spread_between_data_sets() -> None:
    interval, _ = random_effects([0.01, 0.011, 0.012], [0.02, 0.02, 0.02])
    assert interval.sd == 0
    width = interval.high - interval.low
    assert width == pytest.approx(2 * stats.t.ppf(0.975, 2) * 0.02 / 3**0.5)
    _, next_bounds = random_effects([0.01, 0.02], [0.001, 0.001])
    assert np.isnan(next_bounds).all()


@given(
    st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 0.1)), min_size=3, max_size=8),
    st.floats(-1, 1),
)
def test_a_shift_of_all_moves_all_alike(rows: list[tuple[float, float]], shift: float) -> None:
    d, errors = zip(*rows, strict=True)
    interval, next_bounds = random_effects(d, errors)
    shifted, _ = random_effects([value + shift for value in d], errors)
    assert shifted.mean == pytest.approx(interval.mean + shift, abs=1e-6)
    assert min(d) - 1e-6 <= interval.mean <= max(d) + 1e-6
    assert next_bounds[0] <= interval.low


def test_means_of_a_family_hold_together() -> None:
    """Twelve means over seven data sets, nothing being true: some leave out 0 in at most 6 % of
    studies, and in far more where each is judged alone."""
    studies = np.random.default_rng(0).normal(0, 3, (200, 12, 7))
    missed = {12: 0, 1: 0}
    for m in missed:
        for study in studies:
            intervals = [random_effects(d, np.ones(7), m)[0] for d in study]
            missed[m] += any(mean.low > 0 or mean.high < 0 for mean in intervals)
    assert missed[12] <= 0.06 * 200
    assert missed[1] > 0.3 * 200
