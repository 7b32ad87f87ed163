"""Contrasts: weights over variants, their intervals, verdicts, and where there is none."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import ArrayLike, NDArray

import attnexp
from attnexp.analysis.answer import Answer, compare
from attnexp.analysis.contrasts import Difference
from attnexp.analysis.families import difference, family_of_study
from attnexp.analysis.group import Group
from attnexp.analysis.metrics import ACCURACY
from attnexp.analysis.read_results import read_results
from attnexp.statistics.crossed import crossed
from attnexp.statistics.intervals import anytime_interval, t_interval
from attnexp.statistics.meta import random_effects
from attnexp.statistics.verdict import MetricSpec

NONE = [0.79, 0.80, 0.78, 0.79]
PE = [0.82, 0.83, 0.80, 0.82]
ROTARY = [0.79, 0.81, 0.78, 0.78]
BY_CHANCE = "neither is shown to be above chance"


def table(metric: str = "accuracy", /, **values: ArrayLike) -> pd.DataFrame:
    """Values of variants, seed by seed."""
    parts = []
    for variant, by_seed in values.items():
        part = pd.DataFrame({"variant": variant, metric: by_seed})
        parts.append(part.rename_axis("seed").reset_index())
    return pd.concat(parts)


def group(**values: ArrayLike) -> Group:
    (only,), _ = read_results(table(**values))
    return only


def positions() -> Group:
    return group(none=NONE, pe=PE, rotary=ROTARY)


def differences(group: Group, metric: MetricSpec = ACCURACY) -> dict[str, Difference]:
    return {row.contrast.variant: row for row in compare([group], metric).differences}


def test_equal_gains_are_as_certain_as_one_text() -> None:
    row = differences(group(a=NONE, b=np.add(NONE, 0.03)))["b"]
    assert row.interval == pytest.approx(t_interval([0.03] * 4, step=0.01))


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_the_unit_of_a_metric_changes_no_verdict(scale: float) -> None:
    noise = np.random.default_rng(0).normal(0, 0.001, (2, 8))
    frame = table("mse", a=scale * (1 + noise[0]), b=scale * (1.3 + noise[1]))
    row = attnexp.judge(frame, metric="mse", lower=True, margin=0.01 * scale).loc[0]
    assert row["verdict"] == "hurts on these texts"
    assert row["mean"] == pytest.approx(0.3 * scale, rel=0.01)


def test_seeds_that_were_added_because_of_results_have_the_anytime_interval() -> None:
    gains = np.resize([0, 0.01, 0.02], 12)
    whole = group(a=[0.8] * 12, b=0.8 + gains)
    row = differences(replace(whole, sequential=frozenset("b")))["b"]
    assert row.interval == pytest.approx(anytime_interval(gains, step=0.01))
    assert row.sequential
    assert row.texts is None
    assert math.isnan(row.p)  # that of a fixed number of seeds


def answered(**right: NDArray[np.bool_]) -> Group:
    """A group of answers to texts: (seeds, texts) by variant."""
    accuracies = {variant: bits.mean(1) for variant, bits in right.items()}
    stored = {}
    for variant, by_seed in right.items():
        for seed, bits in enumerate(by_seed):
            stored[variant, str(seed), "result"] = bits
    num_texts = right["a"].shape[1]
    return replace(group(**accuracies), right=stored, num_texts={"result": num_texts})


@pytest.mark.parametrize("num_lost", [0, 2, 3])
def test_other_texts_are_judged_by_the_seeds_whose_answers_are_stored(num_lost: int) -> None:
    """Never more narrowly than other seeds, by all of them; by three seeds at least."""
    rng = np.random.default_rng(0)
    right = {"a": rng.random((5, 30)) < 0.6, "b": rng.random((5, 30)) < 0.8}
    whole = answered(**right)
    for seed in range(num_lost):
        del whole.right["a", str(seed), "result"]
    row = differences(whole)["b"]
    d = right["b"].astype(float) - right["a"]
    seeds = t_interval(d.mean(1), step=1 / 30)
    assert row.interval == pytest.approx(seeds)
    if num_lost == 3:
        assert (row.texts, row.texts_n, row.verdict) == (None, 0, "helps on these texts")
        return
    texts: Any = crossed(d[num_lost:])
    assert row.texts_n == 5 - num_lost
    assert row.error == pytest.approx(texts.se)
    assert row.texts == pytest.approx((min(texts.low, seeds.low), max(texts.high, seeds.high)))


def test_variants_with_the_same_texts_right_have_no_verdict() -> None:
    right = np.random.default_rng(0).random((4, 30)) < 0.7
    row = differences(answered(a=right, b=right))["b"]
    assert (row.words, row.verdict) == ("the same texts are right", "")


@pytest.mark.parametrize(("planned", "reason"), [(9, "4 of 9 seeds finished"), (8, "")])
def test_there_is_no_verdict_on_less_than_half_a_study(planned: int, reason: str) -> None:
    seeds = [str(seed) for seed in range(planned)]
    row = differences(replace(positions(), planned={"none": seeds, "pe": seeds}))["pe"]
    assert row.reason == reason
    assert row.verdict == ("" if reason else "helps on these texts")


def test_chance_is_asked_of_each_pair() -> None:
    """Two that do not learn have no verdict about each other, whatever a third has learnt."""
    noise = np.random.default_rng(0).normal(0, 0.001, 6)
    frame = table("macro_f1", a=0.5 + noise, b=0.52 + noise, learnt=0.9 + noise)
    (whole,), metric = read_results(frame, "macro_f1")
    at_chance = replace(whole, chance={"macro_f1": 0.5}, num_texts={"result": 400})
    rows = differences(at_chance, metric)
    assert (rows["b"].words, rows["b"].verdict) == (BY_CHANCE, "")
    assert (rows["b"].seeds_if_as_measured, rows["b"].seeds_at_most) == (None, None)
    assert rows["learnt"].verdict == "helps on these texts"


def test_chance_is_paired_by_text_where_answers_are_stored() -> None:
    """A model that has every text of the guess right, and one in twenty more: by its accuracy
    alone, which may be that of other texts, it is not above chance."""
    texts = np.arange(200)
    guess = texts < 120
    better = guess | (texts % 20 == 19)
    whole = answered(a=np.tile(guess, (4, 1)), b=np.tile(better, (4, 1)))
    whole = replace(whole, chance={"accuracy": 0.6}, guess=guess)
    assert differences(whole)["b"].verdict == "helps"
    assert differences(replace(whole, right={}))["b"].reason == BY_CHANCE


FACTORS = {
    "none_raw": {"position": "none", "data.max_len": "data.max_len=20"},
    "none_big": {"position": "none", "data.max_len": "data.max_len=40"},
    "pe_raw": {"position": "pe", "data.max_len": "data.max_len=20"},
    "pe_big": {"position": "pe", "data.max_len": "data.max_len=40"},
}


def test_crossed_factors_are_one_family_of_simple_effects_and_interactions() -> None:
    noise = np.random.default_rng(0).normal(0, 0.001, (4, 6))
    means = {"none_raw": 0.7, "none_big": 0.7, "pe_raw": 0.72, "pe_big": 0.73}
    values = {name: means[name] + noise[number] for number, name in enumerate(means)}
    whole = replace(group(**values), families=[family_of_study(FACTORS)])
    rows = compare([whole], ACCURACY).differences
    assert [row.contrast.name for row in rows] == [
        "pe − none within data.max_len=20",
        "pe − none within data.max_len=40",
        "pe − none, data.max_len=40 − 20",
    ]
    assert [row.m for row in rows] == [3, 3, 3]
    assert [row.interval.mean for row in rows] == pytest.approx([0.02, 0.03, 0.01], abs=0.003)
    interaction = rows[-1].contrast
    assert interaction.variant == "pe_big − none_big"
    assert interaction.baseline == "pe_raw − none_raw"


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
        rows = differences(replace(positions(), families=families))
        assert (rows["pe"].m, rows["rotary"].m) == (2, 2)


def three_data_sets() -> list[Group]:
    groups = []
    for number, lift in enumerate([0.0, 0.01, 0.03]):
        lifted = group(none=NONE, pe=np.add(PE, lift), rotary=ROTARY)
        groups.append(replace(lifted, data=f"set{number}", source=f"set{number}"))
    return groups


def mean_of_pe(answer: Answer) -> Difference:
    (row,) = [row for row in answer.means if row.contrast.variant == "pe"]
    return row


def test_the_mean_over_data_sets_is_a_difference_in_the_family_of_its_study() -> None:
    groups = three_data_sets()
    rows = [differences(group)["pe"] for group in groups]
    row = mean_of_pe(compare(groups, ACCURACY))
    means = [row.interval.mean for row in rows]
    interval, next_bounds = random_effects(means, [row.error for row in rows], m=2)
    assert row.interval == pytest.approx(interval)
    assert row.next == pytest.approx(next_bounds)
    assert (row.m, row.data) == (2, "mean over 3")
    cut = replace(groups[1], source="set0")  # texts of the first
    assert compare([groups[0], cut], ACCURACY).means == []


def test_data_sets_without_a_verdict_take_no_part_in_the_mean_and_are_named() -> None:
    *two, third = three_data_sets()
    at_chance = replace(third, chance={"accuracy": 0.99}, num_texts={"result": 100})
    few = replace(third, endpoints=third.endpoints[third.endpoints["seed"].isin(["0", "1"])])
    for left_out, reason in ((at_chance, BY_CHANCE), (few, "too few seeds")):
        answer = compare([*two, left_out], ACCURACY)
        row = mean_of_pe(answer)
        assert (row.interval.n, row.verdict) == (2, "too few data sets")
        assert f"Not in the mean over data sets: set2 ({reason})." in answer.notes
