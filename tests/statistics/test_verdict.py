"""The verdict: a truth table."""

from typing import Any

import pytest

from attnexp.statistics.intervals import Interval
from attnexp.statistics.verdict import MetricSpec, judge_interval

LOSS = MetricSpec(name="loss", is_share=False, higher_is_better=False, margin=0.01)


def interval(low: float, high: float, n: int = 5) -> Interval:
    return Interval(n, (low + high) / 2, 0.01, low, high)


VERDICTS = """
low     high    for other texts   verdict
0.001   0.010   0.001    0.010    helps
0.003   0.004   0.0025   0.005    helps by at least 0.25 points
0.003   0.004   0.001    0.005    helps
0.003   0.004  -0.001    0.005    helps by at least 0.25 points on these texts
0.003   0.004   none     none     helps by at least 0.25 points on these texts
0.001   0.004  -0.001    0.005    helps on these texts
-0.010 -0.001  -0.010   -0.001    hurts
-0.01  -0.003  -0.02    -0.0025   hurts by at least 0.25 points
-0.004 -0.001  -0.005    0.001    hurts on these texts
-0.0024 0.0024 -0.0024   0.0024   equivalent
0.0001  0.0024  0.0001   0.0024   equivalent
-0.001  0.001  -0.003    0.002    equivalent on these texts
-0.001  0.001   none     none     equivalent on these texts
-0.0025 0.001  -0.0025   0.001    undecided
-0.001  0.0025 -0.001    0.0025   undecided
0.0     0.01    0.0      0.01     undecided
-0.01   0.0    -0.01     0.0      undecided
-inf    inf    -inf      inf      too few seeds
"""


@pytest.mark.parametrize("row", VERDICTS.splitlines()[2:])
def test_it_is_where_the_intervals_lie(row: str) -> None:
    *bounds, words = row.split(maxsplit=4)
    low, high, *of_texts = [float(bound) for bound in bounds if bound != "none"]
    texts: Any = tuple(of_texts) or None
    verdict = judge_interval(interval(low, high, 3), MetricSpec(), texts)
    assert verdict[1:] == (words.replace(" by at least 0.25 points", ""), words)
    assert verdict.is_decided is (words not in ("undecided", "too few seeds"))


@pytest.mark.parametrize("counted", ["seeds", "data sets"])
def test_two_of_what_n_counts_are_too_few(counted: str) -> None:
    few = judge_interval(interval(0.1, 0.2, 2), MetricSpec(), counted=counted)
    assert few.name == few.words == f"too few {counted}"
    assert not few.is_decided


def test_less_of_a_loss_helps() -> None:
    less = judge_interval(interval(-0.3, -0.2), LOSS)
    more = judge_interval(interval(0.2, 0.3), LOSS)
    assert less.words == "helps by at least 0.01 on these texts"
    assert more.words == "hurts by at least 0.01 on these texts"
