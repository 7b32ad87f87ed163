"""The mean over data sets and the prediction interval of the next one: numbers and coverage."""

from pathlib import Path

import numpy as np
import pytest
from conftest import Command, Json, Refused
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from attnexp.statistics.meta import meta
from attnexp.statistics.paired import Mean

PUBLISHED = Path(__file__).parents[2] / "outputs" / "published"


def test_equal_errors_give_the_t_interval_of_the_differences() -> None:
    """Then the weights are equal, and τ² + se² is the variance of the differences."""
    d = [0.01, 0.03, -0.02, 0.05]
    found, mean = meta(d, [0.001] * 4), Mean.of(d)
    assert mean.sd is not None
    low, high = stats.t.interval(0.95, 3, mean.mean, mean.sd / 2)
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.tau**2 == pytest.approx(mean.sd**2 - 0.001**2)
    assert found.share == pytest.approx(1 - 0.001**2 / mean.sd**2)
    ahead = stats.t.ppf(0.975, 2) * (found.tau**2 + mean.sd**2 / 4) ** 0.5
    assert found.predicted_high == pytest.approx(mean.mean + ahead)


def test_differences_closer_than_their_errors_have_no_spread_between_data_sets() -> None:
    found = meta([0.01, 0.011, 0.012], [0.02, 0.02, 0.02])
    assert (found.tau, found.share) == (0, 0)
    assert found.high - found.low == pytest.approx(2 * stats.t.ppf(0.975, 2) * 0.02 / 3**0.5)


@given(
    st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 0.1)), min_size=3, max_size=8),
    st.floats(-1, 1),
)
def test_a_shift_of_all_moves_everything_alike(rows: list[tuple[float, float]], by: float) -> None:
    d, errors = zip(*rows, strict=True)
    one, other = meta(d, errors), meta([x + by for x in d], errors)
    assert other.mean == pytest.approx(one.mean + by, abs=1e-6)
    assert min(d) - 1e-6 <= one.mean <= max(d) + 1e-6
    assert one.predicted_low is not None
    assert one.predicted_low <= one.low


def test_two_data_sets_predict_no_third() -> None:
    assert meta([0.01, 0.02], [0.001, 0.001]).predicted_low is None


@pytest.mark.slow
@pytest.mark.parametrize("num_data", [3, 5, 10])
@pytest.mark.parametrize("tau", [0.0, 0.5, 1.0, 3.0])
def test_the_interval_holds_the_mean_of_data_sets(num_data: int, tau: float) -> None:
    """At least 93 %, with errors that differ threefold; far more where there is no spread."""
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(2_000):
        errors = rng.uniform(0.5, 1.5, num_data)
        found = meta(rng.normal(size=num_data) * np.hypot(tau, errors), errors)
        held += found.low <= 0 <= found.high
    assert held / 2_000 >= 0.93


def test_variants_of_one_name_are_combined_over_data_sets(
    here: Command, here_json: Json, refused: Refused, tmp_path: Path
) -> None:
    words = ["report", str(PUBLISHED / "blog_data"), "--across", "data"]
    one = here_json(*words)["across"][-1]
    assert (one["variant"], one["baseline"]) == ("pe", "no_pe")
    assert [*one["differences"]][:3] == ["trec", "subj", "cr"]
    text = here(*words).stdout
    assert max(map(len, text.splitlines())) <= 80
    assert "pe − no_pe, best, over 7 data sets" in text
    assert f"{100 * one['mean']['mean']:+.2f} [" in " ".join(text.split())
    for kind in ("markdown", "latex"):
        assert f"{100 * one['mean']['high']:+.2f}" in here(*words, "--format", kind).stdout
    assert here(*words, "--figure", "a.svg").returncode == 0
    assert "subj" in (tmp_path / "a.svg").read_text()
    assert "--format csv" in refused(*words, "--format", "csv")
    wrong = refused("report", str(PUBLISHED / "heads"), "--across", "data")
    assert "two data sets or more" in wrong
