"""Intervals for other texts and for other data sets: numbers, symmetries and error rates."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from attnexp.statistics.crossed import crossed, widen
from attnexp.statistics.intervals import t_interval
from attnexp.statistics.meta import random_effects


def test_components_are_those_of_the_analysis_of_variance() -> None:
    """A balanced design whose effects are orthogonal, so that every mean square is known."""
    seeds = np.array([[-3.0], [0], [3]])
    texts = np.array([-1.0, -1, 1, 1])
    rest = np.outer([1, -2, 1], [1, -1, 1, -1]) / 10
    interval: Any = crossed(2 + seeds + texts + rest)
    mean_squares = np.array([4 * 18 / 2, 3 * 4 / 3, -0.24 / 6])
    total = mean_squares.sum()
    df = total**2 / np.sum(mean_squares**2 / [2, 3, 6])
    se = math.sqrt(total / 12)
    bounds = stats.t.interval(0.95, df, 2, se)
    assert interval == pytest.approx((*bounds, se, df))


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


@given(
    st.lists(st.integers(-5, 5), min_size=2, max_size=8, unique=True),
    st.integers(2, 9),
    st.integers(1, 4),
    st.sampled_from([-1, 1]),
)
def test_with_texts_alike_it_is_the_interval_of_seeds_which_only_widens_it(
    d: list[int], num_texts: int, m: int, shift: int
) -> None:
    texts: Any = crossed(np.tile(np.array([d]).T, num_texts), m=m)
    seeds = t_interval(d, m=m)
    assert (texts.low, texts.high) == pytest.approx(seeds.bounds)
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
    next_se = math.sqrt(interval.sd**2 + sd**2 / 4)
    assert next_bounds == pytest.approx(stats.t.interval(0.95, 2, mean, next_se))
    _, next_bounds = random_effects(d[:2], [0.001] * 2)
    assert np.isnan(next_bounds).all()


def test_differences_closer_than_their_errors_have_no_spread_between_data_sets() -> None:
    interval, _ = random_effects([0.01, 0.012, 0.012], [0.02, 0.02, 0.01])
    assert interval.sd == 0
    mean = (0.01 + 0.012 + 4 * 0.012) / 6  # by precision
    assert interval.bounds == pytest.approx(stats.t.interval(0.95, 2, mean, 0.02 / 6**0.5))


@given(st.lists(st.tuples(st.integers(-99, 99), st.integers(1, 9)), min_size=2, max_size=8))
def test_weighted_squares_about_the_mean_are_as_many_as_expected(rows: list[list[int]]) -> None:
    """The equation of Paule and Mandel, where data sets differ by more than their errors."""
    d, errors = np.array(rows).T
    interval, _ = random_effects(d, errors)
    weights = 1 / (errors**2 + interval.sd**2)
    assert interval.mean == pytest.approx(np.average(d, weights=weights))
    squares = np.sum(weights * (d - interval.mean) ** 2)
    if interval.sd:
        assert squares == pytest.approx(len(d) - 1, rel=1e-3)
    else:
        assert squares <= len(d) - 1 + 1e-6


@pytest.mark.parametrize(("m", "low", "high"), [(12, 0, 12), (1, 60, 200)])
def test_means_of_a_family_hold_together(m: int, low: int, high: int) -> None:
    """Twelve means over seven data sets, nothing being true: some leave out 0 in at most 6 % of
    studies, and in far more where each is judged alone."""
    num_missed = 0
    for study in np.random.default_rng(0).normal(0, 3, (200, 12, 7)):
        intervals = [random_effects(d, np.ones(7), m)[0] for d in study]
        num_missed += any(mean.low > 0 or mean.high < 0 for mean in intervals)
    assert low <= num_missed <= high
