"""From runs to frames: endpoints, variants and their names, groups, plans, published files."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Capture
from samples import but, result, save_study, stored_study

import attnexp
from attnexp.analysis.answer import compare
from attnexp.analysis.group import Group
from attnexp.analysis.make_groups import make_groups
from attnexp.analysis.metrics import ACCURACY
from attnexp.analysis.read_runs import load_groups
from attnexp.analysis.rows import as_rows
from attnexp.runs import predictions
from attnexp.runs.manifest import Manifest, PlannedRun, record_runs
from attnexp.runs.result import Run


def groups(*runs: Run, study: str = "s", plan: Manifest | None = None) -> list[Group]:
    rows = [as_rows(run, study) for run in runs]
    return make_groups(rows, {study: plan} if plan else {})


def one(*runs: Run, **more: Any) -> Group:
    (group,) = groups(*runs, **more)
    return group


def points(group: Group) -> list[str]:
    return [point.name for point in group.points]


@pytest.mark.parametrize(
    ("seeds", "epoch"),
    [
        ([[0.6, 0.9, 0.7], [0.9, 0.5, 0.7]], 1),
        ([[0.8, 0.8, 0.7]], 1),  # the first of equals
        ([[0.6, 0.7, 0.9], [0.7, 0.8]], 2),  # of those that all seeds have
    ],
)
def test_best_is_the_best_epoch_on_average(seeds: list[list[float]], epoch: int) -> None:
    runs = [result("a", seed, values, "train.epochs=3") for seed, values in enumerate(seeds)]
    group = one(*runs)
    assert points(group) == ["final", "best"]
    assert group.epochs_of("best") == {"a": epoch}
    expected = [values[epoch - 1] for values in seeds]
    assert group.values("best", "accuracy")["a"].tolist() == expected
    assert group.values("final", "accuracy")["a"].tolist() == [values[-1] for values in seeds]


def test_a_best_epoch_that_is_the_last_is_no_endpoint_of_its_own() -> None:
    first = result("a", 0, [0.6, 0.7])
    assert points(one(first, result("b", 0, [0.6, 0.8]))) == ["final"]
    assert points(one(first, result("b", 0, [0.9, 0.8]))) == ["final", "best"]


def test_holdout_is_judged_on_test_at_the_chosen_epoch() -> None:
    run = result("a", 0, [0.6, 0.9, 0.7], "train=holdout")
    group = one(but(run, test=replace(run.result.test, accuracy=0.55)))
    assert (group.protocol, points(group)) == ("holdout", ["chosen", "final"])
    assert group.values("chosen", "accuracy")["a"].to_dict() == {"0": 0.55}
    assert group.values("final", "accuracy")["a"].to_dict() == {"0": 0.7}
    # Accuracy on train after the epoch, 0.9, minus accuracy.
    assert group.values("final", "gap")["a"].to_dict() == pytest.approx({"0": 0.2})


def with_other(word: str) -> Run:
    """A run of a variant `pe`, but of other code or other vectors."""
    run = result("pe", 0, [0.8])
    code = {"a.py": "1"} if word == "code" else {}
    vectors = {"vectors": "0b"} if word == "vectors" else {}
    return but(run, run_id="x-12345678", code=code, data=run.result.data | vectors)


PE = result("pe", 0, [0.8])
OTHER = result("", 0, [0.8], "position=rotary", "model.heads=4")
NAMES: list[tuple[str, list[Run], list[str]]] = [
    ("s", [result("b", 0, [0.8], "model.heads=4"), result("a", 0, [0.8])], ["b", "a"]),
    ("s", [PE, result("pe", 0, [0.8], "model.heads=4")], ["pe model.heads=8", "pe model.heads=4"]),
    ("s", [PE, with_other("code")], ["pe", "pe (run x-12345678)"]),
    ("s", [PE, with_other("vectors")], ["pe", "pe (run x-12345678)"]),
    ("s", [PE, with_other("run")], ["pe", "pe (run x-12345678)"]),  # of unknown vectors
    ("", [result("", 0, [0.8])], ["imdb attention none train.epochs=1"]),
    (
        "",  # without a study, what differs, the plainest first
        [OTHER, result("", 0, [0.8])],
        ["model.heads=8 position=none", "model.heads=4 position=rotary"],
    ),
]


@pytest.mark.parametrize(("study", "runs", "names"), NAMES)
def test_variants_are_told_apart_by_name(study: str, runs: list[Run], names: list[str]) -> None:
    assert one(*runs, study=study).variants == names


def test_a_bare_run_like_those_of_a_study_is_one_of_theirs_wherever_it_stands() -> None:
    named, bare = as_rows(result("no_pe", 0, [0.8]), "s"), as_rows(result("", 1, [0.8]))
    for rows in ([named, bare], [bare, named]):
        (group,) = make_groups(rows, {})
        assert group.values("final", "accuracy")["no_pe"].to_dict() == {"0": 0.8, "1": 0.8}


def test_other_data_and_protocols_are_groups_of_their_own() -> None:
    imdb = result("b", 0, [0.8])
    found = groups(
        result("a", 0, [0.8]),
        result("a", 0, [0.8], "data=contrast"),
        result("a", 0, [0.8], "train=holdout"),
        but(imdb, data={**imdb.result.data, "fingerprint": "x"}),
    )
    places = [f"{group.data} {group.protocol}" for group in found]
    first, other = "imdb (imdb)", "imdb (x)"
    assert places == [f"{first} blog", "contrast blog", f"{first} holdout", f"{other} blog"]


def test_kinds_of_seeds_are_never_pooled_and_each_is_compared_with_its_own() -> None:
    runs = []
    for words in ([], ["seeds.init=3"], ["seeds.init=4"]):
        for label in ("position=none", "position=sinusoidal"):
            runs.append(result(label, len(words), [0.8], label, *words))
    group = one(*runs, study="")
    assert group.values("final", "accuracy").count().to_dict() == {
        "position=none": 1,
        "position=none (seeds.init)": 2,
        "position=sinusoidal": 1,
        "position=sinusoidal (seeds.init)": 2,
    }
    names = [row.contrast.name for row in compare([group], ACCURACY).differences]
    assert names == [
        "position=sinusoidal − position=none",
        "position=sinusoidal (seeds.init) − position=none (seeds.init)",
    ]
    rows = []  # of two studies, which share a run of each variant
    for study, words in (("s", []), ("t", []), ("t", ["seeds.init=3"])):
        for label in "ab":
            rows.append(as_rows(result(label, len(words), [0.8], *words), study))
    both = [PlannedRun(variant=run.label, seed=run.seed, run_id=run.run_id) for run in rows]
    plan = replace(planned("ab"), settings={"a": {}}, runs=both)
    (group,) = make_groups(rows, {"s": plan, "t": replace(plan, seed_kind="seeds.init")})
    names = [contrast.name for family in group.families for contrast in family]
    assert names == ["b − a", "b (seeds.init) − a (seeds.init)"]


def planned(variants: str, seeds: str = "0", run_id: str = "") -> Manifest:
    """The plan of a study, whose variants have names of one letter and seeds of one digit."""
    runs = [PlannedRun(variant=v, seed=seed, run_id=run_id) for v in variants for seed in seeds]
    return Manifest(variants={variant: {} for variant in variants}, runs=runs)


def test_each_study_keeps_its_family() -> None:
    """Its baseline, and the number of its planned variants, be their runs finished or not."""
    plans = {"s": planned("ab"), "t": planned("cde")}
    rows = []
    for study, labels in (("s", "ab"), ("t", "cd")):
        for label in labels:
            run = result(label, 0, [0.8], f"model.heads={1 + ord(label) - ord('a')}")
            rows.append(as_rows(run, study))
    answer = compare(make_groups(rows, plans), ACCURACY)
    judged = [(row.contrast.name, row.m) for row in answer.differences]
    assert judged == [("b − a", 1), ("d − c", 2)]


def test_limits_that_all_variants_share_stand_in_the_name_of_the_data() -> None:
    few = result("a", 0, [0.8], "data.limit_train=100")
    few = but(few, data={**few.result.data, "n_train": 100})
    assert one(few).data == "imdb (100 + 25,000 texts)"
    assert one(few, result("b", 0, [0.8])).data == "imdb"


def test_planned_seeds_that_are_not_there_are_missing() -> None:
    a = [result("a", seed, [0.8]) for seed in (0, 1)]
    group = one(*a, result("b", 1, [0.8], "model.heads=4"), plan=planned("abc", "01"))
    assert group.missing() == {"b": ["0"], "c": ["0", "1"]}


def test_a_run_that_is_planned_on_another_data_set_is_not_missing() -> None:
    runs = [result("a", 0, [0.8]), result("a", 1, [0.8], "data=contrast")]
    plan = planned("a", "012", run_id="x")
    for number, run in enumerate(runs):
        plan.runs[number] = replace(plan.runs[number], run_id=run.result.run_id)
    found = make_groups([as_rows(run, "s") for run in runs], {"s": plan})
    assert [group.missing() for group in found] == [{"a": ["2"]}] * 2


def test_runs_of_a_study_that_adds_seeds_are_sequential(tmp_path: Path) -> None:
    save_study(tmp_path, [result("a", seed, [0.8]) for seed in (0, 1)], "usual")
    runs = [result("b", seed, [0.8], "model.heads=4") for seed in (0, 1)]
    save_study(tmp_path, runs, "until")
    plan = stored_study(tmp_path / "until")
    record_runs(tmp_path / "until", replace(plan, sequential=True))
    bare = {"model.heads=4"}  # without a study, variants are named by their settings
    for folder, found in (("usual", set()), ("until", {"b"}), ("runs", bare), (".", bare)):
        assert [group.sequential for group in load_groups([tmp_path / folder])] == [found]


def test_a_folder_of_runs_names_every_setting_that_differs(tmp_path: Path) -> None:
    save_study(tmp_path, [result("pe", 0, [0.8], "position=rotary")], "short")
    save_study(tmp_path, [result("pe", 0, [0.8, 0.8])], "long")
    (group,) = load_groups([tmp_path / "runs"])
    names = ["position=none train.epochs=2", "position=rotary train.epochs=1"]
    assert sorted(group.variants) == names


DAMAGED: list[tuple[str, bytes]] = [
    ("result.json", b""),
    ("result.json", b"null"),
    ("result.json", b"[" * 9999),
    ("result.json", b'{"schema": 5, "config": {}}'),
    (predictions.FILE, b""),
    (predictions.FILE, b"half"),
]


@pytest.mark.parametrize(("name", "content"), DAMAGED)
def test_a_damaged_run_is_left_out(
    tmp_path: Path, capsys: Capture, name: str, content: bytes
) -> None:
    save_study(tmp_path, [result("a", seed, [0.8]) for seed in (0, 1)])
    (tmp_path / "runs/bloga1-0" / name).write_bytes(content)
    assert {*attnexp.results(tmp_path / "blog")[0]["seed"]} == {0}
    (message,) = capsys.readouterr().err.splitlines()
    assert re.match(r"left out: .*/bloga1-0", message)


@pytest.mark.parametrize("num_right", [19_999, 20_000])
def test_answers_of_another_accuracy_are_not_used(num_right: int) -> None:
    bits = np.packbits(np.arange(25_000) < num_right).tobytes()
    run = as_rows(result("a", 0, [0.8]))
    run.epochs["correct"] = [bits]
    (group,) = make_groups([run], {})
    assert [*map(np.sum, group.right.values())] == ([num_right] if num_right == 20_000 else [])
