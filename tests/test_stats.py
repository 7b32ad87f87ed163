"""Means, spreads and paired differences, against scipy and by hand."""

import numpy as np
import pytest
from scipy import stats

from attnexp.stats import Mean, paired


def test_mean_and_sample_standard_deviation_by_hand() -> None:
    assert Mean.of([1.0, 2.0, 6.0]) == Mean(3.0, pytest.approx(7.0**0.5), 3)  # type: ignore[arg-type]
    assert Mean.of([4.0]) == Mean(4.0, None, 1)


def test_the_interval_is_scipys_paired_t() -> None:
    rng = np.random.default_rng(0)
    a = dict(enumerate(rng.normal(size=7).tolist()))
    b = dict(enumerate(rng.normal(size=7).tolist()))
    ours = paired(a, b)
    theirs = stats.ttest_rel(list(a.values()), list(b.values())).confidence_interval(0.95)
    assert ours is not None
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high))


def test_only_shared_seeds_are_compared() -> None:
    ours = paired({0: 0.5, 1: 0.7, 9: 0.0}, {1: 0.6, 0: 0.6, 2: 0.9})
    assert ours is not None
    assert ours.by_seed == pytest.approx({0: -0.1, 1: 0.1})
    assert ours.difference.n == 2


def test_one_shared_seed_has_no_interval_and_none_no_answer() -> None:
    one = paired({0: 0.5}, {0: 0.25})
    assert one is not None
    assert (one.difference, one.low, one.high) == (Mean(0.25, None, 1), None, None)
    assert paired({0: 0.5}, {1: 0.5}) is None


def test_equal_differences_have_an_interval_of_no_width() -> None:
    same = paired({0: 1.0, 1: 1.0}, {0: 0.5, 1: 0.5})
    assert same is not None
    assert same.low == same.high == 0.5


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    """At n = 3, normal differences: 95 % within four standard errors of 2,000 studies (± 2 %)."""
    rng = np.random.default_rng(1)
    draws = rng.normal(loc=0.3, size=(2000, 3)).tolist()
    pairs = [paired(dict(enumerate(draw)), dict.fromkeys(range(3), 0.0)) for draw in draws]
    covered = [pair.low <= 0.3 <= pair.high for pair in pairs if pair and pair.low and pair.high]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.02)
