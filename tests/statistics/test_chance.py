"""Better than always answering the largest class: by answers and by means."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from attnexp.statistics.chance import bound_by_answers, bound_by_means, guesses
from attnexp.statistics.crossed import crossed


@given(st.integers(2, 6), st.integers(2, 30), st.integers(0, 999))
def test_the_bound_by_answers_is_that_of_a_one_sided_interval(n: int, e: int, seed: int) -> None:
    d = np.random.default_rng(seed).integers(-1, 2, size=(n, e)).astype(float)
    interval = crossed(d, m=0.5)  # type: ignore[arg-type]
    assert bound_by_answers(d) == pytest.approx(interval.low if interval else d.mean())


@pytest.mark.parametrize("n", [1, 3])
def test_of_equal_seeds_the_bound_by_means_is_that_of_texts(n: int) -> None:
    """Their variance is the largest: 30 that only the model has right, 20 that only the guess."""
    d = np.repeat([1, -1, 0], [30, 20, 50])
    bound = bound_by_means(np.full(n, 0.8), 0.7, 100)
    assert bound == pytest.approx(0.1 - 1.645 * d.std() / 10, rel=1e-3)


def test_variances_of_seeds_and_texts_add_up() -> None:
    """On at most 0.7 of 100 texts one of both is right: the guess in 0.5, seeds in 0.7 and 0.9."""
    of_seeds = 0.01
    variance = of_seeds + (0.7 - 0.3**2) / 100
    t = stats.t.ppf(0.95, (variance / of_seeds) ** 2)
    bound = bound_by_means(np.array([0.7, 0.9]), 0.5, 100)
    assert bound == pytest.approx(0.3 - t * variance**0.5)


def test_the_guess_has_the_f1_of_one_class() -> None:
    """Precision 0.6 and recall 1 give the largest class of three an F1 of 0.75, the others 0."""
    assert guesses(0.6, 3) == pytest.approx({"accuracy": 0.6, "macro_f1": 0.25})


@pytest.mark.parametrize("share", [0.1, 0.35, 0.6])
def test_a_worthless_model_passes_in_at_most_six_of_a_hundred(share: float) -> None:
    """It answers with the smaller class, right in half of the texts, in this share of them."""
    rng = np.random.default_rng(0)
    by_answers = by_means = 0
    for _ in range(1_000):
        answers = rng.random((4, 784)) < share
        d = answers * rng.choice([-1.0, 1.0], 784)
        guess = 0.5 - d.mean()
        by_answers += bound_by_answers(d) > 0
        by_means += bound_by_means(d.mean(axis=1) + guess, guess, 784) > 0
    assert by_means <= by_answers <= 60
