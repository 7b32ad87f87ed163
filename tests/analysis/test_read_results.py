"""Results of other trainers: every kind of file is read alike, and every mistake is one message."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from samples import message_of

import attnexp
from attnexp.analysis.answer import compare
from attnexp.analysis.read_results import read_results
from attnexp.base.errors import UserError

FRAME = pd.DataFrame({"variant": [*"aaaabbbb"], "seed": [0, 1, 2, 3] * 2})
FRAME["accuracy"] = 0.8 + 0.02 * (FRAME["variant"] == "b") + 0.001 * FRAME["seed"]
FRAME["loss"] = 0.5 - 0.01 * FRAME["seed"]
MIXED = FRAME.assign(accuracy=[*(100 * FRAME["accuracy"][:7]), 0.823])


def judged(frame: pd.DataFrame, **more: Any) -> list[str]:
    found = attnexp.judge(frame, **more)
    return [f"{row.variant} {row.metric} {row.verdict}" for row in found.itertuples()]


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("a.csv", lambda f, p: f.to_csv(p, index=False)),
        ("a.parquet", lambda f, p: f.to_parquet(p)),
        ("index.csv", lambda f, p: f.to_csv(p)),  # with pandas' index as a first column
    ],
)
def test_a_file_is_judged_like_its_frame(
    name: str, write: Callable[[pd.DataFrame, Path], None], tmp_path: Path
) -> None:
    write(FRAME, tmp_path / name)
    frames = [
        attnexp.judge(tmp_path / name, columns=["accuracy"]),
        attnexp.judge(FRAME, columns=["accuracy"]),
    ]
    pd.testing.assert_frame_equal(*(frame.drop(columns="data") for frame in frames))
    assert judged(FRAME) == ["b accuracy helps on these texts"]


def test_columns_may_have_other_names_and_a_column_names_data_sets() -> None:
    frame = FRAME.rename(columns={"variant": "model", "seed": "run"})
    frame = pd.concat([frame.assign(dataset=name) for name in ("x", "y")])
    frame["variant"] = "large"  # a column like any other, where --variant-column names another
    found = attnexp.judge(frame, variant_column="model", seed_column="run", columns=["accuracy"])
    assert [*found["data"]] == ["x", "y"]
    assert {*found["variant"]} == {"b"}


def test_answers_by_example_make_an_accuracy() -> None:
    rows = [
        {"variant": v, "seed": float(s), "example": e, "correct": str(e < n)}
        for v, n in (("a", 5), ("b", 8)) for s in range(3) for e in range(10)
    ]  # fmt: skip
    (group,), _ = read_results(pd.DataFrame(rows))
    assert group.values("result", "accuracy").to_numpy().tolist() == [[0.5, 0.8]] * 3
    assert group.num_texts == {"result": 10}
    assert [*group.values("result", "accuracy").index] == ["0", "1", "2"]  # not 0.0
    frame = pd.DataFrame(rows).assign(loss=0.5)
    (group,), _ = read_results(frame, lower=["loss"], margins=["loss=1"])
    assert {*group.endpoints["metric"]} == {"accuracy", "loss"}
    assert group.notes == ["The margin of loss is above all its values. Is it in their unit?"]
    rows[0]["correct"] = "0.3"
    with pytest.raises(UserError, match=r"a, seed 0 on .*'0\.3', which is neither 1 nor 0"):
        read_results(pd.DataFrame(rows))


def test_a_pair_has_answered_the_same_examples_and_seeds_need_not() -> None:
    rows = [(v, s, f"{s} {e}", e < 5) for v in "ab" for s in range(3) for e in range(10)]
    frame = pd.DataFrame(rows, columns=["variant", "seed", "example", "correct"])
    groups, metrics = read_results(frame)
    assert groups[0].notes[0].startswith("Seeds answered different examples, so no interval")
    assert compare(groups, metrics).differences[0].texts is None
    with pytest.raises(UserError, match=r"b, seed 2 lacks 4 of the 10 examples.* such as 2 6\."):
        read_results(frame[:-4])


def test_variants_without_a_common_seed_are_named() -> None:
    apart = FRAME.assign(seed=FRAME["seed"] + 4 * (FRAME["variant"] == "b"))
    with pytest.raises(UserError, match=r"a: 0, 1, 2, 3; b: 4, 5, 6, 7"):
        read_results(apart)
    third = FRAME[FRAME["variant"] == "a"].assign(variant="c")
    groups, metrics = read_results(pd.concat([apart, third]))
    assert groups[0].notes == ["b has no seed in common with a, so no difference."]
    assert compare(groups, metrics).undecided[0] == "b − a"


@pytest.mark.parametrize("name", ["acc", "val_acc", "Test acc. (%)", "metrics.eval/accuracy"])
def test_a_column_called_accuracy_is_judged(name: str) -> None:
    (group,), _ = read_results(FRAME.rename(columns={"accuracy": name}))
    assert {*group.endpoints["metric"]} == {name}


@pytest.mark.parametrize("name", ["inaccuracy", "acc_err", "1-accuracy", "acc_steps", "acc ±"])
def test_no_other_column_is_judged_unasked(name: str) -> None:
    frame = FRAME.assign(**{name: "no number"})
    assert {*read_results(frame)[0][0].endpoints["metric"]} == {"accuracy"}
    with pytest.raises(UserError, match=f"No column is called accuracy or acc.*{name}"):
        read_results(frame.drop(columns="accuracy"))
    frame[name] = frame["loss"]
    assert f"direction of {name} is" in message_of(read_results, frame, [name])  # nor by guess


def test_seeds_and_variants_that_look_the_same_are_one(tmp_path: Path) -> None:
    files: list[Path] = []
    large = str(2**63 + 1)  # no float holds it
    for rows in (f"é\u2002a ,1.0,.8\ne\u0301 \u200ba,0{large},.81\n", f"b, 1,.82\nb,{large},.83\n",
                 "c,1,.8\nc,02x,.8\nC,1,.8\n"):  # fmt: skip
        files.append(tmp_path / f"{len(files)}.csv")
        files[-1].write_text(f"variant,seed,accuracy\n{rows}")
    (group,), _ = read_results(files)
    seeds = group.endpoints.groupby("variant")["seed"].agg(list).to_dict()
    assert seeds == {"é a": ["1", large], "b": ["1", large], "c": ["1", "02x"], "C": ["1"]}
    assert group.notes[0] == "Is it one variant? 'c', 'C' count as several."


def test_rows_with_an_empty_cell_are_left_out_with_a_note() -> None:
    frame = pd.concat([FRAME, FRAME.assign(accuracy=float("nan"))])  # as Lightning's csv alternates
    (group,), _ = read_results(frame, ["accuracy"])
    runs = "a seed 0, a seed 1, a seed 2, a seed 3, b seed 0, ..."
    assert group.notes == [f"Left out: 8 rows with an empty cell in accuracy ({runs})."]
    assert len(group.endpoints) == 8
    frame["loss"] = frame["accuracy"].isna().astype(float).replace(0, float("nan"))
    with pytest.raises(UserError, match="Every row has an empty cell in accuracy, loss"):
        read_results(frame, lower=["loss"])


def test_the_unit_is_that_of_the_file() -> None:
    _, (metric,) = read_results(FRAME.assign(accuracy=100 * FRAME["accuracy"]))
    assert (metric.is_percent, metric.is_share, metric.margin) == (True, False, 0.25)
    _, (metric,) = read_results(FRAME, margins=["0.5"])
    assert (metric.is_share, metric.margin) == (True, 0.005)


@pytest.mark.parametrize("whole", [1, 100])
def test_an_accuracy_is_a_number_of_texts(whole: int) -> None:
    frame = FRAME.assign(accuracy=0.8 * whole)
    groups, metrics = read_results(frame)
    assert groups[0].step("result", metrics[0]) == pytest.approx(0.2 * whole)
    assert "number of test examples is not known" in groups[0].notes[0]
    counts = [240, 242, 243, 245, 241, 243, 244, 246]
    for decimals in (4, 7, 15):
        frame["accuracy"] = [round(whole * count / 300, decimals) for count in counts]
        groups, metrics = read_results(frame)
        assert groups[0].step("result", metrics[0]) == pytest.approx(whole / 300, rel=0.05)
        assert groups[0].notes == []


def test_names_of_columns_may_differ_in_case_alone() -> None:
    assert judged(FRAME.rename(columns=str.title)) == ["b Accuracy helps on these texts"]
    both = FRAME.assign(SEED=0, Loss=0.5).rename(columns={"loss": "LOSS"})
    with pytest.raises(UserError, match="no column loss"):
        read_results(both, lower=["loss"])


def test_what_a_message_suggests_works_when_it_is_typed() -> None:
    for name in ("f1", "val_loss", "energy"):
        frame = FRAME[["variant", "seed"]].assign(**{name: FRAME["accuracy"]})
        *directions, margin = re.findall(rf"--\w+ \S*{name}\S*", message_of(read_results, frame))
        assert len(directions) == 1 + (name == "energy")
        for option, _ in map(str.split, directions):
            words: dict[str, Any] = {option.strip("-"): [name], "margins": [margin.split()[1]]}
            _, (metric,) = read_results(frame, **words)
            assert name == "energy" or metric.higher_is_better == (name == "f1")


def test_a_wide_table_is_told_how_to_become_long(tmp_path: Path) -> None:
    long = FRAME[["variant", "seed", "accuracy"]]
    wide = long.pivot(index="seed", columns="variant", values="accuracy").reset_index()
    for frame in (wide, wide[["a", "b"]]):
        frame.to_csv(tmp_path / "wide.csv", index=False)
        message = message_of(read_results, [tmp_path / "wide.csv"])
        assert "If a, b hold accuracies" in message
        command = message.partition("long: ")[2]
        made = eval(command, {"pandas": pd, "FILE": tmp_path / "wide.csv"})
        assert judged(made) == judged(long)


def test_a_csv_called_tsv_is_named(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "a.tsv", index=False)
    with pytest.raises(UserError, match=r"a\.tsv is separated by commas"):
        read_results([tmp_path / "a.tsv"])


def test_the_first_variant_of_all_is_the_baseline_of_every_data_set() -> None:
    frame = pd.concat([FRAME.assign(dataset="x"), FRAME[::-1].assign(dataset="y")])
    assert {*attnexp.judge(frame, columns=["accuracy"])["baseline"]} == {"a"}
    assert len(attnexp.judge(FRAME.assign(value=1), columns=["accuracy"])) == 1  # any name will do


@pytest.mark.parametrize(
    ("frame", "options", "words"),
    [
        (FRAME.drop(columns="variant"), {}, ["no column variant", "--variant-column"]),
        (FRAME, {"columns": ["acuracy"]}, ["no column acuracy", "'accuracy'", "--columns"]),
        (FRAME, {"columns": ["loss"]}, ["direction of loss", "--lower loss --margin loss=0.01"]),
        (FRAME, {"lower": ["loss"]}, ["smallest difference", "--lower loss --margin loss=0.01"]),
        (FRAME, {"lower": ["loss"], "higher": ["loss"], "margin": ["loss=1"]}, ["direction of"]),
        (FRAME, {"margin": ["accuracy=-1"]}, ["above 0"]),
        (FRAME, {"margin": ["accuracy=inf"]}, ["above 0"]),
        (FRAME, {"margin": ["0.005"]}, ["0.005 points? ", "--margin accuracy=0.5"]),  # a share?
        (FRAME.assign(accuracy=80 + FRAME["loss"]), {"margin": ["0.005"]}, ["0.005 points? "]),
        (FRAME[FRAME["variant"] == "a"], {}, ["a has nothing to be compared with"]),
        (FRAME, {"baseline": "c"}, ["c has nothing to be compared with", "a, b"]),
        (pd.concat([FRAME, FRAME[:1]]), {}, ["a, seed 0", "more than one result"]),
        (FRAME.assign(variant=None), {}, ["row 1", "has no variant"]),
        (FRAME.astype({"seed": str}).replace({"2": "nan"}), {}, ["row 3", "has no seed"]),
        (FRAME.astype({"seed": str}).replace({"3": "Mean"}), {}, ["row 4", "seed Mean on"]),
        (FRAME.astype({"accuracy": object}).replace({0.8: "n/a"}), {"columns": ["accuracy"]},
         ["row 1 (a, seed 0", "accuracy holds 'n/a', which is no finite", "Leave the cell empty"]),
        (MIXED, {}, ["accuracy", "0.823", "per cent"]),
        (FRAME[["variant", "seed"]], {}, ["No column is called accuracy", "no others"]),
        (FRAME[:0], {"columns": ["accuracy"]}, ["no rows"]),
        (FRAME.assign(accuracy="80 %"), {"columns": ["accuracy"]}, ["80 %", "Write 80."]),
        (FRAME.assign(accuracy="0,8038"), {"columns": ["accuracy"]}, ["Write 0.8038."]),
        (FRAME.replace({0.8: -1}), {}, ["row 1 (a, seed 0", "accuracy is -1", "neither a share"]),
        (FRAME.assign(accuracy=101), {}, ["accuracy is 101: neither a share nor per cent"]),
        (FRAME.replace({0.5: 1e200}), {"lower": ["loss"], "margin": ["loss=1"]}, ["below 1e+150"]),
        (FRAME.assign(f1=FRAME["seed"].where(FRAME["variant"] == "b")), {"columns": ["f1"]},
         ["a has nothing to be compared with", "without an empty cell there is b"]),
    ],
)  # fmt: skip
def test_a_mistake_is_told(frame: pd.DataFrame, options: dict[str, Any], words: list[str]) -> None:
    message = message_of(attnexp.judge, frame, **options)
    assert all(word in message for word in words), message
