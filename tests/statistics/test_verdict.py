"""Verdicts: what is said, what is not, and how often wrongly."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import of

from attnexp.statistics.paired import seeds_needed
from attnexp.statistics.verdict import Judgement, Verdict, judge, p_value


def spread(mean: float, sd: float, n: int) -> list[float]:
    """n evenly spaced differences with this mean and standard deviation."""
    steps = np.linspace(-1, 1, n)
    return [float(mean + sd * step) for step in steps / steps.std(ddof=1)]


def one(d: list[float]) -> Judgement:
    return judge({"variant": of(d)})["variant"]


POWER = "(80 % power)"
SAID: dict[str, tuple[list[float], Verdict, int | None, str]] = {
    "more": (
        spread(0.012, 0.001, 6), Verdict.helps, 0,
        "helps by at least 0.25 points: +1.20 points [+1.10, +1.30], p = 0.031 (sign-flip), n = 6",
    ),
    "less": (
        spread(-0.012, 0.001, 6), Verdict.hurts, 0,
        "hurts by at least 0.25 points: -1.20 points [-1.30, -1.10], p = 0.031 (sign-flip), n = 6",
    ),
    "too few seeds": (
        spread(0.012, 0.001, 3), Verdict.inconclusive, 3,
        "inconclusive: +1.20 points [+0.95, +1.45]; with 3 seeds no result can reach p ≤ 0.05 "
        "(smallest possible 0.25); 6 seeds are the fewest; "
        f"about 3 more seeds would settle a difference of this size {POWER}",
    ),
    "one seed": (
        [0.012], Verdict.inconclusive, None,
        "inconclusive: +1.20 points; with 1 seed no result can reach p ≤ 0.05 "
        "(smallest possible 1); 6 seeds are the fewest",
    ),
    "two without spread": (
        [0.01, 0.01], Verdict.inconclusive, 4,
        "inconclusive: +1.00 points [+1.00, +1.00]; with 2 seeds no result can reach p ≤ 0.05 "
        "(smallest possible 0.5); 6 seeds are the fewest; "
        f"about 4 more seeds would settle a difference of this size {POWER}",
    ),
    "six without spread": (
        [0.01] * 6, Verdict.helps, 0,
        "helps by at least 0.25 points: +1.00 points [+1.00, +1.00], p = 0.031 (sign-flip), n = 6",
    ),
    "nothing at all": (
        [0.0] * 3, Verdict.equivalent, 0,
        "equivalent: +0.00 points [+0.00, +0.00] is within ±0.25 by TOST, p < 0.001, n = 3",
    ),
    "no help where it holds no zero": (
        [0.0008, 0.001, 0.0012], Verdict.equivalent, 0,
        "equivalent: +0.10 points [+0.05, +0.15] is within ±0.25 by TOST, p = 0.003, n = 3",
    ),
    "real, below the margin": (
        spread(0.001, 0.0005, 10), Verdict.equivalent, 0,
        "equivalent: +0.10 points [+0.06, +0.14] is real, p = 0.002 (sign-flip), "
        "but within ±0.25 by TOST, p < 0.001, n = 10",
    ),
    "open, with a difference": (  # dz = 0.625: 23 seeds
        spread(0.005, 0.008, 10), Verdict.inconclusive, 13,
        "inconclusive: +0.50 points [-0.07, +1.07], p = 0.086 (sign-flip), n = 10; "
        f"about 13 more seeds would settle a difference of this size {POWER}",
    ),
    "open, though seeds are enough": (  # one of another sign; dz = 1.8: 6 seeds
        [-0.001, *[0.01] * 5], Verdict.inconclusive, 1,
        "inconclusive: +0.82 points [+0.35, +1.29], p = 0.062 (sign-flip), n = 6; "
        f"about 1 more seed would settle a difference of this size {POWER}",
    ),
    "open, without one": (  # 63 seeds; the normal law has (3.24 × 0.6 / 0.25)² = 60.5
        spread(0.0001, 0.006, 10), Verdict.inconclusive, 53,
        "inconclusive: +0.01 points [-0.42, +0.44], p = 0.955 (sign-flip), n = 10; about 53 "
        f"more seeds would show equivalence within ±0.25 if there is no difference {POWER}",
    ),
    "open, inside the margin, the difference nearer": (  # 23 seeds; for equivalence 24
        spread(0.00245, 0.004, 10), Verdict.inconclusive, 13,
        "inconclusive: +0.25 points [-0.04, +0.53], p = 0.086 (sign-flip), n = 10; "
        f"about 13 more seeds would settle a difference of this size {POWER}",
    ),
    "beyond ten thousand": (
        spread(0.001, 0.5, 10), Verdict.inconclusive, None,
        "inconclusive: +0.10 points [-35.67, +35.87], p = 0.955 (sign-flip), n = 10; "
        "more than 10,000 seeds would be needed",
    ),
    "random flips": (
        spread(0.012, 0.004, 41), Verdict.helps, 0,
        "helps by at least 0.25 points: +1.20 points [+1.07, +1.33], p < 0.001 (sign-flip), n = 41",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SAID)
def test_a_verdict_is_said_with_its_grounds_and_with_what_would_settle_it(case: str) -> None:
    d, verdict, more_seeds, line = SAID[case]
    found = one(d)
    assert (found.verdict, found.more_seeds, found.line) == (verdict, more_seeds, line)
    assert (found.p_equivalent_adjusted is None) == (len(d) == 1)


def test_six_seeds_can_decide_five_variants() -> None:
    """A flip is common to all of them: 2 / 2^6, where Holm's procedure has 5 × 2 / 2^6."""
    rng = np.random.default_rng(0)
    found = judge({name: of(rng.normal(0.012, 0.001, size=6)) for name in "abcde"})
    assert {judgement.verdict for judgement in found.values()} == {Verdict.helps}
    assert {judgement.p_adjusted for judgement in found.values()} == {2 / 64}
    assert "p = 0.031 (sign-flip, maxT over 5)" in found["a"].line


def test_the_size_is_known_where_the_interval_lies_beyond_the_margin() -> None:
    small, large = one(spread(0.003, 0.0015, 10)), one(spread(0.006, 0.0015, 10))
    assert (small.verdict, small.size_known) == (Verdict.helps, False)
    assert small.line.startswith("helps, size not known: +0.30 points [+0.19, +0.41]")
    assert (large.verdict, large.size_known) == (Verdict.helps, True)
    assert large.line.startswith("helps by at least 0.25 points: +0.60 points")


def test_an_interval_beyond_the_margin_is_not_called_equivalent() -> None:
    """TOST at 5 % has a 90 % interval, and the one that is shown is of 95 %."""
    for sign in (1, -1):
        pair = of(spread(sign * 0.0015, 0.0016, 10))
        assert pair.low is not None
        assert pair.high is not None
        assert pair.p_equivalent is not None
        assert pair.p_equivalent <= 0.05
        assert max(-pair.low, pair.high) > 0.0025
        assert judge({"": pair})[""].verdict is not Verdict.equivalent


def test_failed_seeds_stand_beside_the_verdict_or_prevent_it() -> None:
    pair = of(spread(0.012, 0.001, 6))
    most = judge({"": pair}, planned={"": 7})[""]
    assert most.verdict is Verdict.helps
    assert most.line.endswith("n = 6; 6 of 7 seeds finished")
    few = judge({"": pair}, planned={"": 13})[""]
    assert (few.verdict, few.more_seeds) == (Verdict.inconclusive, 7)
    assert few.line.endswith("n = 6; 6 of 13 seeds finished, too few for a verdict")


def test_a_variant_of_one_seed_counts_among_those_judged() -> None:
    found = judge({"a": of(spread(0.001, 0.001, 10)), "b": of([0.001])})
    alone = one(spread(0.001, 0.001, 10))
    assert found["b"].p_equivalent_adjusted is None
    assert alone.p_equivalent_adjusted is not None
    assert found["a"].p_equivalent_adjusted == pytest.approx(2 * alone.p_equivalent_adjusted)


def test_no_p_is_rounded_to_the_other_side_of_its_bound() -> None:
    shown = {p: p_value(p, 3) for p in (0.05, 0.05029, 0.049999, 0.0500001, 0.0512)}
    assert [*shown.values()] == ["0.050", "0.0503", "0.050", "0.0500001", "0.051"]


def test_the_fewest_seeds_of_a_difference_do_not_hold_for_equivalence() -> None:
    found = one([0.002, -0.002])
    assert found.verdict is Verdict.inconclusive
    assert "more seeds would show equivalence" in found.line


@pytest.mark.parametrize(("mean", "sd"), [(0.012, 0.0001), (0.0019, 0.0014)])
def test_equivalence_is_no_plan_for_a_difference_outside_the_margin_or_other_than_0(
    mean: float, sd: float
) -> None:
    found = judge({name: of(spread(mean, sd, 5)) for name in "abcd"})["a"]
    assert "settle a difference" in found.line
    assert "equivalence" not in found.line


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
    pair = of([*spread(0.003, 0.003, 9), -0.004])
    rng = np.random.default_rng(0)
    others = {str(i): of(rng.normal(0, 0.01, size=10)) for i in range(4)}
    alone, among = judge({"a": pair})["a"], judge({"a": pair, **others})["a"]
    assert alone.p_adjusted < among.p_adjusted < 5 * alone.p_adjusted
    assert judge({}) == {}
    open_pair = of(spread(0.005, 0.008, 10))
    open_among = judge(dict.fromkeys("abcd", open_pair))["a"]
    assert open_among.more_seeds is not None
    assert 10 + open_among.more_seeds == seeds_needed(0.5 / 0.8, alpha=0.05 / 4)


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
        assert found.line.startswith(found.verdict)
        assert "nan" not in found.line
        assert found.p_adjusted >= pair.p - 1e-12
        if found.verdict is Verdict.inconclusive:
            assert found.more_seeds is None or found.more_seeds > 0
            # where no result can, none does; and where the line does not say so, one could
            assert found.p_adjusted > 0.05 or "no result" not in found.line
        else:
            assert found.more_seeds == 0
        if found.verdict is Verdict.helps:
            assert found.p_adjusted <= 0.05
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


def test_false_alarms_are_as_few_as_declared() -> None:
    """To the error of 1,000 studies, two standard errors; the slow test below has more."""
    assert false_alarms(10, 2, 1_000) <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 1_000)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "m"), [(6, 1), (10, 1), (6, 5), (10, 5)])
def test_false_alarms_in_many_studies_are_as_judge_says(n: int, m: int) -> None:
    expected = {6: 0.028, 10: 0.045}[n]
    assert false_alarms(n, m, 5_000) == pytest.approx(expected, abs=0.009)  # three standard errors


@pytest.mark.parametrize(("n", "m"), [(3, 1), (10, 3)])
def test_differences_at_the_margin_are_called_equivalent_in_few_studies(n: int, m: int) -> None:
    rng = np.random.default_rng([n, m, 1])
    studies, wrong = 500, 0
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
