"""Results of other trainers: files and frames are read alike, and a mistake is one message."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from samples import message_of
from scipy import stats

import attnexp
from attnexp.analysis.answer import compare
from attnexp.analysis.metrics import ACCURACY
from attnexp.analysis.read_results import read_results
from attnexp.statistics.verdict import MetricSpec

RUNS = pd.DataFrame({"variant": [*"aaaabbbb"], "seed": [*range(4)] * 2})
RUNS["accuracy"] = [0.8, 0.801, 0.802, 0.803, 0.82, 0.821, 0.822, 0.823]
RUNS["loss"] = [0.5, 0.49, 0.48, 0.47] * 2
RUNS["auc"] = RUNS["accuracy"]
FRAME = RUNS[["variant", "seed", "accuracy"]]
PER_CENT = FRAME.assign(accuracy=82.2)
MIXED = PER_CENT.assign(accuracy=[82.2] * 7 + [0.823])


@pytest.mark.parametrize("seed", range(10))
def test_differences_are_those_of_scipy_in_any_unit_by_shared_seeds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    unit = 10.0 ** rng.integers(-12, 12)
    frame = pd.DataFrame({"variant": [*"abc"] * 12, "seed": np.repeat(range(12), 3)})
    frame["score"] = unit * rng.normal(10, [0.1, 1, 5] * 12)
    frame = frame.sample(frac=0.8, random_state=seed)
    wide = frame.pivot(index="seed", columns="variant", values="score")
    found = attnexp.judge(frame, metric="score", margin=unit, lower=True, baseline="a")
    for row in found.itertuples():
        test = stats.ttest_rel(wide[row.variant], wide["a"], nan_policy="omit")
        interval = test.confidence_interval(1 - 0.05 / 2)
        assert (row.low, row.high) == pytest.approx(interval, rel=1e-9, abs=1e-9 * unit)
        assert row.p == pytest.approx(min(1, 2 * test.pvalue), rel=1e-6)
    assert len(found) == 2


def test_files_are_judged_like_their_frame(tmp_path: Path) -> None:
    RUNS.to_csv(tmp_path / "a.csv")  # with pandas' index as a first column
    RUNS.to_parquet(tmp_path / "a.parquet")
    RUNS.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    blanks = RUNS.to_csv(index=False).replace(",", " , ").splitlines(keepends=True)
    (tmp_path / "half.csv").write_text("".join(blanks[:5]))
    (tmp_path / "other_half.csv").write_text("".join(blanks[:1] + blanks[5:]))
    expected = attnexp.judge(RUNS)
    for names in ("a.csv", "a.parquet", "a.jsonl", "half.csv other_half.csv"):
        paths = [tmp_path / name for name in names.split()]
        pd.testing.assert_frame_equal(attnexp.judge(paths), expected)
        (group,), _ = read_results(paths)
        assert group.notes == ["Not used: loss, auc. A column dataset separates data sets."]


@pytest.mark.parametrize("column", ["dataset", "data", "task"])
def test_options_name_the_columns_and_a_column_separates_data_sets(column: str) -> None:
    frame = pd.concat([FRAME, FRAME[::-1]])
    frame.columns = pd.Index(["model", "run", "f1"])
    frame[column] = [*"xxxxxxxxyyyyyyyy"]
    frame["variant"] = "large"  # A column like any other where an option names another one.
    other = "dataset" if column == "data" else column
    found = attnexp.judge(
        frame, metric="f1", variant_column="model", seed_column="run", dataset_column=other
    )
    assert [*found["data"]] == ["x", "y", "mean over 2"]
    assert {*zip(found["variant"], found["baseline"], strict=True)} == {("b", "a")}  # a is first


def test_answers_by_example_make_an_accuracy() -> None:
    examples = pd.Series(range(10), name="example")
    frame = FRAME.drop(columns="accuracy").merge(examples, how="cross")
    frame["seed"] = frame["seed"].astype(float)
    frame["correct"] = frame.eval("example < 5 or variant == 'b' and example < 8")
    more = frame[:2].assign(correct=None)
    (group,), metric = read_results(pd.concat([frame.astype(object), more]))
    assert group.notes == ["Left out: 2 rows with an empty correct."]
    values = group.values("result", "accuracy")
    assert [*values.index] == ["0", "1", "2", "3"]  # not 0.0
    assert [{*values[variant]} for variant in "ab"] == [{0.5}, {0.8}]
    assert group.num_texts == {("a", "result"): 10, ("b", "result"): 10}
    assert compare([group], metric).differences[0].texts is not None
    assert "answer the same examples" in message_of(read_results, frame[:-4])
    assert "1 or 0" in message_of(read_results, frame.assign(correct=0.3))
    named = FRAME.assign(seed=["v1", "v1.0", "2.0", "3"] * 2)
    (group,), _ = read_results(named)
    assert [*group.values("result", "accuracy").index] == ["2", "3", "v1", "v1.0"]


def test_what_is_not_used_or_has_no_pair_is_named() -> None:
    frame = FRAME.assign(lr=0.1, status=[*"yyyyyyyn"], width=[*"44448888"])
    empty = FRAME.assign(accuracy=np.nan)  # as Lightning's csv alternates
    groups, metric = read_results(pd.concat([frame, empty, FRAME[:1].assign(variant="c", seed=4)]))
    assert groups[0].notes == [
        "c shares no seed with a, so no difference.",
        "Not used: status. A column dataset separates data sets.",
        "Left out: 8 rows with an empty accuracy.",
    ]
    assert compare(groups, metric).undecided == ["c − a"]


LOSS = {"metric": "loss", "margin": 0.01}
MORE_IS_BETTER = "More of auc is better, unless you add --lower."
LESS = MetricSpec(name="loss", is_share=False, higher_is_better=False, margin=0.01)


@pytest.mark.parametrize(
    ("frame", "options", "expected"),
    [
        (FRAME, {}, ACCURACY),
        (FRAME, {"margin": 0.5}, replace(ACCURACY, margin=0.005)),
        (PER_CENT, {}, ACCURACY),
        (RUNS, {"metric": "auc"}, MetricSpec(name="auc", margin=0.0025)),
        (RUNS, LOSS, LESS),
        (RUNS, LOSS | {"metric": "auc", "lower": True}, replace(LESS, name="auc")),
    ],
)
def test_margins_are_in_points_where_a_metric_is_shown_in_percent(
    frame: pd.DataFrame, options: dict[str, Any], expected: MetricSpec
) -> None:
    (group,), metric = read_results(frame, **options)
    assert metric == expected
    assert (MORE_IS_BETTER in group.notes) is (options == {"metric": "auc"})


@pytest.mark.parametrize(
    ("frame", "options", "words"),
    [
        ([], {}, "no file of results"),
        (RUNS.rename(columns={"auc": 3, "accuracy": 4}), {}, "no column accuracy.*3"),
        (FRAME.drop(columns="variant"), {}, "no column variant.*--variant-column"),
        (FRAME, {"metric": "acuracy"}, "no column acuracy.*'accuracy'.*--metric"),
        (RUNS, {"metric": "loss"}, "--margin.*difference of loss.*in its unit"),
        (RUNS, LOSS | {"margin": 0}, "--margin.*above 0"),
        (FRAME, {"margin": 0.005}, "in points .half.* and above 0.05"),  # meant as a share?
        (FRAME, {"baseline": "c"}, "there is no c.*a, b"),
        (FRAME.assign(seed=range(8)), {}, "a must share a seed with another of a, b"),
        (pd.concat([RUNS, RUNS.assign(loss=1)]), {}, "Row 9 .*a, 0.*differ in: loss"),
        (pd.concat([FRAME, FRAME[:1]]), {}, r"Row 9 .*a, 0, 0.8\) repeats a run\.$"),
        (FRAME.replace({"seed": {2: None}}), {}, "Row 3 .*has an empty cell"),
        (FRAME.assign(accuracy="80 %"), {}, "Row 1 .*80 %.*no number as accuracy"),
        (FRAME.assign(accuracy="inf"), {}, "inf.*no number"),
        (MIXED, {}, "Row 8 .*0.823.*is a share, where others are per cent"),
        (FRAME.replace({"accuracy": {0.802: -0.5}}), {}, "Row 3 .*-0.5.*neither a share nor per"),
        (FRAME[:0], {}, "no rows with accuracy"),
        (Path("a.xlsx"), {}, "a.xlsx is in no known format"),
    ],
)
def test_a_mistake_is_one_message(frame: Any, options: dict[str, Any], words: str) -> None:
    assert re.search(words, message_of(attnexp.judge, frame, **options))
