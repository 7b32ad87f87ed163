"""The warning on differences that are not normal."""

import numpy as np
import pytest
from scipy import stats

from attnexp.statistics.skew import is_skewed, skewness


@pytest.mark.parametrize(
    ("d", "expected"),
    [
        ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], False),
        ([1.0, 2.0, 3.0, 4.0, 5.0, 30.0], True),
        ([1.0, 2.0, 3.0, 4.0, 5.0, -30.0], True),
        ([1.0, 2.0, 3.0], False),
        ([1.0, 2.0, 30.0], True),  # one seed far away
        ([-3.0, -1.0, -0.1, 0.1, 1.0, 3.0, 11.0], True),
        ([1.0], False),
        ([2.0, 2.0, 2.0], False),
    ],
)
def test_examples(d: list[float], expected: bool) -> None:
    assert is_skewed(d) is expected
    assert is_skewed([-value for value in d]) is expected


def test_skewness_needs_six_seeds() -> None:
    """No seed is far away here: the largest lies 2.7 robust standard deviations from the median."""
    five = [0.0, 0.0, 1.0, 1.0, 5.0]
    six = [0.0, 0.0, 1.0, 1.0, 2.0, 5.0]
    assert skewness(np.array(six)) == pytest.approx(stats.skew(six))
    assert min(stats.skew(five), stats.skew(six)) > 1
    assert not is_skewed(five)
    assert is_skewed(six)


def test_steps_of_the_metric_are_no_outliers() -> None:
    """Two of three seeds agree to the text; the third answers one text more."""
    assert is_skewed([0.01, 0.01, 0.02])
    assert not is_skewed([0.01, 0.01, 0.02], step=0.01)
    assert is_skewed([0.01, 0.01, 0.09], step=0.01)
