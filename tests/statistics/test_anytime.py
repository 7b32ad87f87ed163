"""Anytime-valid intervals, p-values and decisions, and how often they are wrong."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import of
from simulated import LAWS, simulate, t_test_at_every_seed

from attnexp.statistics.anytime import decide, fewest_seeds, interval, p_equivalent, p_no_difference
from attnexp.statistics.verdict import POINTS, Verdict, holm

differences = st.lists(st.floats(-1, 1).map(lambda x: round(x, 6)), min_size=2, max_size=40).filter(
    lambda d: len(set(d)) > 1
)
alphas = st.floats(0.001, 0.5)
gs = st.floats(0.05, 2)


def normal(mean: float, sd: float, n: int, seed: int = 0) -> list[float]:
    d = np.random.default_rng(seed).normal(size=n)
    return [float(x) for x in mean + sd * (d - d.mean()) / d.std(ddof=1)]


@pytest.mark.parametrize(("n", "sd"), [(7, 1.0), (10, 0.02), (30, 3.0)])
def test_the_half_width_is_that_of_the_design(n: int, sd: float) -> None:
    scale = 1 + 0.25 * n
    k = (scale / 0.05**2) ** (1 / n)
    half = sd / math.sqrt(n) * math.sqrt((n - 1) * (k - 1) / (1 - k / scale))
    assert interval(normal(0.1, sd, n)) == pytest.approx((0.1 - half, 0.1 + half))


@given(differences, alphas, alphas, gs)
def test_the_interval_holds_the_mean_and_narrows_with_alpha(
    d: list[float], one: float, other: float, g: float
) -> None:
    wide, narrow = interval(d, min(one, other), g), interval(d, max(one, other), g)
    assert wide[0] <= narrow[0] <= np.mean(d) <= narrow[1] <= wide[1]


@given(differences, gs)
def test_p_is_the_alpha_at_which_zero_leaves_the_interval(d: list[float], g: float) -> None:
    p = float(p_no_difference(d, g))
    if 1e-6 < p < 0.99:
        low, high = interval(d, p * 0.999, g)
        assert low <= 0 <= high
        low, high = interval(d, min(p * 1.001, 1), g)
        assert low > 0 or high < 0


@given(differences, st.floats(0.01, 1), gs)
def test_p_of_equivalence_is_the_alpha_at_which_the_interval_fits(
    d: list[float], margin: float, g: float
) -> None:
    p = float(p_equivalent(d, margin, g))
    if 1e-6 < p < 0.99:
        low, high = interval(d, p * 0.999, g)
        assert low <= -margin or high >= margin
        low, high = interval(d, min(p * 1.001, 1), g)
        assert -margin < low
        assert high < margin


@given(st.lists(differences, min_size=1, max_size=4), st.floats(0.001, 1))
def test_no_verdict_stands_beside_an_interval_that_contradicts_it(
    several: list[list[float]], margin: float
) -> None:
    found = decide({str(i): of(d, margin) for i, d in enumerate(several)})
    for one in found.values():
        low = -math.inf if one.low is None else one.low
        high = math.inf if one.high is None else one.high
        sides = {Verdict.helps: low > 0, Verdict.hurts: high < 0,
                 Verdict.equivalent: -margin < low and high < margin}  # fmt: skip
        assert one.verdict is None or sides[one.verdict]
        if len(several) == 1:  # and with one variant the interval decides
            fits = sides[Verdict.equivalent] and one.n < 3
            assert (one.verdict is None) == (fits or not any(sides.values()))
        assert one.line.startswith(f"{one.verdict or 'open'}")
        assert one.size_known == (
            one.verdict in (Verdict.helps, Verdict.hurts) and (low >= margin or high <= -margin)
        )


def test_fewer_than_seven_seeds_decide_nothing() -> None:
    assert (fewest_seeds(), fewest_seeds(0.05 / 4)) == (7, 9)
    for n in range(1, 12):
        (found,) = decide({"a": of([0.01] * n)}).values()
        assert (found.verdict is Verdict.helps) == (n >= 7)
        assert (found.low is None) == (n < 7)
    assert decide({"a": of([0.01])})["a"].line == (
        "open: +1.00 points, n = 1; an interval needs 7 seeds"
    )


@pytest.mark.parametrize(
    ("d", "verdict"),
    [
        (normal(0.01, 0.001, 8), Verdict.helps),
        (normal(-0.01, 0.001, 8), Verdict.hurts),
        (normal(0.0, 0.0005, 8), Verdict.equivalent),
        (normal(0.001, 0.0001, 8), Verdict.equivalent),  # real, and too small to matter
        ([0.0] * 8, Verdict.equivalent),
        (normal(0.01, 0.02, 20), None),
    ],
)
def test_a_decision_by_its_differences(d: list[float], verdict: Verdict | None) -> None:
    (found,) = decide({"a": of(d)}).values()
    assert found.verdict is verdict
    (backwards,) = decide({"a": of(d[::-1])}).values()
    assert backwards == found
    if verdict is not None:  # the p-value is the one that decided
        (p,) = re.findall(r"p [=<] ([\d.]+)", found.line)
        assert float(p) <= 0.05


def test_several_variants_share_alpha_by_holm() -> None:
    """p = 0.038 alone is enough; beside an open variant it is not, beside a clear one it is."""
    d, clear, open_one = normal(0.01, 0.0085, 13), [0.02] * 13, normal(0.0, 0.02, 13)
    assert 0.025 < p_no_difference(d) < 0.05

    def verdict(*others: list[float]) -> Verdict | None:
        return decide({str(i): of(each) for i, each in enumerate([d, *others])})["0"].verdict

    assert verdict() is verdict(clear) is Verdict.helps
    assert verdict(open_one) is None


def test_less_of_a_loss_helps() -> None:
    import dataclasses

    loss = dataclasses.replace(POINTS, less_is_better=True)
    assert decide({"a": of([-0.01] * 8)}, unit=loss)["a"].verdict is Verdict.helps


def test_equal_differences_are_not_certain_ones() -> None:
    """On 100 texts eight differences of 0 do not rule out a quarter of a point."""
    assert decide({"a": of([0.0] * 8, step=0.01)})["a"].verdict is None
    assert decide({"a": of([0.0] * 8, step=1 / 25_000)})["a"].verdict is Verdict.equivalent


def test_holm_by_hand() -> None:
    # sorted: 4 × 0.005, 3 × 0.01, 2 × 0.03, and 0.04 held up to the one before
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([0.2]) == [0.2]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_lies_between_the_p_and_bonferroni(ps: list[float]) -> None:
    for p, found in zip(ps, holm(ps), strict=True):
        assert p <= found <= min(1.0, len(ps) * p)


# error rates


def test_the_interval_covers_at_every_look_together() -> None:
    """The last interval of studies that stop at the first finding holds the mean."""
    found = simulate("normal", 0.0, studies=1000)
    assert found.coverage >= 0.96
    assert found.any_found == pytest.approx(1 - found.coverage)


@pytest.mark.slow
@pytest.mark.parametrize("num_variants", [1, 4])
@pytest.mark.parametrize("law", LAWS)
def test_few_studies_of_nothing_find_something(law: str, num_variants: int) -> None:
    """Two runs of one law differ symmetrically. (With skewed differences, no method holds its
    rate.)"""
    found = simulate(law, 0.0, num_variants=num_variants, max_seeds=400, studies=2000)
    print(f"{law}, {num_variants} variants: {100 * found.any_found:.1f} %")
    assert found.any_found <= (0.15 if law == "exponential" and num_variants == 1 else 0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("effect", "power", "seeds"), [(0.3, 0.35, 55), (0.5, 0.86, 37), (1.0, 1.0, 15)]
)
def test_power_and_seeds_are_those_of_the_docs(effect: float, power: float, seeds: float) -> None:
    found = simulate("normal", effect, studies=5000)
    print(f"d/sd = {effect}: {found}")
    assert found.found == pytest.approx(power, abs=0.03)
    assert found.seeds == pytest.approx(seeds, abs=1)
    assert found.coverage >= 0.94


@pytest.mark.slow
def test_a_t_test_after_every_seed_errs_often() -> None:
    assert t_test_at_every_seed(studies=5000) > 0.2
