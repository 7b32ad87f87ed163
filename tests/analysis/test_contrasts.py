"""Contrasts: weights over variants, their intervals, verdicts, and where there is none."""

import io
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnexp.analysis.contrasts import across, contrast, differences, within
from attnexp.analysis.frames import Group
from attnexp.analysis.judge import read_results
from attnexp.base.errors import UserError
from attnexp.statistics.crossed import crossed
from attnexp.statistics.intervals import anytime_interval, t_interval
from attnexp.statistics.meta import random_effects
from attnexp.statistics.verdict import Metric

TABLE = """variant,seed,accuracy,loss
none,0,0.79,0.51
none,1,0.80,0.50
none,2,0.78,0.52
none,3,0.79,0.51
pe,0,0.82,0.48
pe,1,0.83,0.47
pe,2,0.80,0.50
pe,3,0.82,0.48
pe,9,0.99,0.01
rotary,0,0.79,0.51
rotary,1,0.81,0.49
rotary,2,0.78,0.52
rotary,3,0.78,0.52
"""
PE = [0.03, 0.03, 0.02, 0.03]


def group(text: str = TABLE, **more: Any) -> Group:
    (found,) = read_results(pd.read_csv(io.StringIO(text)), **more)
    return found


def test_a_difference_is_paired_by_the_seeds_that_both_have() -> None:
    found = differences(group()).set_index("variant").loc["pe"]
    expected = t_interval(PE, m=2, step=0.01)
    assert (found["n"], found["mean"], found["low"], found["high"]) == pytest.approx(
        (4, expected.mean, expected.low, expected.high)
    )
    assert (found["verdict"], found["baseline"], found["m"]) == ("helps", "none", 2)


def test_every_other_variant_is_compared_with_the_baseline_that_is_named() -> None:
    found = differences(group(baseline="pe"))
    assert [*found["variant"]] == ["none", "rotary"]
    assert found["mean"].to_numpy() == pytest.approx([-np.mean(PE), -0.0275])


@given(st.permutations(TABLE.splitlines()[1:]))
def test_the_order_of_the_rows_changes_no_number(lines: list[str]) -> None:
    found = group("\n".join([TABLE.splitlines()[0], *lines]), baseline="none")
    one, other = (differences(g).set_index("variant").sort_index() for g in (found, group()))
    numbers = ["n", "mean", "sd", "low", "high", "p"]
    pd.testing.assert_frame_equal(one[numbers], other[numbers])


def test_weights_make_interactions() -> None:
    weights = {"pe": 1.0, "none": -1.0, "rotary": -1.0}
    found = contrast(group(), weights, "result")
    assert found["mean"] == pytest.approx(0.0275 - 0.79)
    assert contrast(group(), {"pe": 1.0, "gone": -1.0}, "result") == {}
    assert contrast(group(), {"pe": 1.0, "none": -1.0}, "result", Metric(name="f1")) == {}


def test_seeds_that_were_added_because_of_results_have_the_anytime_interval() -> None:
    text = "variant,seed,accuracy\n" + "".join(
        f"{v},{s},{0.8 + 0.01 * (v == 'b') * (s % 3)}\n" for v in "ab" for s in range(12)
    )
    found = differences(group(text, sequential=True)).iloc[0]
    d = [0.01 * (s % 3) for s in range(12)]
    expected = anytime_interval(d, step=0.01)
    assert (found["low"], found["high"]) == pytest.approx((expected.low, expected.high))
    assert np.isnan(found["texts_low"])
    assert np.isnan(found["p"])  # that of a fixed number of seeds


def answers(seeds: int, texts: int = 30) -> tuple[str, dict[str, Any]]:
    """A table of answers by example, and the same as arrays (seeds, texts)."""
    rng = np.random.default_rng(0)
    right = {v: rng.random((seeds, texts)) < share for v, share in (("a", 0.6), ("b", 0.8))}
    rows = [
        f"{v},{s},{t},{int(right[v][s, t])}"
        for v in right for s in range(seeds) for t in range(texts)
    ]  # fmt: skip
    return "\n".join(["variant,seed,example,correct", *rows]), right


def test_answers_give_an_interval_for_other_texts_never_narrower() -> None:
    text, right = answers(5)
    found = differences(group(text)).iloc[0]
    d = right["b"].astype(float) - right["a"].astype(float)
    expected, seeds = crossed(d), t_interval(d.mean(1), step=1 / 30)
    assert expected is not None
    assert found["texts_low"] == pytest.approx(min(expected.low, seeds.low))
    assert found["texts_high"] == pytest.approx(max(expected.high, seeds.high))
    assert found["mean"] == pytest.approx(d.mean())


def test_other_texts_are_unknown_where_seeds_answered_different_ones() -> None:
    text, _ = answers(3)
    header, *rows = text.splitlines()
    moved = [f"{v},{s},{s}-{t},{c}" for v, s, t, c in (row.split(",") for row in rows)]
    found = differences(group("\n".join([header, *moved]))).iloc[0]
    assert np.isnan(found["texts_low"])
    assert found["n"] == 3


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"planned": {v: [*"012345678"] for v in ("none", "pe")}}, "4 of 9 seeds finished"),
        ({"chance": 0.9, "num_texts": {"result": 100}}, "no variant is above chance"),
        ({"planned": {v: [*"01234567"] for v in ("none", "pe")}}, ""),
    ],
)
def test_there_is_no_verdict_on_half_a_study_or_at_chance(changes: Any, reason: str) -> None:
    found = differences(replace(group(), **changes)).iloc[0]
    assert (found["reason"], found["verdict"] == "") == (reason, bool(reason))


def test_a_loss_helps_where_it_is_lower() -> None:
    metric = Metric(name="loss", is_share=False, higher_is_better=False, margin=0.001)
    found = differences(group(), [metric]).set_index("variant")
    assert found.loc["pe", "verdict"] == "helps"
    assert found.loc["pe", "mean"] == pytest.approx(-np.mean(PE))


def crossed_group(extra: float = 0.0) -> Group:
    """Two crossed factors: position helps by 2 points, with scaling by `extra` more."""
    rng = np.random.default_rng(0)
    names = {(p, s): f"{p}_{s}" for p in ("none", "pe") for s in ("raw", "scaled")}
    rows = [
        f"{name},{seed},{0.7 + (p == 'pe') * (0.02 + extra * (s == 'scaled')) + noise:.6f}"
        for (p, s), name in names.items()
        for seed, noise in enumerate(rng.normal(0, 0.001, 6))
    ]
    levels = {name: {"position": p, "scale": s} for (p, s), name in names.items()}
    return replace(group("\n".join(["variant,seed,accuracy", *rows])), levels=levels)


def test_factors_are_compared_within_levels_and_across_them() -> None:
    found = within(crossed_group(0.01))
    assert [*found["within"]] == ["raw", "scaled", ""]
    assert [*found["m"]] == [2, 2, 1]
    assert found["mean"].to_numpy() == pytest.approx([0.02, 0.03, 0.01], abs=0.003)
    last = found.iloc[2]
    assert (last["variant"], last["baseline"]) == ("pe_scaled − none_scaled", "pe_raw − none_raw")
    assert last["verdict"] == "helps"
    assert within(group()).empty


def test_the_mean_over_data_sets() -> None:
    tables = [TABLE.replace("0.8", f"0.{digit}") for digit in "678"]
    groups = [replace(group(t), data=f"set{i}") for i, t in enumerate(tables)]
    frames = [differences(one).set_index("variant").loc["pe"] for one in groups]
    found = across(groups).set_index("variant").loc["pe"]
    expected = random_effects([f["mean"] for f in frames], [f["se"] for f in frames])
    assert (found["n"], found["mean"], found["low"], found["next_high"]) == pytest.approx(
        (3, expected.mean, expected.low, expected.next_high)
    )
    with pytest.raises(UserError, match="two data sets"):
        across(groups[:1])
    same = ("set0 #2", "set0 (100 + 200 texts)", "set0 (100 + 200 texts) #2")
    for cut in same:  # it has the texts of the first
        rows = groups[1].endpoints.assign(data=cut)
        with pytest.raises(UserError, match="two data sets"):
            across([groups[0], replace(groups[1], data=cut, endpoints=rows)])
