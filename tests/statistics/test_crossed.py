"""Intervals for other texts and for other data sets: numbers, symmetries and coverage."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from attnexp.statistics.crossed import crossed
from attnexp.statistics.intervals import t_interval
from attnexp.statistics.meta import random_effects

matrices = st.tuples(st.integers(2, 6), st.integers(2, 9), st.integers(0, 999)).map(
    lambda given: np.random.default_rng(given[2]).normal(size=given[:2])
)


def test_components_are_those_of_the_analysis_of_variance() -> None:
    """A balanced design whose effects are orthogonal, so that every mean square is known."""
    seeds, texts = np.array([-3.0, 0, 3]), np.array([-1.0, -1, 1, 1])
    rest = np.outer([1, -2, 1], [1, -1, 1, -1]) / 10
    found = crossed(2 + seeds[:, None] + texts + rest)
    assert found is not None
    ms_seeds, ms_texts, ms_rest = 4 * 18 / 2, 3 * 4 / 3, 0.24 / 6
    total = ms_seeds + ms_texts - ms_rest
    df = total**2 / (ms_seeds**2 / 2 + ms_texts**2 / 3 + ms_rest**2 / 6)
    assert (found.df, found.se) == pytest.approx((df, math.sqrt(total / 12)))
    half = stats.t.ppf(0.975, df) * found.se
    assert (found.low, found.high) == pytest.approx((2 - half, 2 + half))


@given(matrices)
def test_seeds_and_texts_play_the_same_part(d: NDArray[Any]) -> None:
    assume(np.ptp(d) > 0)
    one, other = crossed(d), crossed(d.T)
    assert one is not None
    assert other is not None
    assert one == pytest.approx(other)


@given(st.lists(st.integers(-5, 5), min_size=2, max_size=8), st.integers(2, 9), st.integers(1, 4))
def test_where_all_texts_are_alike_it_is_the_interval_of_seeds(
    d: list[int], copies: int, m: int
) -> None:
    assume(len(set(d)) > 1)
    found, seeds = (
        crossed(np.repeat(np.array(d, float)[:, None], copies, axis=1), m=m),
        t_interval(d, m=m),
    )
    assert found is not None
    assert (found.low, found.high) == pytest.approx((seeds.low, seeds.high))


def test_without_variation_or_with_one_seed_there_is_none() -> None:
    assert crossed(np.ones((1, 5))) is None
    assert crossed(np.zeros((3, 5))) is None


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_it_holds_the_mean_of_crossed_effects(share: float) -> None:
    """share: of the variance of the mean that is due to seeds."""
    rng, held = np.random.default_rng(0), 0
    for _ in range(600):
        seeds = rng.normal(size=(10, 1)) * math.sqrt(10 * share)
        texts = rng.normal(size=40) * math.sqrt(40 * (1 - share))
        found = crossed(seeds + texts + rng.normal(size=(10, 40)))
        assert found is not None
        held += found.low <= 0 <= found.high
    assert held / 600 == pytest.approx(0.95, abs=0.03)


def test_equal_errors_give_the_t_interval_over_data_sets() -> None:
    """Then the weights are equal, and τ² + se² is the variance of the differences."""
    d = [0.01, 0.03, -0.02, 0.05]
    found, mean, sd = random_effects(d, [0.001] * 4), np.mean(d), np.std(d, ddof=1)
    low, high = stats.t.interval(0.95, 3, mean, sd / 2)
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.tau**2 == pytest.approx(sd**2 - 0.001**2)
    ahead = stats.t.ppf(0.975, 2) * (found.tau**2 + sd**2 / 4) ** 0.5
    assert (found.next_low, found.next_high) == pytest.approx((mean - ahead, mean + ahead))


def test_differences_closer_than_their_errors_have_no_spread_between_data_sets() -> None:
    found = random_effects([0.01, 0.011, 0.012], [0.02, 0.02, 0.02])
    assert found.tau == 0
    assert found.high - found.low == pytest.approx(2 * stats.t.ppf(0.975, 2) * 0.02 / 3**0.5)
    assert math.isnan(random_effects([0.01, 0.02], [0.001, 0.001]).next_low)


@given(
    st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 0.1)), min_size=3, max_size=8),
    st.floats(-1, 1),
)
def test_a_shift_of_all_moves_everything_alike(rows: list[tuple[float, float]], by: float) -> None:
    d, errors = zip(*rows, strict=True)
    one, other = random_effects(d, errors), random_effects([x + by for x in d], errors)
    assert other.mean == pytest.approx(one.mean + by, abs=1e-6)
    assert min(d) - 1e-6 <= one.mean <= max(d) + 1e-6
    assert one.next_low <= one.low


@pytest.mark.parametrize("tau", [0.0, 1.0, 3.0])
def test_the_interval_holds_the_mean_of_data_sets(tau: float) -> None:
    """At least 92 %, with errors that differ threefold; far more where there is no spread."""
    rng, held = np.random.default_rng(0), 0
    for _ in range(400):
        errors = rng.uniform(0.5, 1.5, 5)
        found = random_effects(rng.normal(size=5) * np.hypot(tau, errors), errors)
        held += found.low <= 0 <= found.high
    assert held / 400 >= 0.92
