"""Numbers of seeds: examples, their definition by simulation, and their words."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnexp.statistics.intervals import anytime_interval, t_interval
from attnexp.statistics.planning import (
    describe_seeds,
    seeds_at_most,
    seeds_if_as_measured,
    smallest_difference,
)

MARGIN = 0.25  # points, as all numbers of this file


@pytest.mark.parametrize(
    ("sd", "m", "mean", "words"),
    [
        (0.65, 5, 0.40, "35 to 104 seeds"),
        (1.5, 1, 1.4, "12 to 380 seeds"),
        (12.7, 1, 26.3, "5 or more seeds"),
        (0.65, 1, 0.1, "at most 73 seeds"),
        (0.65, 1, -0.1, "at most 73 seeds"),
        (0.65, 1, 0.0, "at most 73 seeds"),
        (100.0, 1, 1.0, "more than 10,000 seeds"),
    ],
)
def test_examples(sd: float, m: int, mean: float, words: str) -> None:
    first = seeds_if_as_measured(mean, sd, m)
    second = seeds_at_most(sd, MARGIN, m)
    assert describe_seeds(4, first, second) == words


def test_nothing_is_promised_where_the_larger_number_was_not_enough() -> None:
    assert describe_seeds(72, 334, 73) == "at most 73 seeds"
    assert describe_seeds(73, 334, 73) == ""


@given(st.floats(0.01, 10), st.integers(1, 9), st.booleans())
def test_the_larger_number_leaves_room_for_the_mean(sd: float, m: int, anytime: bool) -> None:
    """The half-width and 1.28 standard errors fit in the margin, for the first time."""
    make_interval = anytime_interval if anytime else t_interval

    def size(n: int) -> float:
        d = np.resize([1.0, -1.0], n)
        interval = make_interval(d / d.std(ddof=1) * sd, m=m)
        return (interval.high - interval.low) / 2 + 1.28 * sd / math.sqrt(n)

    n = seeds_at_most(sd, MARGIN, m, anytime=anytime)
    if n is None:
        assert size(10_000) > MARGIN
    else:
        assert size(n) <= MARGIN * (1 + 1e-9)
        assert n == 3 or size(n - 1) > MARGIN * (1 - 1e-9)


@pytest.mark.parametrize("anytime", [False, True])
def test_the_smaller_number_finds_four_of_five(anytime: bool) -> None:
    """Studies of that many seeds, whose difference is as large as measured."""
    make_interval = anytime_interval if anytime else t_interval
    n = seeds_if_as_measured(-0.8, 1.0, 3, anytime=anytime)
    assert n is not None
    for num_seeds, is_enough in ((n, True), (n - 2, False)):
        studies = np.random.default_rng(0).normal(-0.8, 1.0, (4_000, num_seeds))
        intervals = [make_interval(d, m=3) for d in studies]
        share = sum(interval.high < 0 for interval in intervals) / len(intervals)
        assert (share > 0.79) is is_enough


@given(st.floats(0.1, 10), st.integers(16, 60), st.integers(1, 9), st.booleans())
def test_the_smallest_difference_takes_all_the_seeds(
    sd: float, n: int, m: int, anytime: bool
) -> None:
    mean = smallest_difference(sd, n, m, anytime=anytime)
    assert seeds_if_as_measured(1.001 * mean, sd, m, anytime=anytime) in (n - 1, n)
    assert seeds_if_as_measured(0.999 * mean, sd, m, anytime=anytime) in (n, n + 1)


@given(st.floats(0.001, 1e6), st.integers(1, 9))
def test_a_larger_difference_needs_no_more_seeds(mean: float, m: int) -> None:
    """Also where it is so large that the share of misses underflows."""
    larger = seeds_if_as_measured(1.1 * mean, 1.0, m)
    smaller = seeds_if_as_measured(mean, 1.0, m)
    assert larger is not None or smaller is None
    assert smaller is None or 3 <= larger <= smaller  # type: ignore[operator]


def test_one_seed_or_equal_differences_give_no_number() -> None:
    assert seeds_if_as_measured(0.3, math.nan) is None
    assert seeds_if_as_measured(0.3, 0.0) is None
    assert seeds_at_most(math.nan, MARGIN) is None
    assert seeds_at_most(0.0, MARGIN) == 3
