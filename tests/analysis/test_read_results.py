"""Results of other trainers: files and frames are read alike, and a mistake is one message."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from samples import message_of
from scipy import stats

import attnexp
from attnexp.analysis.answer import compare
from attnexp.analysis.read_results import read_results

FRAME = pd.DataFrame({"variant": [*"aaaabbbb"], "seed": [0, 1, 2, 3] * 2})
FRAME["accuracy"] = 0.8 + 0.02 * (FRAME["variant"] == "b") + 0.001 * FRAME["seed"]
RUNS = FRAME.assign(loss=0.5 - 0.01 * FRAME["seed"])
MIXED = FRAME.assign(accuracy=[*(100 * FRAME["accuracy"][:7]), 0.823])
NAMED = FRAME.astype({"seed": str})


@pytest.mark.parametrize("seed", range(10))
def test_differences_are_those_of_scipy(seed: int) -> None:
    """Paired t intervals and p-values of a random table, by the seeds that two variants share."""
    rng = np.random.default_rng(seed)
    num_variants = rng.integers(2, 5)
    rows = [
        (variant, run, rng.normal(10 + variant, rng.uniform(0.1, 5)))
        for variant in range(num_variants)
        for run in rng.permutation(12)[: rng.integers(8, 13)]
    ]
    frame = pd.DataFrame(rows, columns=["variant", "seed", "score"]).sample(frac=1, random_state=0)
    found = attnexp.judge(frame, metric="score", margin=0.5, baseline="0").set_index("variant")
    wide = frame.pivot(index="seed", columns="variant", values="score")
    for variant in range(1, num_variants):
        pairs = wide[[0, variant]].dropna()
        test = stats.ttest_rel(pairs[variant], pairs[0])
        interval = test.confidence_interval(1 - 0.05 / (num_variants - 1))
        row = found.loc[str(variant)]
        assert [row["low"], row["high"]] == pytest.approx([*interval], rel=1e-9, abs=1e-9)
        assert row["p"] == pytest.approx(min(1, test.pvalue * (num_variants - 1)), rel=1e-6)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("a.csv", lambda f, p: f.to_csv(p, index=False)),
        ("a.parquet", lambda f, p: f.to_parquet(p)),
        ("a.jsonl", lambda f, p: f.to_json(p, orient="records", lines=True)),
        ("index.csv", lambda f, p: f.to_csv(p)),  # with pandas' index as a first column
    ],
)
def test_a_file_is_judged_like_its_frame(
    name: str, write: Callable[[pd.DataFrame, Path], None], tmp_path: Path
) -> None:
    write(RUNS, tmp_path / name)
    pd.testing.assert_frame_equal(attnexp.judge(tmp_path / name), attnexp.judge(RUNS))


def test_several_files_are_one_table_and_blanks_around_names_do_not_count(tmp_path: Path) -> None:
    files: list[Path] = []
    for text in ("base , 1,.8\nbase,2.0,.81\n", "pe, 1 ,.82\n pe,2,.83\n"):
        files.append(tmp_path / f"{len(files)}.csv")
        files[-1].write_text(f"variant, seed,accuracy\n{text}")
    (group,), _ = read_results(files)
    seeds = group.endpoints.groupby("variant")["seed"].agg(list).to_dict()
    assert seeds == {"base": ["1", "2"], "pe": ["1", "2"]}


def test_options_name_the_columns_and_a_column_separates_data_sets() -> None:
    for column in ("dataset", "data", "task"):
        frame = pd.concat([FRAME.assign(**{column: "x"}), FRAME[::-1].assign(**{column: "y"})])
        frame = frame.rename(columns={"variant": "model", "seed": "run", "accuracy": "f1"})
        frame["variant"] = "large"  # A column like any other where an option names another one.
        names: dict[str, Any] = {"variant_column": "model", "seed_column": "run", "metric": "f1"}
        if column == "task":
            assert "differ in: task" in message_of(attnexp.judge, frame, **names)
            names["dataset_column"] = column
        found = attnexp.judge(frame, **names)
        assert [*found["data"]][:2] == ["x", "y"]
        assert {*found["variant"]} == {"b"}
        assert {*found["baseline"]} == {"a"}  # the first variant of all


def test_answers_by_example_make_an_accuracy() -> None:
    rows = [
        {"variant": v, "seed": float(s), "example": e, "correct": str(e < n)}
        for v, n in (("a", 5), ("b", 8)) for s in range(3) for e in range(10)
    ]  # fmt: skip
    frame = pd.DataFrame(rows)
    (group,), metric = read_results(frame)
    assert group.values("result", "accuracy").to_numpy().tolist() == [[0.5, 0.8]] * 3
    assert group.num_texts == {"result": 10}
    assert [*group.values("result", "accuracy").index] == ["0", "1", "2"]  # not 0.0
    assert compare([group], metric).differences[0].texts is not None
    assert "answer the same examples" in message_of(read_results, frame[:-4])
    assert "1 or 0" in message_of(read_results, frame.replace("True", "0.3"))


def test_a_variant_without_a_pair_is_named() -> None:
    third = FRAME[FRAME["variant"] == "a"].assign(variant="c", seed=range(4, 8))
    groups, metric = read_results(pd.concat([FRAME, third]))
    assert groups[0].notes == ["c shares no seed with a, so no difference."]
    assert compare(groups, metric).undecided == ["c − a"]


def test_columns_and_rows_that_are_not_used_are_named() -> None:
    frame = RUNS.assign(lr=0.1, status=["done"] * 7 + ["failed"], width=[*"44448888"])
    frame = pd.concat([frame, FRAME.assign(accuracy=np.nan)])  # as Lightning's csv alternates
    (group,), _ = read_results(frame)
    assert group.notes == [
        "Not used: loss, status. A column dataset separates data sets.",
        "Left out: 8 rows with an empty accuracy.",
    ]
    assert len(group.endpoints) == 8


@pytest.mark.parametrize(
    ("frame", "options", "unit", "margin"),
    [
        (FRAME, {}, "share", 0.0025),
        (FRAME, {"margin": 0.5}, "share", 0.005),
        (FRAME.assign(accuracy=100 * FRAME["accuracy"]), {}, "per cent", 0.25),
        (FRAME.rename(columns={"accuracy": "auc"}), {"metric": "auc"}, "share", 0.0025),
        (RUNS, {"metric": "loss", "margin": 0.01}, "own", 0.01),
        (RUNS.rename(columns={"loss": "err"}), {"metric": "err", "lower": True, "margin": 0.01},
         "own", 0.01),
    ],
)  # fmt: skip
def test_margins_are_in_points_where_a_metric_is_shown_in_percent(
    frame: pd.DataFrame, options: dict[str, Any], unit: str, margin: float
) -> None:
    (group,), metric = read_results(frame, **options)
    units = {"share": metric.is_share, "per cent": metric.is_percent, "own": not metric.in_points}
    assert [name for name, is_unit in units.items() if is_unit] == [unit]
    assert metric.margin == pytest.approx(margin)
    assert metric.higher_is_better == (unit != "own")
    direction = "More of auc is better, unless you add --lower."
    assert (direction in group.notes) == (metric.name == "auc")


@pytest.mark.parametrize(
    ("frame", "options", "words"),
    [
        (FRAME.drop(columns="variant"), {}, ["no column variant", "--variant-column"]),
        (FRAME, {"metric": "acuracy"}, ["no column acuracy", "'accuracy'", "--metric"]),
        (RUNS, {"metric": "loss"}, ["--margin", "difference of loss", "in its unit"]),
        (FRAME, {"margin": 0.005}, ["in points", "half a point is 0.5"]),  # meant as a share?
        (FRAME, {"baseline": "c"}, ["there is no c", "a, b"]),
        (FRAME.assign(seed=range(8)), {}, ["a and another of a, b must share a seed"]),
        (pd.concat([RUNS, RUNS.assign(loss=1)]), {}, ["Row 9", "a, 0", "differ in: loss"]),
        (NAMED.replace({"2": " "}), {}, ["Row 3", "has an empty cell"]),
        (FRAME.assign(accuracy="80 %"), {}, ["Row 1", "80 %", "no number as accuracy"]),
        (FRAME.assign(accuracy="inf"), {}, ["inf", "no number"]),
        (RUNS, {"metric": "loss", "margin": 0}, ["--margin"]),
        (MIXED, {}, ["Row 8", "0.823", "neither per cent, as 82.2 is"]),
        (FRAME[:0], {}, ["no rows with accuracy"]),
        (Path("a.xlsx"), {}, ["a.xlsx is in no known format"]),
    ],
)  # fmt: skip
def test_a_mistake_is_one_message(frame: Any, options: dict[str, Any], words: list[str]) -> None:
    message = message_of(attnexp.judge, frame, **options)
    assert all(word in message for word in words), message
