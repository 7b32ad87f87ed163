"""Verdicts: what is said, what is not, and how often wrongly."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from attnexp.statistics.paired import Paired, paired
from attnexp.statistics.verdict import Judgement, Verdict, judge


def of(d: list[float] | NDArray[np.float64]) -> Paired:
    """The comparison with these differences."""
    variant = {str(seed): float(value) for seed, value in enumerate(d)}
    pair = paired(variant, dict.fromkeys(variant, 0.0))
    assert pair is not None
    return pair


def spread(mean: float, sd: float, n: int) -> list[float]:
    """n evenly spaced differences with this mean and standard deviation."""
    steps = np.linspace(-1, 1, n)
    return [float(mean + sd * step) for step in steps / steps.std(ddof=1)]


def one(d: list[float]) -> Judgement:
    return judge({"variant": of(d)})["variant"]


def test_an_overwhelming_effect_helps_with_six_seeds() -> None:
    found = one(spread(0.012, 0.001, 6))
    assert found.verdict is Verdict.helps
    assert found.p_holm == 2 / 64
    assert found.more_seeds == 0
    assert found.line == ("helps: +1.20 points [+1.10, +1.30], p = 0.031 (exact sign-flip), n = 6")


def test_the_other_way_round_it_hurts() -> None:
    found = one(spread(-0.012, 0.001, 6))
    assert found.verdict is Verdict.hurts
    assert found.line.startswith("hurts: -1.20 points [-1.30, -1.10]")


def test_with_three_seeds_the_same_effect_is_too_few_seeds() -> None:
    found = one(spread(0.012, 0.001, 3))
    assert found.verdict is Verdict.inconclusive
    assert found.more_seeds == 3
    assert found.line == (
        "inconclusive: +1.20 points [+0.95, +1.45]; with 3 seeds no result can reach p ≤ 0.05 "
        "(smallest possible 0.25); 6 seeds are the fewest; "
        "about 3 more seeds would settle a difference of this size (80 % power)"
    )


def test_among_three_variants_the_fewest_seeds_are_seven() -> None:
    """3 × 2 / 2^7 is the first at most 0.05; alone, 2 / 2^6 is."""
    found = judge({name: of(spread(0.012, 0.001, 6)) for name in "abc"})
    for judgement in found.values():
        assert judgement.verdict is Verdict.inconclusive
        assert judgement.p_holm == 3 * 2 / 64
        assert judgement.more_seeds == 1
        assert "with 6 seeds no result can reach p ≤ 0.05" in judgement.line
        assert "(smallest possible 0.0312 before Holm over 3); 7 seeds are the fewest" in (
            judgement.line
        )
    enough = judge({name: of(spread(0.012, 0.001, 7)) for name in "abc"})
    assert {judgement.verdict for judgement in enough.values()} == {Verdict.helps}
    assert "p = 0.047 (exact sign-flip, Holm over 3)" in enough["a"].line


def test_a_later_variant_of_holms_is_not_said_to_be_hopeless() -> None:
    """Six seeds are too few of two variants for the first step, but not after a clear one."""
    clear, six = of(spread(0.012, 0.001, 12)), of(spread(0.012, 0.001, 6))
    assert judge({"clear": clear, "six": six})["six"].verdict is Verdict.helps
    noisy = of([0.03, 0.02, 0.01, -0.01, -0.02, -0.01])
    assert "no result" not in judge({"clear": clear, "noisy": noisy})["noisy"].line
    assert "no result" in judge({"noisy": noisy, "again": noisy})["noisy"].line


def test_of_one_seed_nothing_is_known() -> None:
    found = one([0.012])
    assert found == Judgement(
        verdict=Verdict.inconclusive,
        p_holm=1.0,
        p_equivalent_holm=None,
        more_seeds=None,
        line="inconclusive: +1.20 points; with 1 seed no result can reach p ≤ 0.05 "
        "(smallest possible 1); 6 seeds are the fewest",
    )
    assert one([0.0]).verdict is Verdict.inconclusive


def test_no_difference_at_all_is_equivalent() -> None:
    found = one([0.0] * 3)
    assert found.verdict is Verdict.equivalent
    assert (found.p_holm, found.p_equivalent_holm, found.more_seeds) == (1.0, 0.0, 0)
    assert found.line == (
        "equivalent: +0.00 points [+0.00, +0.00] is within ±0.25 by TOST, p < 0.001, n = 3"
    )


def test_a_real_difference_below_the_margin_is_equivalent_and_said_to_be_real() -> None:
    found = one(spread(0.001, 0.0005, 10))
    assert found.verdict is Verdict.equivalent
    assert found.p_holm <= 0.05
    assert found.line == (
        "equivalent: +0.10 points [+0.06, +0.14] is real, p = 0.002 (exact sign-flip), "
        "but within ±0.25 by TOST, p < 0.001, n = 10"
    )


def test_an_open_question_with_a_difference_says_how_many_seeds_show_it() -> None:
    found = one(spread(0.005, 0.008, 10))  # dz = 0.625: 23 seeds
    assert found.verdict is Verdict.inconclusive
    assert found.more_seeds == 13
    assert found.line.endswith(
        "n = 10; about 13 more seeds would settle a difference of this size (80 % power)"
    )


def test_an_open_question_without_one_says_how_many_show_equivalence() -> None:
    found = one(spread(0.0001, 0.006, 10))
    assert found.verdict is Verdict.inconclusive
    assert found.more_seeds == 41  # 51 seeds; the normal law has (2.93 × 0.6 / 0.25)² = 49.3
    assert found.line.endswith(
        "about 41 more seeds would show equivalence within ±0.25 if there is no difference "
        "(80 % power)"
    )


def test_equivalence_is_no_plan_for_a_difference_outside_the_margin() -> None:
    found = judge({name: of(spread(0.012, 0.0001, 5)) for name in "abcd"})["a"]
    assert found.more_seeds == 3  # 8 seeds: 4 × 2 / 2^8
    assert "settle a difference" in found.line
    assert "equivalence" not in found.line


def test_a_question_beyond_ten_thousand_seeds_says_so() -> None:
    found = one(spread(0.001, 0.5, 10))
    assert found.more_seeds is None
    assert found.line.endswith("more than 10,000 seeds would be needed")


def test_differences_without_spread_outside_the_margin_ask_for_the_fewest_seeds() -> None:
    found = one([0.01, 0.01])
    assert (found.verdict, found.more_seeds) == (Verdict.inconclusive, 4)
    assert one([0.01] * 6).verdict is Verdict.helps


def test_random_flips_are_called_so() -> None:
    found = one(spread(0.012, 0.004, 41))
    assert "p < 0.001 (Monte Carlo sign-flip)" in found.line


def test_a_p_is_no_help_where_the_interval_holds_zero() -> None:
    """One seed far out, on the side of the rest: each flip test is sure, the t interval is not."""
    pair = of([0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.2])
    assert pair.p == 2 / 2**7
    assert pair.low is not None
    assert pair.low < 0
    found = judge({"variant": pair})["variant"]
    assert found.verdict is Verdict.inconclusive
    assert found.more_seeds is not None
    assert found.more_seeds > 0


def test_more_variants_make_each_one_harder() -> None:
    pair = of([*spread(0.004, 0.003, 9), -0.004])
    alone = judge({"variant": pair})["variant"]
    among = judge(dict.fromkeys("abcd", pair))["a"]
    assert alone.verdict is Verdict.helps
    assert among.verdict is Verdict.inconclusive
    assert among.p_holm == 4 * alone.p_holm
    assert judge({}) == {}


@settings(deadline=None)
@given(
    st.lists(
        st.lists(st.integers(-400, 400).map(lambda k: k / 25_000), min_size=1, max_size=12),
        min_size=1,
        max_size=4,
    )
)
def test_every_judgement_keeps_its_rules(variants: list[list[float]]) -> None:
    pairs = {str(i): of(d) for i, d in enumerate(variants)}
    for name, found in judge(pairs).items():
        pair = pairs[name]
        assert found.line.startswith(f"{found.verdict}: ")
        assert "nan" not in found.line
        assert found.p_holm >= pair.p
        if found.verdict is Verdict.inconclusive:
            assert found.more_seeds is None or found.more_seeds > 0
            # where no result can, none does; and where the line does not say so, one could
            assert found.p_holm > 0.05 or "no result" not in found.line
        else:
            assert found.more_seeds == 0
        if found.verdict is Verdict.helps:
            assert found.p_holm <= 0.05
            assert pair.low is not None
            assert pair.low > 0
        turned = judge({other: of([-x for x in pairs[other].by_seed.values()]) for other in pairs})
        opposite = {Verdict.helps: Verdict.hurts, Verdict.hurts: Verdict.helps}
        assert turned[name].verdict is opposite.get(found.verdict, found.verdict)
        assert turned[name].more_seeds == found.more_seeds


def false_alarms(n: int, m: int, studies: int) -> float:
    """The share of studies with a helps or hurts among m variants that are all like the baseline.

    The variants share the baseline's runs, so their differences go together.
    """
    rng = np.random.default_rng([n, m])
    wrong = 0
    for baseline, *variants in rng.normal(0.85, 0.003, size=(studies, m + 1, n)):
        found = judge({str(i): of(variant - baseline) for i, variant in enumerate(variants)})
        wrong += any(j.verdict in (Verdict.helps, Verdict.hurts) for j in found.values())
    print(f"n = {n}, {m} variants: {100 * wrong / studies:.2f} %")
    return wrong / studies


@pytest.mark.parametrize(("n", "m"), [(3, 1), (5, 1), (5, 4)])
def test_too_few_seeds_raise_no_false_alarm_at_all(n: int, m: int) -> None:
    assert false_alarms(n, m, 300) == 0


@pytest.mark.parametrize("m", [1, 2])
def test_false_alarms_are_as_few_as_declared(m: int) -> None:
    """To the error of 2,000 studies, two standard errors; the slow test below has more."""
    assert false_alarms(10, m, 2_000) <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 2_000)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "m"), [(6, 1), (10, 1), (20, 1), (10, 4), (20, 4)])
def test_false_alarms_in_many_studies_are_as_judge_says(n: int, m: int) -> None:
    expected = {6: 0.025, 10: 0.045, 20: 0.047}[n]
    assert false_alarms(n, m, 5_000) == pytest.approx(expected, abs=0.009)  # three standard errors


@pytest.mark.parametrize(("n", "m"), [(3, 1), (10, 1), (10, 3)])
def test_differences_at_the_margin_are_called_equivalent_in_few_studies(n: int, m: int) -> None:
    rng = np.random.default_rng([n, m, 1])
    studies, wrong = 1_000, 0
    for study in rng.normal(0.0025, 0.001, size=(studies, m, n)):
        found = judge({str(i): of(d) for i, d in enumerate(study)})
        wrong += any(j.verdict is Verdict.equivalent for j in found.values())
    assert wrong / studies <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / studies)


@pytest.mark.slow
def test_the_seeds_asked_for_settle_the_question_as_often_as_promised() -> None:
    """Where the true difference is the one observed: 80 % (± 4) of the longer studies help."""
    asked = one(spread(0.005, 0.008, 10)).more_seeds
    assert asked is not None
    rng = np.random.default_rng(0)
    draws = rng.normal(0.005, 0.008, size=(2_000, 10 + asked))
    helped = np.mean([judge({"": of(d)})[""].verdict is Verdict.helps for d in draws])
    print(f"{100 * helped:.1f} %")
    assert helped == pytest.approx(0.8, abs=0.04)
