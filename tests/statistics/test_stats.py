"""Paired statistics, against scipy, by hand, by brute force and by simulation."""

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from samples import of
from scipy import stats as theirs

from attnexp.statistics import paired as stats
from attnexp.statistics.paired import (
    Mean,
    Paired,
    max_t,
    mcnemar,
    paired,
    seeds_for_equivalence,
    seeds_needed,
)
from attnexp.statistics.verdict import Verdict, judge

EXAMPLES = 25_000
"""In IMDB's test set: what an accuracy is a multiple of 1 / of."""

eighths = st.integers(-8, 8).map(lambda k: k / 8)
"""Differences with many ties and zeros, exact in binary."""

anything = st.floats(-1e6, 1e6) | eighths | st.integers(-9, 9).map(lambda k: 0.8 + k / EXAMPLES)


def interval(pair: Paired) -> tuple[float, float]:
    assert pair.low is not None
    assert pair.high is not None
    return pair.low, pair.high


# what is compared


def test_mean_and_sample_standard_deviation_by_hand() -> None:
    assert Mean.of([1.0, 2.0, 6.0]) == Mean(3.0, pytest.approx(7.0**0.5), 3)  # type: ignore[arg-type]
    assert Mean.of([4.0]) == Mean(4.0, None, 1)


def test_only_shared_replicates_are_compared_in_the_variants_order() -> None:
    ours = paired({"1": 0.5, "0": 0.7, "9": 0.0}, {"0": 0.6, "1": 0.6, "2": 0.9})
    assert ours is not None
    assert list(ours.by_seed.items()) == [("1", -0.1), ("0", 0.1)]
    assert ours.difference.n == 2
    assert paired({"0": 0.5}, {"1": 0.5}) is None


def test_one_seed_has_a_difference_and_nothing_more() -> None:
    one = of([0.25])
    assert (one.difference, one.low, one.high) == (Mean(0.25, None, 1), None, None)
    assert (one.p, one.p_smallest, one.dz, one.p_equivalent) == (1.0, 1.0, None, None)
    assert (one.better.share, one.better.high) == (1.0, 1.0)
    assert one.better.low == pytest.approx(0.025)  # low^1 = 0.025


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_figure_that_is_not_finite_is_refused_by_name(value: float) -> None:
    with pytest.raises(ValueError, match="seed 3"):
        paired({"seed 2": 0.5, "seed 3": value}, {"seed 2": 0.5, "seed 3": 0.5})


def test_a_margin_has_to_be_above_zero() -> None:
    with pytest.raises(ValueError, match="margin"):
        paired({"0": 0.5}, {"0": 0.5}, margin=0.0)


@pytest.mark.parametrize("n", [2, 7, 29, 30, 41])
def test_equal_differences_are_equal_whatever_they_were_subtracted_from(n: int) -> None:
    baseline = {str(seed): 0.4 + 0.55 * seed / n for seed in range(n)}
    variant = {seed: value + 0.0025 for seed, value in baseline.items()}
    raw = {variant[seed] - baseline[seed] for seed in baseline}
    assert len(raw) > 1  # else this shows nothing; and the mean of 29 such numbers is another
    same = paired(variant, baseline, margin=0.003)
    assert same is not None
    assert same.difference == Mean(0.0025, 0.0, n)
    assert (same.low, same.high, same.dz, same.p_equivalent) == (0.0025, 0.0025, None, 0.0)
    assert same.p == (2.0 ** (1 - n) if n <= 20 else 1e-5)
    at_margin = paired(variant, baseline, margin=0.0025)
    assert at_margin is not None
    assert at_margin.p_equivalent == 1.0


@given(st.lists(anything, min_size=2, max_size=45))
def test_no_differences_make_a_figure_that_is_not_one(d: list[float]) -> None:
    pair = of(d)
    low, high = interval(pair)
    assert -math.inf < low <= high < math.inf
    assert min(d) - 1e-9 <= pair.difference.mean <= max(d) + 1e-9
    assert min(pair.p_smallest, 1e-5) <= pair.p <= 1
    assert pair.p_equivalent is not None
    assert 0 <= pair.p_equivalent <= 1
    assert 0 <= pair.better.low <= pair.better.share <= pair.better.high <= 1
    assert pair.dz is None or math.isfinite(pair.dz)


@given(st.lists(anything, min_size=2, max_size=32))
def test_exchanging_the_two_turns_the_sign_and_nothing_else(d: list[float]) -> None:
    pair, turned = of(d), of([-value for value in d])
    low, high = interval(pair)
    scale = max(abs(value) for value in d)
    assert interval(turned) == pytest.approx((-high, -low), abs=1e-3 * scale)
    assert turned.p == pytest.approx(pair.p)
    assert turned.p_equivalent == pair.p_equivalent
    assert turned.better.share == pytest.approx(1 - pair.better.share)
    assert turned.better.low == pytest.approx(1 - pair.better.high)


# the interval


def test_the_interval_is_scipys_paired_t() -> None:
    a, b = np.random.default_rng(0).normal(size=(2, 29))
    ours = paired(
        {str(i): value for i, value in enumerate(a.tolist())},
        {str(i): value for i, value in enumerate(b.tolist())},
    )
    assert ours is not None
    expected = theirs.ttest_rel(a, b).confidence_interval(0.95)
    assert interval(ours) == pytest.approx((expected.low, expected.high))


def coverage(name: str, n: int, studies: int = 2_000) -> float:
    """How often the interval of n differences with mean 0.3 holds it."""
    rng = np.random.default_rng([n, *name.encode()])
    draws: dict[str, Callable[[tuple[int, int]], NDArray[np.float64]]] = {
        "normal": lambda size: rng.normal(size=size),
        "exponential": lambda size: rng.exponential(size=size) - 1,
        "lognormal": lambda size: rng.lognormal(size=size) - math.exp(0.5),
        "lattice": lambda size: np.round(1.5 * rng.normal(size=size)),
    }
    # 0.3 is 7,500 steps of the lattice, the spread of "lattice" is one and a half
    step = 1 / EXAMPLES if name == "lattice" else 1.0
    held = 0
    for d in draws[name]((studies, n)):
        low, high = interval(of(0.3 + step * d))
        held += low <= 0.3 <= high
    return held / studies


COVERED = [
    pytest.param(name, n, marks=() if name == "normal" and n in (3, 10) else pytest.mark.slow)
    for name in ("normal", "lattice", "exponential", "lognormal")
    for n in (3, 5, 10, 30, 50)
]


@pytest.mark.parametrize(("name", "n"), COVERED)
def test_the_interval_covers_as_its_docstring_says(
    name: str, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`_t_tests`' table: within 2 points (three standard errors at 90 %) of it."""
    monkeypatch.setattr(stats, "EXACT_TO", 0)  # a few flips are enough: p is not used
    monkeypatch.setattr(stats, "FLIPS", 9)
    table = {
        "normal": (0.95, 0.95, 0.95, 0.95, 0.95),
        "lattice": (0.95, 0.95, 0.95, 0.95, 0.95),
        "exponential": (0.88, 0.88, 0.90, 0.92, 0.94),
        "lognormal": (0.84, 0.83, 0.84, 0.88, 0.90),
    }
    expected = table[name][[3, 5, 10, 30, 50].index(n)]
    found = coverage(name, n)
    print(f"{name}, n = {n}: {100 * found:.1f} %")
    assert found == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("n", [2, 3, 6])
@pytest.mark.parametrize(
    ("num_texts", "share_differing"), [(100, 0.0025), (100, 0.05), (25_000, 0.05)]
)
def test_differences_at_the_margin_are_rarely_called_equivalent(
    n: int, num_texts: int, share_differing: float
) -> None:
    """Models that differ on some of the texts. On few texts most seeds have equal differences."""
    rng = np.random.default_rng([n, num_texts])
    better, worse = (
        rng.binomial(num_texts, (share_differing + side) / 2, size=(500, n))
        for side in (0.0025, -0.0025)
    )
    pairs = [of(d / num_texts, step=1 / num_texts) for d in better - worse]
    wrong = [judge({"": pair})[""].verdict is Verdict.equivalent for pair in pairs]
    print(f"{num_texts} texts, n = {n}, {share_differing:.2%} differ: {100 * np.mean(wrong):.1f} %")
    assert np.mean(wrong) <= 0.05
    assert n > 2 or not any(wrong)


# the sign flips


@given(st.lists(st.integers(-6, 6), min_size=1, max_size=9))
def test_p_is_the_share_of_all_flips_counted_in_integers(steps: list[int]) -> None:
    """On the lattice of accuracies, where ties abound and no double is exact."""
    sums = [
        abs(sum(sign * step for sign, step in zip(signs, steps, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(steps))
    ]
    p = Fraction(sum(found >= abs(sum(steps)) for found in sums), len(sums))
    assert of([step / EXAMPLES for step in steps]).p == float(p)


@pytest.mark.parametrize("n", [1, 2, 5, 19, 20])
def test_differences_of_one_sign_have_the_smallest_p_and_zeros_the_largest(n: int) -> None:
    up = of([0.5] * n)
    assert up.p == up.p_smallest == 2 / 2**n
    assert of([0.3 / (seed + 1) for seed in range(n)]).p == up.p
    assert of([0.0] * n).p == 1.0


def test_random_flips_never_give_zero() -> None:
    many = of([0.01] * 60)
    assert many.p == many.p_smallest == 1 / (stats.FLIPS + 1)


@pytest.mark.parametrize("n", [3, 6])
def test_p_is_uniform_on_its_lattice_where_there_is_no_difference(n: int) -> None:
    """Under a symmetric law that is far from normal: P(p <= a) = a at each a that n can give."""
    rng = np.random.default_rng(n)
    studies = 2_000
    ps = np.array([of(d).p for d in rng.standard_cauchy(size=(studies, n))])
    for k in {1, 2, 3, 2 ** (n - 1) // 4, 2 ** (n - 1) // 2}:
        a = k / 2 ** (n - 1)
        assert np.mean(ps <= a) == pytest.approx(a, abs=4 * math.sqrt(a * (1 - a) / studies))
    for a in (0.01, 0.05, 0.1, 0.5):
        assert np.mean(ps <= a) <= a + 4 * math.sqrt(a * (1 - a) / studies)


# the other figures


@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_the_share_of_better_seeds_has_scipys_clopper_pearson(n: int) -> None:
    for k in range(n + 1):
        ours = of([0.1] * k + [-0.2] * (n - k)).better
        expected = theirs.binomtest(k, n).proportion_ci(0.95, method="exact")
        assert ours.share == k / n
        assert (ours.low, ours.high) == pytest.approx((expected.low, expected.high))


def test_a_tie_is_half_a_better_seed() -> None:
    tied = of([0.1, 0.1, 0.0, -0.1]).better
    two, three = of([0.1, 0.1, -0.1, -0.1]).better, of([0.1, 0.1, 0.1, -0.1]).better
    assert tied.share == 2.5 / 4
    assert two.low < tied.low < three.low
    assert two.high < tied.high < three.high
    assert tied.low == pytest.approx(theirs.beta.ppf(0.025, 2.5, 2.5))
    assert tied.high == pytest.approx(theirs.beta.ppf(0.975, 3.5, 1.5))


def test_dz_by_hand() -> None:
    assert of([0.01, 0.02, 0.06]).dz == pytest.approx(3 / 7**0.5)


@pytest.mark.parametrize("mean", [-0.004, -0.001, 0.0, 0.002])
def test_tost_is_the_larger_of_scipys_two_one_sided_tests(mean: float) -> None:
    d = np.random.default_rng(0).normal(mean, 0.003, size=8)
    above = theirs.ttest_1samp(d, -0.0025, alternative="greater").pvalue
    below = theirs.ttest_1samp(d, 0.0025, alternative="less").pvalue
    assert of(d).p_equivalent == pytest.approx(max(above, below))


# several comparisons, and one over examples


def by_definition(variants: list[list[int]]) -> list[float]:
    """Step-down maxT over joint sign flips, in fractions: |sum d|² / sum d²."""

    def statistic(d: list[int], signs: tuple[int, ...]) -> Fraction:
        total = sum(sign * each for sign, each in zip(signs, d, strict=True))
        return Fraction(total**2, sum(each**2 for each in d) or 1)

    flips = list(itertools.product((1, -1), repeat=len(variants[0])))
    observed = [statistic(d, flips[0]) for d in variants]
    adjusted, least = [0.0] * len(variants), 0.0
    remaining = list(range(len(variants)))
    while remaining:
        first = max(remaining, key=lambda i: observed[i])
        reached = [max(statistic(variants[i], signs) for i in remaining) for signs in flips]
        least = max(least, sum(one >= observed[first] for one in reached) / len(flips))
        adjusted[first] = least
        remaining.remove(first)
    return adjusted


@given(st.integers(1, 6).flatmap(lambda n: st.lists(
    st.lists(st.integers(-6, 6), min_size=n, max_size=n), min_size=1, max_size=4)))  # fmt: skip
def test_max_t_is_its_definition(variants: list[list[int]]) -> None:
    found = max_t([{str(i): x / 25_000 for i, x in enumerate(d)} for d in variants])
    assert found == pytest.approx(by_definition(variants))


def test_max_t_by_random_flips_agrees_with_all(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    shared = rng.normal(0.4, 1, size=12)
    variants = [dict(enumerate(shared + rng.normal(size=12))) for _ in range(3)]
    named = [{str(seed): float(value) for seed, value in d.items()} for d in variants]
    exact = max_t(named)
    monkeypatch.setattr(stats, "EXACT_TO", 11)
    assert max_t(named) == pytest.approx(exact, abs=0.007)  # four standard errors
    assert max_t(named) != exact


def test_max_t_of_variants_with_other_seeds() -> None:
    """A variant that lacks seeds is judged by those it has: 2/64 of six, beside twelve."""
    twelve = {str(seed): 0.01 * (-1) ** seed for seed in range(12)}
    six = {str(seed): 0.01 for seed in range(3, 9)}
    assert max_t([twelve, six])[1] >= max_t([six])[0] == 2 / 64
    assert max_t([]) == []


def right(both: int, only_variant: int, only_baseline: int, neither: int) -> tuple[list[bool], ...]:
    """What two classifiers have right, by how many examples of each kind there are."""
    variant = [True] * both + [True] * only_variant + [False] * (only_baseline + neither)
    baseline = [True] * both + [False] * only_variant + [True] * only_baseline + [False] * neither
    return variant, baseline


@given(st.integers(0, 400), st.integers(0, 400))
def test_mcnemar_is_a_binomial_test_of_the_examples_that_differ(b: int, c: int) -> None:
    expected = theirs.binomtest(b, b + c, 0.5).pvalue if b + c else 1.0
    found = mcnemar(*right(5, b, c, 5))
    assert (found.only_variant, found.only_baseline) == (b, c)
    assert found.p == pytest.approx(expected)


@pytest.mark.parametrize("baseline", [[True], [True, False], [[True, False, True]]])
def test_mcnemar_refuses_other_examples(baseline: list[bool]) -> None:
    with pytest.raises(ValueError, match="pair"):
        mcnemar([True, False, True], baseline)


# seeds to go


def t_power(dz: float, n: int, alpha: float) -> float:
    """Power of a two-sided paired t test without the tail on the wrong side (NaN in scipy)."""
    critical = theirs.t.ppf(1 - alpha / 2, n - 1)
    return float(theirs.nct.sf(critical, n - 1, dz * math.sqrt(n)))


@pytest.mark.parametrize("alpha", [0.2, 0.05, 0.05 / 3, 0.001])
@pytest.mark.parametrize("power", [0.5, 0.8, 0.9])
@pytest.mark.parametrize("dz", [0.2, 0.7, 1.1, 4.0])
def test_seeds_needed_by_looking_at_every_n(dz: float, alpha: float, power: float) -> None:
    def enough(n: int) -> bool:
        level = math.floor(alpha * 2 ** (n - 1)) / 2 ** (n - 1)
        return level > 0 and t_power(dz, n, level) >= power

    expected = next(n for n in itertools.count(2) if enough(n))
    for either in (dz, -dz):
        assert seeds_needed(either, alpha=alpha, power=power) == expected


def test_seeds_needed_have_an_end_at_both_ends() -> None:
    assert seeds_needed(0.0) is None
    assert seeds_needed(0.028) is None
    assert seeds_needed(0.0285) == pytest.approx((2.8016 / 0.0285) ** 2, rel=0.001)  # normal law
    assert seeds_needed(100.0) == 6  # 2 / 2^6 is the first p at most 0.05
    assert seeds_needed(100.0, alpha=0.0625) == 5  # 2 / 2^5 itself
    assert seeds_needed(100.0, alpha=0.0624) == 6


def test_seeds_for_equivalence_have_an_end_at_both_ends() -> None:
    assert seeds_for_equivalence(0.0) == 2
    assert seeds_for_equivalence(1.0) is None
    # normal law: (1.6449 + 1.2816) sd / margin, squared
    assert seeds_for_equivalence(0.05) == pytest.approx((2.9264 * 20) ** 2, rel=0.001)


@pytest.mark.parametrize("alpha", [0.05, 0.05 / 3])
@pytest.mark.parametrize("dz", [0.2, 0.5, 0.7, 0.9, 1.1, 1.5, 3.0])
def test_seeds_for_equivalence_by_looking_at_every_n(dz: float, alpha: float) -> None:
    """dz: the margin, in standard deviations. Half of the misses on either side."""

    def missed(n: int) -> float:
        critical = theirs.t.ppf(1 - alpha, n - 1)
        return float(theirs.nct.cdf(critical, n - 1, dz * math.sqrt(n)))

    expected = next(n for n in itertools.count(2) if missed(n) <= 0.1)
    assert seeds_for_equivalence(0.0025 / dz, margin=0.0025, alpha=alpha) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mean", "sd"),
    [*((dz, 1) for dz in (0.5, 0.8, 1.0, 1.2, 1.5)), (0, 0.001), (0, 0.003), (0, 0.006)],
)
def test_seeds_needed_reach_the_power_by_the_test_that_decides(
    mean: float, sd: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The numbers of seeds that show a difference, or that there is none, give a power of 80 %, and
    one seed less does not, within the sampling error of 2,000 studies."""
    monkeypatch.setattr(stats, "EXACT_TO", 16)  # for speed
    monkeypatch.setattr(stats, "FLIPS", 1_999)
    n = seeds_needed(mean) if mean else seeds_for_equivalence(sd)
    assert n is not None
    rng, figure = np.random.default_rng(n), "p" if mean else "p_equivalent"
    found, before = (
        np.mean([getattr(of(d), figure) <= 0.05 for d in rng.normal(mean, sd, size=(2_000, k))])
        for k in (n, n - 1)
    )
    print(f"{mean} ± {sd}, n = {n}: {100 * found:.1f} %, with one less {100 * before:.1f} %")
    assert found >= 0.78
    assert before <= 0.81
