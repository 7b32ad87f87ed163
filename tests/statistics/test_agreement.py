"""A published figure among our seeds: inside as often as it says, for a run of the same law."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats as theirs

from attnexp.statistics.agreement import Agreement, agreement, leave_one_out
from attnexp.statistics.paired import Mean


def held(published: float, ours: list[float]) -> Agreement:
    found = agreement(published, Mean.of(ours))
    assert found is not None
    return found


def test_the_interval_is_that_of_one_more_draw() -> None:
    """The prediction interval of 1, 2, 3 is 2 ± t(0.975, 2) × 1 × sqrt(4/3)."""
    half = float(theirs.t.ppf(0.975, 2)) * math.sqrt(4 / 3)
    found = held(5.0, [1.0, 2.0, 3.0])
    assert (found.low, found.high) == pytest.approx((2 - half, 2 + half))
    assert (found.inside, found.distance) == (True, 3.0)
    assert held(2 - half - 1e-9, [1.0, 2.0, 3.0]).inside is False
    assert held(2 - half + 1e-9, [1.0, 2.0, 3.0]).inside is True


def test_nothing_is_said_of_few_seeds_or_of_seeds_without_spread() -> None:
    assert agreement(0.5, Mean.of([0.4])) is None
    assert agreement(0.5, Mean.of([0.4, 0.6])) is None
    assert agreement(0.5, Mean.of([0.5] * 10)) is None


DRAWS: dict[str, Callable[[np.random.Generator, tuple[int, int]], NDArray[np.float64]]] = {
    "normal": lambda rng, size: rng.normal(size=size),
    "exponential": lambda rng, size: rng.exponential(size=size),
    "lognormal": lambda rng, size: rng.lognormal(size=size),
}


def share_inside(law: str, n: int, *, studies: int, moved: float = 0.0) -> float:
    """How often one more draw of a law, moved by so many of its sd, is inside n others'."""
    rng = np.random.default_rng([n, *law.encode()])
    draws = DRAWS[law](rng, (studies, n + 1)).tolist()
    return sum(held(one + moved, ours).inside for one, *ours in draws) / studies


@pytest.mark.parametrize("n", [3, 10])
def test_a_run_of_the_same_law_is_inside_in_95_percent(n: int) -> None:
    """Within two points: four standard errors of 2,000 studies."""
    assert share_inside("normal", n, studies=2_000) == pytest.approx(0.95, abs=0.02)


def test_a_run_of_another_law_is_told_the_better_the_more_seeds_there_are() -> None:
    shares = [share_inside("normal", n, studies=500, moved=4.0) for n in (3, 5, 10)]
    assert 0.7 > shares[0] > shares[1] > shares[2]
    assert shares[2] < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("n", [3, 5, 10])
@pytest.mark.parametrize("law", DRAWS)
def test_the_share_inside_is_as_the_docstring_says(law: str, n: int) -> None:
    """`agreement`'s table: within half a point (five standard errors) of it."""
    table = {
        "normal": (0.950, 0.951, 0.949),
        "exponential": (0.920, 0.923, 0.931),
        "lognormal": (0.906, 0.907, 0.921),
    }
    found = share_inside(law, n, studies=100_000)
    print(f"{law}, n = {n}: {100 * found:.1f} %")
    assert found == pytest.approx(table[law][[3, 5, 10].index(n)], abs=0.005)


def test_each_run_is_held_against_the_others() -> None:
    """One of five lies far from the rest in one figure of two: they widen it for one another."""
    runs = [[0.0, 0.0], [0.1, 0.1], [0.2, 0.2], [0.3, 0.3], [9.0, 0.15]]
    assert leave_one_out(runs) == [2, 2, 2, 2, 1]
    assert leave_one_out(runs[:3]) == []
    assert leave_one_out([[a, 0.1] for a, _ in runs]) == [1, 1, 1, 1, 0]  # others that are equal


def test_of_one_law_each_run_has_95_percent_of_its_figures_inside() -> None:
    runs = np.random.default_rng(0).normal(size=(10, 2_000)).tolist()
    assert np.mean(leave_one_out(runs)) / 2_000 == pytest.approx(0.95, abs=0.01)


@given(
    st.lists(st.lists(st.floats(-1, 1), min_size=3, max_size=3), min_size=4, max_size=8),
    st.randoms(),
)
def test_the_order_of_runs_changes_no_count(runs: list[list[float]], chance: object) -> None:
    order = list(range(len(runs)))
    chance.shuffle(order)  # type: ignore[attr-defined]
    counts = leave_one_out(runs)
    assert leave_one_out([runs[i] for i in order]) == [counts[i] for i in order]
