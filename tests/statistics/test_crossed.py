"""The interval for other seeds and texts, how often it holds the truth, and where it is shown."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from samples import answers, but, only, result, write_table
from simulated import SHARES_OF_SEEDS, coverage_of_bits, coverage_of_effects, published_bits

from attnexp.analysis.other_results import RESULT, judge_results, read_results
from attnexp.report import formats
from attnexp.statistics.crossed import Crossed, Sums, crossed
from attnexp.statistics.paired import paired

matrices = st.tuples(st.integers(2, 6), st.integers(2, 9), st.integers(0, 999)).map(
    lambda given: np.random.default_rng(given[2]).normal(size=given[:2])
)


def of(d: NDArray[Any]) -> Crossed:
    """The interval of a matrix (seeds, texts)."""
    found = crossed(d.sum(1), d.sum(0), float((d**2).sum()))
    assert found is not None
    return found


def test_components_are_those_of_the_analysis_of_variance() -> None:
    """A balanced design whose effects are orthogonal, so that every mean square is known."""
    seeds, texts = np.array([-3.0, 0, 3]), np.array([-1.0, -1, 1, 1])
    rest = np.outer([1, -2, 1], [1, -1, 1, -1]) / 10
    found = of(2 + seeds[:, None] + texts + rest)
    ms_seeds, ms_texts, ms_rest = 4 * 18 / 2, 3 * 4 / 3, 0.24 / 6
    assert found.se_seeds == pytest.approx(((ms_seeds - ms_rest) / 12) ** 0.5)
    assert found.se_texts == pytest.approx(((ms_texts - ms_rest) / 12) ** 0.5)
    total = ms_seeds + ms_texts - ms_rest
    df = total**2 / (ms_seeds**2 / 2 + ms_texts**2 / 3 + ms_rest**2 / 6)
    assert (found.df, (found.low + found.high) / 2) == pytest.approx((df, 2))


@given(matrices)
def test_seeds_and_texts_play_the_same_part(d: NDArray[Any]) -> None:
    assume(np.ptp(d) > 0)
    one, other = of(d), of(d.T)
    assert (one.low, one.high, one.df) == pytest.approx((other.low, other.high, other.df))
    assert (one.se_seeds, one.se_texts) == pytest.approx((other.se_texts, other.se_seeds))


@given(st.lists(st.integers(-5, 5), min_size=2, max_size=8), st.integers(2, 9))
def test_where_all_texts_are_alike_it_is_the_interval_of_seeds(d: list[int], copies: int) -> None:
    pair = paired({str(i): float(x) for i, x in enumerate(d)}, {str(i): 0.0 for i in range(len(d))})
    assert pair is not None
    assume(len(set(d)) > 1)
    found = of(np.repeat(np.array(d)[:, None], copies, axis=1))
    assert (found.low, found.high) == pytest.approx((pair.low, pair.high))


def test_rows_that_are_added_one_by_one_are_the_matrix() -> None:
    rng = np.random.default_rng(0)
    variant, baseline = rng.random((2, 5, 40)) < 0.7
    sums = Sums()
    for row in zip(variant, baseline, strict=True):
        sums.add(*row)
    assert crossed(sums.by_seed, sums.by_text, sums.squares) == of(
        variant.astype(int) - baseline.astype(int)
    )


def test_one_seed_has_no_interval() -> None:
    assert crossed([3], [1, 1, 1], 3) is None


def test_answers_by_example_give_it_if_all_seeds_answered_the_same(tmp_path: Path) -> None:
    rows = answers()
    file = write_table(tmp_path / "answers.csv", rows)
    (compared,) = judge_results(read_results(file))
    found = compared.differences["pe"][RESULT]
    right = np.array([row["correct"] for row in rows]).reshape(-1, 10)
    names = [row["variant"] for row in rows[::10]]
    each = {name: right[[one == name for one in names]].astype(int) for name in set(names)}
    assert found.texts == of(each["pe"] - each["none"])
    assert "95 %, seeds and texts" in formats.markdown([compared])
    for row in rows:
        row["example"] = f"{row['seed']} {row['example']}"
    (compared,) = judge_results(read_results(write_table(file, rows)))
    other = compared.differences["pe"][RESULT]
    assert other.texts is None
    assert other.mcnemar == found.mcnemar
    assert "95 %, seeds and texts" not in formats.markdown([compared])


def test_a_variant_without_seeds_is_compared_with_every_seed() -> None:
    runs = [result("a", seed, [0.8 + seed / 100]) for seed in range(4)]
    (only_run,) = [result("tfidf", 0, [0.8])]
    config = {**only_run.result.config, "seeds": {}}  # as of TF-IDF, in which nothing is random
    for order in ([*runs, but(only_run, config=config)], [but(only_run, config=config), *runs]):
        comparison = only(order)
        ((label, found),) = comparison.differences.items()
        sign = 1 if label == "tfidf" else -1
        by_seed = found["final"].metrics["accuracy"].by_seed
        expected = {str(seed): -sign * seed / 100 for seed in range(4)}
        assert by_seed == pytest.approx(expected)
        assert {one.means["final"]["accuracy"].n for one in comparison.variants} == {1, 4}


@pytest.mark.slow
@pytest.mark.parametrize("num_seeds", [10, 30])
@pytest.mark.parametrize("share", SHARES_OF_SEEDS)
def test_it_holds_the_mean_of_crossed_normal_effects(num_seeds: int, share: float) -> None:
    assert coverage_of_effects(num_seeds, share) == pytest.approx(0.95, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("num_seeds", [10, 30])
def test_it_holds_the_mean_of_resampled_bits(num_seeds: int) -> None:
    found = coverage_of_bits(published_bits()["final"], num_seeds, studies=1_000)
    assert found == pytest.approx(0.95, abs=0.02)
