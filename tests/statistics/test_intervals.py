"""Intervals, p-values and numbers of seeds, against scipy, brute force and simulation."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from attnexp.statistics.defaults import ALPHA, G
from attnexp.statistics.intervals import (
    anytime_factor,
    anytime_interval,
    p_value,
    prediction_intervals,
    round_to_scale,
    smallest_step,
    t_factor,
    t_interval,
)
from attnexp.statistics.planning import describe_seeds, seeds_at_most, seeds_if_as_measured

MARGIN = 0.25  # points, as all numbers of seeds

thousandths = st.integers(-1000, 1000).map(lambda k: k / 1000)
differences = st.lists(thousandths, min_size=2, max_size=12, unique=True)


@given(differences, st.integers(1, 9))
def test_t_interval_and_p_are_scipys_at_the_level_of_m_comparisons(d: list[float], m: int) -> None:
    tested = stats.ttest_1samp(d, 0)
    bounds = tested.confidence_interval(1 - ALPHA / m)
    interval = t_interval(d, m=m)
    assert interval == pytest.approx((len(d), np.mean(d), np.std(d, ddof=1), *bounds))
    assert t_interval(d[::-1], m=m) == interval  # to the bit
    assert p_value(d, m=m) == pytest.approx(min(1, m * tested.pvalue))


def test_one_more_seed_lies_in_the_interval_of_its_formula() -> None:
    runs = np.array([[0.1, 1.0], [0.2, 2.0], [0.6, 6.0]])
    scale = 2 * stats.sem(runs)  # sd times the root of 1 + 1 / 3
    expected = stats.t.interval(0.95, 2, runs.mean(axis=0), scale)
    np.testing.assert_allclose(prediction_intervals(runs), expected)


def test_equal_differences_are_as_certain_as_a_step_of_the_metric() -> None:
    """On 100 texts three seeds that all gain one point may differ by less than a step."""
    d = [0.01, 0.01, 0.01]
    t = stats.t(df=2, scale=0.005 / 3**0.5)
    interval = t_interval(d, step=0.01)
    assert interval.bounds == pytest.approx(np.add(t.interval(0.95), 0.01))
    assert p_value(d, step=0.01) == pytest.approx(2 * t.sf(0.01))
    d = [0.0, 0.1, 0.2]
    assert t_interval(d, step=0.01) == t_interval(d)


@given(differences, st.integers(1, 5))
def test_the_anytime_interval_is_that_of_its_formula(d: list[float], m: int) -> None:
    n = len(d)
    scale = 1 + n * G
    k = (scale / (ALPHA / m) ** 2) ** (1 / n)
    factor = math.inf
    if k < scale:
        factor = math.sqrt((n - 1) * (k - 1) / (1 - k / scale))
    interval = anytime_interval(d, m=m)
    assert interval[:3] == t_interval(d)[:3]
    half = factor * stats.sem(d)
    assert interval.bounds == pytest.approx((interval.mean - half, interval.mean + half))


@pytest.mark.parametrize("unit", [1e-300, 1e-12, 1, 1e300])
def test_equal_differences_stay_equal_in_every_unit(unit: float) -> None:
    """0.3 - 0.1 and 0.2 - 0 differ by a rounding error."""
    values = unit * np.array([[0.3, 0.2, 0.77], [0.1, 0.0, 0.7]])
    exact = values[0] - values[1]
    d = round_to_scale(exact, values)
    assert d[0] == d[1]
    assert d == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize(
    ("sd", "m", "mean", "words"),
    [
        (0.65, 5, 0.40, "35 to 104 seeds"),
        (1.5, 1, 1.4, "12 to 380 seeds"),
        (12.7, 1, 26.3, "5 or more seeds"),
        (12.7, 1, 1e9, "3 or more seeds"),  # the share of misses underflows
        (0.65, 1, 0.1, "at most 73 seeds"),
        (0.65, 1, 0.0, "at most 73 seeds"),
        (100.0, 1, 1.0, "more than 10,000 seeds"),
    ],
)
def test_seeds_that_are_proposed_are_two_numbers_or_one(
    sd: float, m: int, mean: float, words: str
) -> None:
    first = seeds_if_as_measured(mean, sd, m)
    second = seeds_at_most(sd, MARGIN, m)
    assert describe_seeds(4, first, second) == words
    if second:  # Where the larger number was not enough nothing is promised.
        assert describe_seeds(second, first, second) == ""


@pytest.mark.parametrize("sequential", [False, True])
def test_proposed_seeds_settle_four_of_five_studies(sequential: bool) -> None:
    """What is as large as measured is found; where nothing is true, that is found equivalent."""
    factor = anytime_factor if sequential else t_factor
    if_as_measured = seeds_if_as_measured(-0.8, 1.0, 3, sequential=sequential)
    at_most = seeds_at_most(1.0, 0.8, 3, sequential=sequential)
    cases: Any = [(if_as_measured, -0.8, -math.inf, 0), (at_most, 0, -0.8, 0.8)]
    for n, truth, low, high in cases:
        shares = []
        for num_seeds in (n - 2, n):
            studies = np.random.default_rng(0).normal(truth, 1, (20_000, num_seeds))
            half = factor(num_seeds, 3) * stats.sem(studies, axis=1)
            mean = studies.mean(axis=1)
            settled = (mean - half > low) & (mean + half < high)
            shares.append(settled.mean())
        assert shares[0] < 0.775 < shares[1]


def test_one_seed_has_no_interval_no_p_and_no_number_of_seeds() -> None:
    unknown = (1, 0.3, math.nan, -math.inf, math.inf)
    assert t_interval([0.3]) == pytest.approx(unknown, nan_ok=True)
    assert math.isnan(p_value([0.3]))
    assert seeds_if_as_measured(0.3, math.nan) is None
    assert seeds_if_as_measured(0.3, 0.0) is None
    assert seeds_at_most(math.nan, MARGIN) is None
    assert seeds_at_most(0.0, MARGIN) == 3


@pytest.mark.parametrize(
    ("make_interval", "low", "high"), [(anytime_interval, 0, 15), (t_interval, 45, 300)]
)
def test_the_anytime_interval_holds_at_all_looks_together(
    make_interval: Any, low: int, high: int
) -> None:
    """Looking after every seed up to forty: 95 % of 300 studies hold throughout, unlike by t."""
    num_missed = 0
    for d in np.random.default_rng(0).normal(size=(300, 40)):
        intervals = (make_interval(d[:n]) for n in range(7, 41))
        num_missed += any(interval.low > 0 or interval.high < 0 for interval in intervals)
    assert low <= num_missed <= high


def test_a_step_is_the_smallest_difference_of_values() -> None:
    assert smallest_step([0.5, 0.75, 0.85]) == pytest.approx(0.1)
    assert smallest_step([0.5, 0.95], is_share=True) == pytest.approx(0.05)  # to 1
    assert smallest_step([3.0, 3.0]) == 3
    assert smallest_step([0.0, 0.0]) == 1
