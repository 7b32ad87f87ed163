"""Intervals for other texts and for other data sets: numbers and symmetries."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from attnexp.statistics.crossed import Crossed, crossed, widen
from attnexp.statistics.intervals import Interval, t_interval
from attnexp.statistics.meta import random_effects


def test_components_are_those_of_the_analysis_of_variance() -> None:
    """A balanced design whose effects are orthogonal, so that every mean square is known."""
    seeds = np.array([[-3], [0], [3]])
    texts = np.array([-1, -1, 1, 1])
    rest = np.outer([1, -2, 1], [1, -1, 1, -1]) / 10
    mean_squares = np.array([36, 4, -0.04])
    total = 39.96
    df = total**2 / sum(mean_squares**2 / [2, 3, 6])
    se = (total / 12) ** 0.5
    bounds = stats.t.interval(0.95, df, 2, se)
    d = 2 + seeds + texts + rest
    for answers in (d, d.T):
        assert crossed(answers) == pytest.approx((*bounds, se, df))


def test_negative_components_are_left_out() -> None:
    """Seeds and texts whose means are all equal: the rest alone makes the variance."""
    interval: Any = crossed(np.array([[1.0, -1.0], [-1.0, 1.0]]))
    assert (interval.df, interval.se) == pytest.approx((1, 1))
    assert crossed(np.ones((1, 5))) is None
    assert crossed(np.zeros((3, 5))) is None


def test_with_texts_or_seeds_alike_it_is_the_interval_of_the_others() -> None:
    values = [1.0, 4.0, 6.0]
    d = np.column_stack([values] * 5)
    for answers in (d, d.T):
        interval: Any = crossed(answers, m=3)
        assert interval[:2] == pytest.approx(t_interval(values, m=3).bounds)


def test_texts_only_widen_the_interval_of_seeds() -> None:
    texts = Crossed(-1, 2, se=1, df=3)
    lower = Interval(3, 0, 1, -2, 1)
    higher = Interval(3, 1, 1, 0, 3)
    assert widen(texts, lower) == (-2, 2)
    assert widen(texts, higher) == (-1, 3)


@given(
    st.lists(st.tuples(st.integers(-99, 99), st.integers(1, 9)), min_size=2, max_size=8),
    st.integers(1, 12),
)
def test_data_sets_are_weighed_by_precision(rows: list[list[int]], m: int) -> None:
    """Where they differ by more than their errors, the equation of Paule and Mandel holds."""
    d, errors = np.array(rows).T
    interval, next_bounds = random_effects(d, errors, m)
    df = len(d) - 1
    level = 1 - 0.05 / m
    weights = 1 / (errors**2 + interval.sd**2)
    mean = np.average(d, weights=weights)
    variance = 1 / weights.sum()
    bounds = stats.t.interval(level, df, mean, variance**0.5)
    assert (interval.mean, *interval.bounds) == pytest.approx((mean, *bounds))
    next_se = (interval.sd**2 + variance) ** 0.5
    expected = stats.t.interval(level, df - 1, mean, next_se)  # NaN below three data sets
    assert next_bounds == pytest.approx(expected, nan_ok=True)
    squares = weights @ (d - mean) ** 2
    assert squares <= df + 1e-6
    if interval.sd:
        assert squares == pytest.approx(df, rel=1e-3)


@pytest.mark.parametrize(("m", "low", "high"), [(12, 0, 12), (1, 60, 200)])
def test_means_of_a_family_hold_together(m: int, low: int, high: int) -> None:
    """Twelve means over seven data sets, nothing being true: some leave out 0 in at most 6 % of
    studies, and in far more where each is judged alone."""
    num_missed = 0
    for study in np.random.default_rng(0).normal(0, 3, (200, 12, 7)):
        means = (random_effects(d, np.ones(7), m)[0] for d in study)
        num_missed += any(mean.low > 0 or mean.high < 0 for mean in means)
    assert low <= num_missed <= high
