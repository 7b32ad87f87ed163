"""Seeds look by look: what may be decided, by what, and how often wrongly."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student
from simulated import (
    MANY,
    coverage,
    false_equivalent,
    false_verdicts,
    looking_each_time,
    power,
)

from attnexp.statistics.sequential import Decision, Design, chances, decide, design, flip, looks
from attnexp.statistics.verdict import Verdict

PLAN = design(64)
"""Up to 64 seeds, a margin of 0.0025."""

differences = st.lists(st.floats(-1, 1), min_size=6, max_size=64)


def normal(mean: float, sd: float = 1.0, n: int = 64, seed: int = 0) -> list[float]:
    return [float(d) for d in np.random.default_rng(seed).normal(mean, sd, size=n)]


def one(d: list[float], plan: Design = PLAN) -> Decision:
    return decide({"variant": d}, plan)["variant"]


# the plan


def test_looks_grow_apart_from_six_to_the_last() -> None:
    assert looks(64) == (6, 8, 11, 15, 21, 30, 43, 64)
    assert looks(6) == (6,)
    for most in range(6, 200):
        found = looks(most)
        assert (found[0], found[-1]) == (6, most)
        assert list(found) == sorted(set(found))
        assert len(found) == 8 or most < 40
    with pytest.raises(ValueError, match="5 seeds decide nothing"):
        looks(5)


def test_with_one_look_the_interval_is_the_t_interval() -> None:
    assert design(6).levels == pytest.approx((0.05,), rel=0.02)


def test_the_first_level_is_what_may_be_spent_by_then_and_none_is_all() -> None:
    spent = 0.05 * math.log(1 + (math.e - 1) * 6 / 64)
    assert PLAN.levels[0] == pytest.approx(spent, rel=0.05)
    assert max(PLAN.levels) < 0.05 < sum(PLAN.levels)


# one test


@settings(deadline=None, max_examples=30)
@given(differences, st.integers(0, 64))
def test_later_seeds_change_no_earlier_look(d: list[float], n: int) -> None:
    whole, prefix = flip(d, PLAN, alpha=0.05), flip(d[:n], PLAN, alpha=0.05)
    assert prefix.steps.items() <= whole.steps.items()
    if prefix.rejected_at:
        assert whole.rejected_at == prefix.rejected_at


@settings(deadline=None, max_examples=30)
@given(differences)
def test_sign_and_scale_do_not_matter(d: list[float]) -> None:
    """Scaled by a power of two, so that no sum is rounded otherwise."""
    found = flip(d, PLAN, alpha=0.05)
    for other in ([-x for x in d], [4 * x for x in d]):
        assert flip(other, PLAN, alpha=0.05).steps == found.steps


@settings(deadline=None, max_examples=30)
@given(differences)
def test_never_more_goes_than_may_be_spent(d: list[float]) -> None:
    for one_sided in (False, True):
        found = flip(d, PLAN, alpha=0.05, one_sided=one_sided)
        gone = np.count_nonzero(~found.left)
        assert gone <= 500
        assert found.left[0]
        for p, bound in list(found.steps.values())[:-1]:
            assert p > bound


def test_at_one_look_p_is_the_share_of_all_flips() -> None:
    """6 seeds have 64 flips; 10,000 rows of them give their share to 4 standard errors."""
    d = [0.3, 0.1, 0.4, -0.1, 0.5, 0.9]
    signs = 2 * ((np.arange(64)[:, None] >> np.arange(6)) & 1) - 1
    for one_sided in (False, True):
        sums = signs @ d if one_sided else np.abs(signs @ d)
        p = np.mean(sums >= sum(d) - 1e-9)
        (found, bound), *_ = flip(d, design(6), alpha=0.05, one_sided=one_sided).steps.values()
        assert found == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / 10_000))
        assert bound == 0.05


def test_differences_of_one_sign_are_found_at_the_first_look_that_can() -> None:
    """At n = 6 two flips of 64 reach as far, 312 of 10,000 rows, and 74 may be spent; at n = 8
    78 of 97. With a quarter to spend, 11 seeds: 10 of 32."""
    for d in ([0.01] * 64, normal(9.0), [-x for x in normal(9.0)]):
        assert flip(d, PLAN, alpha=0.05).rejected_at == 8
        assert flip(d, PLAN, alpha=0.05 / 4).rejected_at == 11
    assert flip([0.01] * 64, PLAN, alpha=0.05, one_sided=True).rejected_at == 8
    assert flip([-0.01] * 64, PLAN, alpha=0.05, one_sided=True).rejected_at is None
    assert flip([0.0] * 64, PLAN, alpha=0.05).rejected_at is None


# decisions


@pytest.mark.parametrize(
    ("d", "verdict", "n"),
    [
        (normal(0.01, 0.001), Verdict.helps, 8),
        (normal(-0.01, 0.001), Verdict.hurts, 8),
        (normal(0.0, 0.001), Verdict.equivalent, 8),
        ([0.0] * 64, Verdict.equivalent, 8),
        (normal(0.001, 0.0001), Verdict.equivalent, 8),  # real, and too small to matter
        ([0.01, -0.01] * 32, Verdict.inconclusive, 64),
        ([0.01, -0.01] * 31, None, 43),
        ([0.01] * 7, None, 6),
        ([0.01] * 5, None, 0),
    ],
)
def test_a_decision_by_its_differences(d: list[float], verdict: Verdict | None, n: int) -> None:
    found = one(d)
    assert (found.verdict, found.n) == (verdict, n)


@settings(deadline=None, max_examples=20)
@given(st.floats(-2, 2), st.integers(0, 1000))
def test_a_decision_stands_whatever_comes_after(mean: float, seed: int) -> None:
    d = [x / 1000 for x in normal(mean, seed=seed)]
    last = one(d)
    for n in PLAN.looks:
        found = one(d[:n])
        if n < last.n:
            assert found.verdict is None
        else:
            assert found == last


def test_the_interval_at_the_stop_is_t_at_the_level_of_that_look() -> None:
    d = normal(0.01, 0.004)
    found = one(d)
    assert found.n == 8
    low, high = student.interval(
        1 - PLAN.levels[1], 7, np.mean(d[:8]), np.std(d[:8], ddof=1) / math.sqrt(8)
    )
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.mean == pytest.approx(np.mean(d[:8]))


def test_what_one_variant_no_longer_needs_the_others_have() -> None:
    """Beside a clear one, open questions are judged as one fewer, and from the first look on; what
    is equivalent leaves only what it had for that."""
    plan = PLAN
    clear, same, open_one = normal(0.02, 0.001), normal(0.0, 0.0005), normal(0.004, 0.005, seed=4)
    alone = flip(open_one, plan, alpha=0.05).rejected_at
    halved = flip(open_one, plan, alpha=0.025).rejected_at
    assert alone is not None
    assert halved is not None
    assert alone < halved  # else this shows nothing

    def n(**others: list[float]) -> int:
        return decide({**others, "open": open_one}, plan)["open"].n

    assert n() == n(clear=clear) == alone
    assert n(same=same) == n(open_two=[0.01, -0.01] * 32) == halved
    assert n(clear=clear, same=same) == halved


def test_at_the_last_look_too_what_is_found_of_one_helps_the_others() -> None:
    """`late` alone would be found; beside `clear`, which is found at the same look, it is as well,
    and beside one of which nothing is found it is not."""
    plan = design(7)
    clear = [0.01, 0.012, 0.011, 0.013, 0.009, 0.010, 0.0105]
    late = [0.01, 0.011, 0.012, 0.013, -0.0001, 0.010, 0.0002]
    nothing = [0.01, -0.01] * 3 + [0.01]

    def verdicts(**d: list[float]) -> list[Verdict | None]:
        return [found.verdict for found in decide(d, plan).values()]

    assert verdicts(late=late) == [Verdict.helps]
    assert verdicts(late=late, clear=clear) == [Verdict.helps, Verdict.helps]
    assert verdicts(late=late, nothing=nothing) == [Verdict.inconclusive] * 2


def test_the_order_of_the_variants_does_not_matter() -> None:
    d = {str(seed): normal(seed / 500, 0.005, seed=seed) for seed in range(4)}
    assert decide(d, PLAN) == decide(dict(reversed(d.items())), PLAN)


def test_variants_come_as_far_as_their_seeds() -> None:
    found = decide({"late": [0.01] * 10, "none": [], "whole": [0.01] * 64}, PLAN)
    assert (found["late"].verdict, found["late"].n, found["none"].n) == (None, 8, 0)
    assert (found["whole"].verdict, found["whole"].n) == (Verdict.helps, 11)


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="variant: a difference is not finite"):
        one([0.01, math.nan])


@pytest.mark.parametrize(
    ("d", "low", "high"),
    [
        (normal(0.02, 0.001, n=6), 0.95, 1.0),  # sure to be found at n = 8
        (normal(0.0, 0.0002, n=6), 0.95, 1.0),  # sure to be found equivalent
        (normal(0.0, 0.01, n=21), 0.0, 0.1),
        (normal(0.004, 0.008, n=21), 0.1, 0.9),
        (normal(0.002, 0.008, n=43), 0.1, 0.9),
    ],
)
def test_the_chance_of_the_next_look(d: list[float], low: float, high: float) -> None:
    found = decide({"variant": d}, PLAN)
    assert low <= chances({"variant": d}, PLAN, found)["variant"] <= high


def test_chances_are_those_of_open_variants_that_had_a_look() -> None:
    d = {"settled": [0.01] * 64, "open": [0.01, -0.01] * 4, "none": [0.01]}
    assert list(chances(d, PLAN, decide(d, PLAN))) == ["open"]


# error rates


LAWS = ["normal", "t3", "stepped"]


def at_most(rate: float, expected: float = 0.05, *, studies: int) -> bool:
    """To three standard errors."""
    return rate <= expected + 3 * math.sqrt(expected * (1 - expected) / studies)


@pytest.mark.slow
@pytest.mark.parametrize("num_variants", [1, 4])
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("rate", [false_verdicts, false_equivalent])
def test_few_studies_err(rate: Callable[..., float], law: str, num_variants: int) -> None:
    studies = MANY if num_variants == 1 else MANY // 2
    found = rate(law, num_variants, studies)
    print(f"{rate.__name__}, {law}, {num_variants} variants: {100 * found:.1f} %")
    assert at_most(found, studies=studies)


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("dz", [0.0, 0.5, 0.8])
def test_the_interval_at_the_stop_covers(law: str, dz: float) -> None:
    """The intervals of all looks hold the mean in 95 %, so the one at the stop does more often
    where studies stop early; where normal ones do not, it is no wider than it must be."""
    found = coverage(law, dz)
    print(f"{law}, d/sd = {dz}: {100 * found:.1f} %")
    assert found >= 0.935
    if law == "normal" and dz == 0:
        assert found <= 0.965


@pytest.mark.slow
@pytest.mark.parametrize("dz", [0.5, 0.8])
def test_fewer_seeds_than_a_study_of_fixed_size_that_knows_the_difference(dz: float) -> None:
    found = power(dz)
    print(f"d/sd = {dz}: {found}")
    assert found.power >= 0.9
    assert found.fixed is not None
    assert found.mean_n <= found.fixed


@pytest.mark.slow
def test_looking_each_time_at_five_percent_errs_in_a_fifth() -> None:
    assert looking_each_time(20_000) == pytest.approx(0.2, abs=0.02)
