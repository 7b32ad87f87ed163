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
from attnexp.analysis.group import Group
from attnexp.analysis.make_groups import make_groups
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
    rows = group.endpoints
    assert {*rows.loc[rows["point"] == "best", "epoch"]} == {epoch}
    best = group.values("best", "accuracy")["a"]
    final = group.values("final", "accuracy")["a"]
    for values, at_best, at_end in zip(seeds, best, final, strict=True):
        assert (at_best, at_end) == (values[epoch - 1], values[-1])


def test_a_best_epoch_that_is_the_last_is_no_endpoint_of_its_own() -> None:
    first = result("a", 0, [0.6, 0.7])
    assert points(one(first, result("b", 0, [0.6, 0.8]))) == ["final"]
    assert points(one(first, result("b", 0, [0.9, 0.8]))) == ["final", "best"]


def test_holdout_is_judged_on_test_at_the_chosen_epoch() -> None:
    run = result("a", 0, [0.6, 0.9, 0.7], "train=holdout")
    group = one(but(run, test=replace(run.result.test, accuracy=0.55)))
    assert (group.protocol, points(group)) == ("holdout", ["chosen", "final"])
    rows = group.endpoints.set_index(["point", "metric"])["value"]
    assert rows["chosen", "accuracy"] == 0.55
    assert rows["final", "accuracy"] == 0.7
    # Accuracy on train after the epoch, 0.9, minus accuracy.
    assert rows["final", "gap"] == pytest.approx(0.2)


DEFAULT = result("", 0, [0.8])
PE = result("pe", 0, [0.8])
AGAIN = but(PE, run_id="x-12345678")
HEADS = result("pe", 0, [0.8], "model.heads=4")
ROTARY = result("", 0, [0.8], "position=rotary", "model.heads=4")
NAMES: list[tuple[str, list[Run], list[str]]] = [
    ("s", [result("b", 0, [0.8], "model.heads=4"), PE], ["b", "pe"]),
    ("s", [PE, HEADS], ["pe model.heads=8", "pe model.heads=4"]),
    ("s", [PE, but(AGAIN, code={"a.py": "1"})], ["pe", "pe (run x-12345678)"]),
    ("s", [PE, but(AGAIN, data=PE.result.data | {"vectors": "0b"})], ["pe", "pe (run x-12345678)"]),
    ("s", [PE, AGAIN], ["pe", "pe (run x-12345678)"]),  # of unknown vectors
    ("", [DEFAULT], ["imdb attention none train.epochs=1"]),
    # without a study, what differs, the plainest first
    ("", [ROTARY, DEFAULT], ["model.heads=8 position=none", "model.heads=4 position=rotary"]),
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
    first = result("a", 0, [0.8])
    others = [result("a", 0, [0.8], word) for word in ("data=contrast", "train=holdout")]
    edited = but(result("b", 0, [0.8]), data=first.result.data | {"fingerprint": "x"})
    found = groups(first, *others, edited)
    assert [(group.data, group.protocol) for group in found] == [
        ("imdb (imdb)", "blog"),
        ("contrast", "blog"),
        ("imdb (imdb)", "holdout"),
        ("imdb (x)", "blog"),
    ]


def test_kinds_of_seeds_are_never_pooled_and_each_is_compared_with_its_own() -> None:
    runs = []
    for label in ("position=none", "position=rotary"):
        runs.append(result(label, 0, [0.8], label))
        runs.append(result(label, 1, [0.8], label, "seeds.init=3"))
        runs.append(result(label, 1, [0.8], label, "seeds.init=4"))
    group = one(*runs, study="")
    assert group.values("final", "accuracy").count().tolist() == [1, 2, 1, 2]
    names = [contrast.name for family in group.families for contrast in family]
    assert names == [
        "position=rotary − position=none",
        "position=rotary (seeds.init) − position=none (seeds.init)",
    ]


def test_a_run_that_studies_of_two_kinds_of_seeds_share_counts_in_the_first() -> None:
    rows = []
    for label in "ab":
        usual = result(label, 0, [0.8])
        rows += [as_rows(usual, "s"), as_rows(usual, "t")]
        rows.append(as_rows(result(label, 1, [0.8], "seeds.init=3"), "t"))
    runs = [PlannedRun(variant=run.label, seed=run.seed, run_id=run.run_id) for run in rows]
    usual_plan = replace(planned("ab"), settings={"a": {}}, runs=runs)
    plans = {"s": usual_plan, "t": replace(usual_plan, seed_kind="seeds.init")}
    (group,) = make_groups(rows, plans)
    names = [contrast.name for family in group.families for contrast in family]
    assert names == ["b − a", "b (seeds.init) − a (seeds.init)"]


def planned(variants: str, seeds: str = "0") -> Manifest:
    """The plan of a study, whose variants have names of one letter and seeds of one digit."""
    runs = [PlannedRun(variant=v, seed=seed, run_id="") for v in variants for seed in seeds]
    return Manifest(variants={variant: {} for variant in variants}, runs=runs)


def test_each_study_keeps_its_family() -> None:
    """Its baseline, and the number of its planned variants, be their runs finished or not."""
    rows = []
    for study, label, heads in (("s", "a", 1), ("s", "b", 2), ("t", "c", 4), ("t", "d", 8)):
        rows.append(as_rows(result(label, 0, [0.8], f"model.heads={heads}"), study))
    (group,) = make_groups(rows, {"s": planned("ab"), "t": planned("cde")})
    names = [[contrast.name for contrast in family] for family in group.families]
    assert names == [["b − a"], ["d − c", "e − c"]]


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
    rows = [as_rows(run, "s") for run in runs]
    ids = [run.run_id for run in rows] + ["not started"]
    plan = planned("a", "012")
    plan.runs[:] = [replace(run, run_id=run_id) for run, run_id in zip(plan.runs, ids, strict=True)]
    found = make_groups(rows, {"s": plan})
    assert [group.missing() for group in found] == [{"a": ["2"]}] * 2


def test_runs_of_a_study_that_adds_seeds_are_sequential(tmp_path: Path) -> None:
    save_study(tmp_path, [result("a", 0, [0.8])], "usual")
    save_study(tmp_path, [result("b", 0, [0.8], "model.heads=4")], "until")
    plan = stored_study(tmp_path / "until")
    record_runs(tmp_path / "until", replace(plan, sequential=True))
    bare = {"model.heads=4"}  # without a study, variants are named by their settings
    for folder, found in (("usual", set()), ("until", {"b"}), ("runs", bare), (".", bare)):
        (group,) = load_groups([tmp_path / folder])
        assert group.sequential == found


DAMAGED: list[tuple[str, bytes]] = [
    ("result.json", b""),
    ("result.json", b"[" * 9999),
    ("result.json", b'{"schema": 5, "config": {}}'),
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


@pytest.mark.parametrize(("num_right", "is_used"), [(19_999, False), (20_000, True)])
def test_answers_of_another_accuracy_are_not_used(num_right: int, is_used: bool) -> None:
    run = as_rows(result("a", 0, [0.8]))
    right = np.arange(25_000) < num_right
    run.epochs["correct"] = [np.packbits(right).tobytes()]
    (group,) = make_groups([run], {})
    assert [bits.sum() for bits in group.right.values()] == ([num_right] if is_used else [])
