"""Contrasts: weights over variants, their intervals, verdicts, and where there is none."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import ArrayLike, NDArray

from attnexp.analysis.answer import compare
from attnexp.analysis.contrasts import Difference, contrasts_with_m
from attnexp.analysis.families import difference, family_of_study
from attnexp.analysis.group import Group, Origin
from attnexp.analysis.metrics import ACCURACY, BY_NAME
from attnexp.analysis.read_results import read_results
from attnexp.statistics.crossed import crossed, widen
from attnexp.statistics.intervals import anytime_interval, t_interval
from attnexp.statistics.meta import random_effects
from attnexp.statistics.verdict import MetricSpec

Bits = NDArray[np.bool_]
NONE = [0.79, 0.80, 0.78, 0.79]
PE = [0.82, 0.83, 0.80, 0.82]
ROTARY = [0.79, 0.81, 0.78, 0.78]
BY_CHANCE = "neither is shown to be above chance"
FEW = "too few seeds"


def table(metric: str = "accuracy", /, **values: ArrayLike) -> pd.DataFrame:
    """Values of variants, seed by seed."""
    wide = pd.DataFrame(values).rename_axis("seed")
    return wide.melt(var_name="variant", value_name=metric, ignore_index=False).reset_index()


def group(**values: ArrayLike) -> Group:
    (only,), _ = read_results(table(**values))
    return only


def differences(group: Group, metric: MetricSpec = ACCURACY) -> dict[str, Difference]:
    return {row.contrast.variant: row for row in compare([group], metric).differences}


def answered(**right: Bits) -> Group:
    """A group of answers to texts: (seeds, texts) by variant."""
    whole = group(**{variant: bits.mean(axis=1) for variant, bits in right.items()})
    for variant, bits in right.items():
        for seed, row in enumerate(bits):
            whole.right[variant, str(seed), "result"] = row
            whole.num_texts[variant, "result"] = len(row)
    return whole


def random_answers(num_seeds: int) -> tuple[Bits, Bits]:
    rng = np.random.default_rng(0)
    worse = rng.random((num_seeds, 30)) < 0.6
    better = rng.random((num_seeds, 30)) < 0.8
    return worse, better


def test_equal_gains_are_as_certain_as_one_text() -> None:
    whole = group(a=NONE, b=np.add(NONE, 0.03))
    row = differences(whole)["b"]
    assert row.interval == pytest.approx(t_interval([0.03] * 4, step=0.01))
    whole.num_texts.update({("a", "result"): 100, ("b", "result"): 50})
    assert differences(whole)["b"].interval == pytest.approx(t_interval([0.03] * 4, step=0.02))


def test_seeds_that_were_added_because_of_results_have_the_anytime_interval() -> None:
    a, b = random_answers(12)
    whole = replace(answered(a=a, b=b), sequential=frozenset("b"))
    row = differences(whole)["b"]
    gains = b.mean(axis=1) - a.mean(axis=1)
    assert row.interval == pytest.approx(anytime_interval(gains, step=1 / 30))
    assert (row.sequential, row.texts) == (True, None)
    assert math.isnan(row.p)  # that of a fixed number of seeds


def test_other_texts_are_judged_by_three_seeds_or_more_whose_answers_are_stored() -> None:
    a, b = random_answers(5)
    gains = b.astype(float) - a
    seeds = t_interval(gains.mean(axis=1), step=1 / 30)
    whole = answered(a=a, b=b)
    for num_lost in range(3):
        row = differences(whole)["b"]
        texts: Any = crossed(gains[num_lost:])
        assert row.interval == pytest.approx(seeds)
        assert row.texts == pytest.approx(widen(texts, seeds))
        assert row.texts_n == 5 - num_lost
        assert row.error == pytest.approx(texts.se)
        del whole.right["a", str(num_lost), "result"]
    row = differences(whole)["b"]
    assert (row.texts, row.texts_n, row.verdict.name) == (None, 0, "helps on these texts")


def test_two_variants_with_the_same_texts_right_have_no_verdict_on_accuracy() -> None:
    right, better = random_answers(4)
    same = answered(a=right, b=right)
    row = differences(same)["b"]
    assert (row.words, row.verdict.name) == ("the same texts are right", "")
    f1 = replace(same, at_endpoints=same.at_endpoints.assign(metric="macro_f1"))
    assert differences(f1, BY_NAME["macro_f1"])["b"].verdict.name
    four = answered(none_raw=right, none_big=right, pe_raw=better, pe_big=better)
    rows = differences(replace(four, families=[family_of_study(FACTORS)]))
    assert rows["pe_big − none_big"].verdict.name  # Its weighted sums are 0 all the same.


@pytest.mark.parametrize(
    ("planned", "reason", "verdict"),
    [("012345678", "4 of 9 seeds finished", ""), ("01234567", "", "helps on these texts")],
)
def test_less_than_half_a_study_has_no_verdict(planned: str, reason: str, verdict: str) -> None:
    origin = Origin(planned={"none": planned, "pe": planned})
    whole = replace(group(none=NONE, pe=PE), origin=origin)
    row = differences(whole)["pe"]
    assert (row.record["reason"], row.verdict.name) == (reason, verdict)


def test_two_that_do_not_learn_have_no_verdict_whatever_a_third_has_learnt() -> None:
    values = {"a": [0.5, 0.501, 0.499], "b": [0.52, 0.521, 0.519], "learnt": [0.9, 0.901, 0.899]}
    frame = table("macro_f1", **values)
    (whole,), metric = read_results(frame, "macro_f1")
    whole.chance["macro_f1"] = 0.5
    whole.num_texts.update({(variant, "result"): 400 for variant in values})
    answers = np.ones(400, dtype=bool)  # They say nothing of a metric that is no accuracy.
    for seed in "012":
        whole.right["b", seed, "result"] = answers
    rows = differences(replace(whole, guess=~answers), metric)
    row = rows["b"]
    assert (row.words, row.verdict.name) == (BY_CHANCE, "")
    assert (row.seeds_if_as_measured, row.seeds_at_most) == (None, None)
    assert rows["learnt"].verdict.name == "helps on these texts"


def test_chance_is_paired_by_text_where_answers_are_stored() -> None:
    guess = np.arange(200) < 120
    better = guess.copy()
    better[139::20] = True  # too few more for the accuracy alone
    whole = answered(a=np.tile(guess, (4, 1)), b=np.tile(better, (4, 1)))
    whole.chance["accuracy"] = 0.6
    assert differences(replace(whole, guess=guess))["b"].verdict.name == "helps"
    whole.right.clear()
    assert differences(replace(whole, guess=guess))["b"].words == BY_CHANCE


FACTORS = {
    "none_raw": {"position": "none", "data.max_len": "data.max_len=20"},
    "none_big": {"position": "none", "data.max_len": "data.max_len=40"},
    "pe_raw": {"position": "pe", "data.max_len": "data.max_len=20"},
    "pe_big": {"position": "pe", "data.max_len": "data.max_len=40"},
}


def test_crossed_factors_are_one_family_of_simple_effects_and_interactions() -> None:
    family = family_of_study(FACTORS)
    assert [contrast.name for contrast in family] == [
        "pe − none within data.max_len=20",
        "pe − none within data.max_len=40",
        "pe − none, data.max_len=40 − 20",
    ]
    at_raw = {"pe_raw": 1, "none_raw": -1}
    at_big = {"pe_big": 1, "none_big": -1}
    between = at_big | {"pe_raw": -1, "none_raw": 1}
    assert [contrast.weights for contrast in family] == [at_raw, at_big, between]
    assert (family[2].variant, family[2].baseline) == ("pe_big − none_big", "pe_raw − none_raw")


@pytest.mark.parametrize("levels", [["11", "21", ""], ["11", "12", "13"], ["11", "21", "21"]])
def test_without_two_crossed_factors_all_are_compared_with_the_baseline(levels: list[str]) -> None:
    factors = {}
    for variant, pair in zip("abc", levels, strict=True):
        factors[variant] = dict(zip("xy", pair, strict=False))
    assert [contrast.name for contrast in family_of_study(factors)] == ["b − a", "c − a"]


def test_a_difference_of_two_studies_has_the_wider_of_their_intervals() -> None:
    small = [difference("pe", "none")]
    large = [*small, difference("rotary", "none")]
    for families in ([small, large], [large, small]):
        assert contrasts_with_m(families) == [(contrast, 2) for contrast in large]


def data_set(name: str, lift: float) -> Group:
    return replace(group(none=NONE, pe=np.add(PE, lift), rotary=ROTARY), data=name, source=name)


THREE = [data_set("first", 0.0), data_set("second", 0.01), data_set("third", 0.03)]
HUNDRED = dict.fromkeys([(variant, "result") for variant in THREE[0].variants], 100)


def test_the_mean_over_data_sets_is_a_difference_in_the_family_of_its_study() -> None:
    rows = [differences(group)["pe"] for group in THREE]
    row: Any = compare(THREE, ACCURACY).means[0]
    means = [row.interval.mean for row in rows]
    errors = [row.error for row in rows]
    interval, next_bounds = random_effects(means, errors, m=2)
    assert (*row.interval, *row.next) == pytest.approx((*interval, *next_bounds))
    assert (row.m, row.data) == (2, "mean over 3")
    assert compare([THREE[0], replace(THREE[1], source="first")], ACCURACY).means == []


def test_data_sets_without_a_verdict_take_no_part_in_the_mean_and_are_named() -> None:
    *two, third = THREE
    at_chance = replace(third, chance={"accuracy": 0.99}, num_texts=HUNDRED)
    few = replace(third, at_endpoints=third.at_endpoints.query("seed < '2'"))
    early = replace(third, sequential=frozenset(third.variants))  # with four seeds
    for left_out, reason in ((at_chance, BY_CHANCE), (few, FEW), (early, FEW)):
        answer = compare([*two, left_out], ACCURACY)
        row = answer.means[0]
        assert (row.interval.n, row.verdict.name) == (2, "too few data sets")
        note = f"Not in every mean over data sets at result: third ({reason})."
        assert note in " ".join(answer.notes)
