"""The verdict: a truth table, and what it can never say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnexp.statistics.verdict import Metric, is_at_chance, is_beyond, verdict

LOSS = Metric(name="loss", is_share=False, higher_is_better=False, margin=0.01)


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.001, 0.010, "helps"),
        (0.003, 0.010, "helps"),
        (-0.010, -0.001, "hurts"),
        (-0.0024, 0.0024, "equivalent"),
        (0.0001, 0.0024, "equivalent"),  # a real difference, but none that matters
        (-0.0025, 0.001, "undecided"),
        (-0.01, 0.01, "undecided"),
        (0.0, 0.01, "undecided"),
        (float("-inf"), float("inf"), "undecided"),
    ],
)
def test_it_is_where_the_interval_lies(low: float, high: float, said: str) -> None:
    assert verdict(3, low, high, Metric()) == said
    assert verdict(2, low, high, Metric()) == "too few seeds"


def test_less_of_a_loss_helps() -> None:
    assert verdict(5, -0.3, -0.2, LOSS) == "helps"
    assert verdict(5, 0.2, 0.3, LOSS) == "hurts"


def test_equivalence_that_other_texts_may_break_says_so() -> None:
    for texts, said in (
        ((-0.002, 0.002), "equivalent"),
        ((-0.003, 0.002), "equivalent on these texts"),
    ):
        assert verdict(5, -0.001, 0.001, Metric(), texts) == said
    assert verdict(5, 0.003, 0.004, Metric(), (-0.001, 0.01)) == "helps"


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(0.001, 0.5))
def test_no_verdict_contradicts_its_interval(low: float, width: float, margin: float) -> None:
    high = low + width
    said = verdict(9, low, high, Metric(margin=margin))
    if low <= 0 <= high:
        assert said in ("equivalent", "undecided")
    assert is_beyond(low, high, margin) is (low >= margin or high <= -margin)
    if is_beyond(low, high, margin):
        assert said == ("helps" if low > 0 else "hurts")


def test_chance_is_judged_by_texts_and_seeds() -> None:
    assert is_at_chance([0.52, 0.521, 0.522], 0.5, 100)
    assert not is_at_chance([0.52, 0.521, 0.522], 0.5, 1_000_000)
    assert not is_at_chance([0.7, 0.72, 0.71], 0.5, 100)
    assert is_at_chance([0.9, 0.2], 0.5, 10_000)
    assert is_at_chance([0.52], 0.5, 100)
