"""Contrasts: weights over variants, their intervals, verdicts, and where there is none."""

import io
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from attnexp.analysis.answer import Answer, compare
from attnexp.analysis.contrasts import Difference, difference_frame
from attnexp.analysis.families import difference, family_of_study
from attnexp.analysis.group import Group
from attnexp.analysis.metrics import ACCURACY
from attnexp.analysis.read_results import read_results
from attnexp.statistics.crossed import crossed
from attnexp.statistics.intervals import anytime_interval, t_interval
from attnexp.statistics.meta import random_effects
from attnexp.statistics.verdict import MetricSpec

TABLE = """variant,seed,accuracy,loss
none,0,0.79,0.51
none,1,0.80,0.50
none,2,0.78,0.52
none,3,0.79,0.51
pe,2,0.80,0.50
pe,3,0.82,0.48
pe,1,0.83,0.47
pe,0,0.82,0.48
pe,9,0.99,0.01
rotary,0,0.79,0.51
rotary,1,0.81,0.49
rotary,2,0.78,0.52
rotary,3,0.78,0.52
"""
PE = [0.03, 0.03, 0.02, 0.03]
FACTORS = {f"{p}_{s}": {"position": p, "scale": s} for p in ("none", "pe") for s in ("raw", "big")}


def group(text: str = TABLE, **more: Any) -> Group:
    (only,), _ = read_results(pd.read_csv(io.StringIO(text)), **more)
    return only


def table(**values: Sequence[float]) -> str:
    """A table of accuracies, seed by seed."""
    rows = ["variant,seed,accuracy"]
    for variant, accuracies in values.items():
        rows += [f"{variant},{seed},{accuracy:.6f}" for seed, accuracy in enumerate(accuracies)]
    return "\n".join(rows)


def differences(*groups: Group, metric: MetricSpec = ACCURACY) -> dict[str, Difference]:
    return {row.contrast.variant: row for row in compare(groups, metric).differences}


def test_a_difference_is_paired_by_the_seeds_that_both_have() -> None:
    row = differences(group())["pe"]
    expected = t_interval(PE, m=2, step=0.01)
    assert row.interval == pytest.approx(expected)
    assert (row.verdict, row.contrast.baseline, row.m) == ("helps on these texts", "none", 2)
    rows = differences(group(baseline="pe"))
    means = {variant: row.interval.mean for variant, row in rows.items()}
    assert means == pytest.approx({"none": -np.mean(PE), "rotary": -0.0275})


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_the_unit_of_a_metric_changes_no_verdict(scale: float) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"variant": ["a", "b"] * 8, "seed": np.repeat(range(8), 2)})
    frame["mse"] = scale * (1 + 0.3 * (frame["variant"] == "b") + rng.normal(0, 0.001, 16))
    metric = MetricSpec(name="mse", is_share=False, higher_is_better=False, margin=0.01 * scale)
    (only,), _ = read_results(frame, "mse", lower=True, margin=1)
    row = differences(only, metric=metric)["b"]
    assert row.verdict == "hurts on these texts"
    assert row.interval.mean == pytest.approx(0.3 * scale, rel=0.01)


def test_seeds_that_were_added_because_of_results_have_the_anytime_interval() -> None:
    gains = [0.01 * (seed % 3) for seed in range(12)]
    text = table(a=[0.8] * 12, b=[0.8 + gain for gain in gains])
    row = differences(group(text, sequential=True))["b"]
    assert row.interval == pytest.approx(anytime_interval(gains, step=0.01))
    assert row.sequential
    assert row.texts is None
    assert math.isnan(row.p)  # that of a fixed number of seeds


def answers(seeds: int, texts: int = 30) -> tuple[str, dict[str, Any]]:
    """A table of answers by example, and the same as arrays (seeds, texts)."""
    rng = np.random.default_rng(0)
    right = {v: rng.random((seeds, texts)) < share for v, share in (("a", 0.6), ("b", 0.8))}
    rows = [
        f"{v},{s},{t},{int(right[v][s, t])}"
        for v in right for s in range(seeds) for t in range(texts)
    ]  # fmt: skip
    return "\n".join(["variant,seed,example,correct", *rows]), right


@pytest.mark.parametrize("num_lost", [0, 1, 2, 3])
def test_other_texts_are_judged_by_the_seeds_whose_answers_are_stored(num_lost: int) -> None:
    """Never more narrowly than other seeds, by all of them; by three seeds at least."""
    text, right = answers(5)
    whole = group(text)
    lost = [("a", str(seed)) for seed in range(num_lost)]
    stored = {place: bits for place, bits in whole.right.items() if place[:2] not in lost}
    row = differences(replace(whole, right=stored))["b"]
    d = right["b"].astype(float) - right["a"].astype(float)
    seeds = t_interval(d.mean(1), step=1 / 30)
    assert row.interval == pytest.approx(seeds)
    if num_lost == 3:
        assert (row.texts, row.texts_n, row.verdict) == (None, 0, "helps on these texts")
        return
    texts: Any = crossed(d[num_lost:])
    assert row.texts_n == 5 - num_lost
    assert row.error == pytest.approx(texts.se)
    assert row.texts == pytest.approx((min(texts.low, seeds.low), max(texts.high, seeds.high)))


@pytest.mark.parametrize(("planned", "reason"), [(9, "4 of 9 seeds finished"), (8, "")])
def test_there_is_no_verdict_on_less_than_half_a_study(planned: int, reason: str) -> None:
    seeds = list(map(str, range(planned)))
    row = differences(replace(group(), planned=dict.fromkeys(("none", "pe"), seeds)))["pe"]
    assert (row.reason, row.verdict == "") == (reason, bool(reason))
    assert row.words == (reason or "helps by at least 0.25 points on these texts")


@pytest.mark.parametrize("metric", ["accuracy", "macro_f1"])
def test_chance_is_asked_of_each_pair(metric: str) -> None:
    """Two that do not learn have no verdict about each other, whatever a third has learnt."""
    rng = np.random.default_rng(0)
    means = {"a": 0.5, "b": 0.52, "learnt": 0.9}
    noise = rng.normal(0, 0.001, 6)
    text = table(**{name: list(mean + noise) for name, mean in means.items()})
    whole = group(text.replace("accuracy", metric), metric=metric)
    spec = MetricSpec(name=metric)
    changes: Any = {"chance": {metric: 0.5}, "num_texts": {"result": 400}}
    rows = differences(replace(whole, **changes), metric=spec)
    assert rows["b"].words == "neither is shown to be above chance"
    proposals = (rows["b"].seeds_if_as_measured, rows["b"].seeds_at_most)
    assert (rows["b"].verdict, proposals) == ("", (None, None))
    assert rows["learnt"].verdict == "helps on these texts"


def test_chance_is_paired_by_text_where_answers_are_stored() -> None:
    """A model that has every text of the guess right, and one in twenty more: by its accuracy
    alone, which may be that of other texts, it is not above chance."""
    num_texts = 200
    guess = np.arange(num_texts) < 120
    better = guess | (np.arange(num_texts) % 20 == 19)
    right = {(v, str(s), "result"): guess if v == "a" else better for v in "ab" for s in range(4)}
    text = table(a=[guess.mean()] * 4, b=[better.mean()] * 4)
    chance: Any = {"chance": {"accuracy": 0.6}, "num_texts": {"result": num_texts}}
    by_means = differences(replace(group(text), **chance))["b"]
    assert by_means.reason == "neither is shown to be above chance"
    by_answers = differences(replace(group(text), right=right, guess=guess, **chance))["b"]
    assert by_answers.verdict == "helps"


def crossed_group() -> Group:
    """Two crossed factors: position helps by 2 points, with scaling by 3."""
    rng = np.random.default_rng(0)
    values = {}
    for name, levels in FACTORS.items():
        effect = 0.03 if levels["scale"] == "big" else 0.02
        base = 0.7 + effect * (levels["position"] == "pe")
        values[name] = [base + noise for noise in rng.normal(0, 0.001, 6)]
    return replace(group(table(**values)), families=[family_of_study(FACTORS)])


def test_crossed_factors_are_one_family_of_simple_effects_and_interactions() -> None:
    rows = compare([crossed_group()], ACCURACY).differences
    assert [row.contrast.name for row in rows] == [
        "pe − none within raw",
        "pe − none within big",
        "pe − none, big − raw",
    ]
    assert [row.m for row in rows] == [3, 3, 3]
    assert [row.interval.mean for row in rows] == pytest.approx([0.02, 0.03, 0.01], abs=0.003)
    interaction = rows[-1]
    assert interaction.contrast.variant == "pe_big − none_big"
    assert interaction.contrast.baseline == "pe_raw − none_raw"
    assert interaction.contrast.weights == {
        "pe_big": 1, "none_big": -1, "pe_raw": -1, "none_raw": 1
    }  # fmt: skip
    assert interaction.verdict == "helps on these texts"


def test_levels_that_are_words_stand_once_in_a_name() -> None:
    values = ("data.max_len=20", "data.max_len=40")
    levels = {f"{v} {w}": {"blog": v, "data.max_len": w} for v in ("no_pe", "pe") for w in values}
    names = [contrast.name for contrast in family_of_study(levels)]
    assert names == [
        "pe − no_pe within data.max_len=20",
        "pe − no_pe within data.max_len=40",
        "pe − no_pe, data.max_len=40 − 20",
    ]


@pytest.mark.parametrize("levels", ["11 21", "11 12 13", "11 21 21"])
def test_without_two_crossed_factors_all_are_compared_with_the_baseline(levels: str) -> None:
    factors: dict[str, dict[str, str]] = {"a": {}, "b": {}, "c": {}}
    assert [contrast.name for contrast in family_of_study(factors)] == ["b − a", "c − a"]
    for variant, pair in zip("abc", levels.split(), strict=False):
        factors[variant] = dict(zip("xy", pair, strict=True))
    assert [contrast.name for contrast in family_of_study(factors)] == ["b − a", "c − a"]


def test_a_difference_of_two_studies_has_the_wider_of_their_intervals() -> None:
    small = [difference("pe", "none")]
    large = [difference(name, "none") for name in ("pe", "rotary")]
    for families in ([small, large], [large, small]):
        rows = compare([replace(group(), families=families)], ACCURACY).differences
        assert sorted((row.contrast.variant, row.m) for row in rows) == [("pe", 2), ("rotary", 2)]


def three_data_sets() -> list[Group]:
    tables = [TABLE.replace("0.8", f"0.{digit}") for digit in "678"]
    return [
        replace(group(text), data=f"set{number}", source=f"set{number}")
        for number, text in enumerate(tables)
    ]


def mean_of_pe(answer: Answer) -> Any:
    (row,) = [row for row in answer.means if row.contrast.variant == "pe"]
    return row


def test_the_mean_over_data_sets_is_a_difference_in_the_family_of_its_study() -> None:
    groups = three_data_sets()
    rows = [differences(one)["pe"] for one in groups]
    answer = compare(groups, ACCURACY)
    row = mean_of_pe(answer)
    means = [row.interval.mean for row in rows]
    interval, next_bounds = random_effects(means, [row.error for row in rows], m=2)
    assert row.m == 2
    assert row.interval == pytest.approx(interval)
    assert row.next == pytest.approx(next_bounds)
    frame = difference_frame(answer.differences)
    assert [*frame["data"].unique()] == ["set0", "set1", "set2", "mean over 3"]
    assert compare(groups[:1], ACCURACY).means == []
    cut = replace(groups[1], data="set0 (100 + 200 texts)", source="set0")  # the texts of the first
    assert compare([groups[0], cut], ACCURACY).means == []


def test_data_sets_without_a_verdict_take_no_part_in_the_mean_and_are_named() -> None:
    one, other, third = three_data_sets()
    at_chance = replace(third, chance={"accuracy": 0.99}, num_texts={"result": 100})
    few = replace(third, endpoints=third.endpoints[third.endpoints["seed"].isin(["0", "1"])])
    reasons = {"neither is shown to be above chance": at_chance, "too few seeds": few}
    for reason, left_out in reasons.items():
        answer = compare([one, other, left_out], ACCURACY)
        row = mean_of_pe(answer)
        assert (row.interval.n, row.verdict) == (2, "too few data sets")
        assert f"Not in the mean over data sets: set2 ({reason})." in answer.notes
