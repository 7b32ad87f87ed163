"""From runs to frames: endpoints, variants and their names, groups, plans, published files."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Capture
from samples import PLAN, but, result, save_study, stored_study

from attnexp.analysis.group import Group
from attnexp.analysis.make_groups import make_groups
from attnexp.analysis.read_runs import load_groups
from attnexp.analysis.rows import as_rows
from attnexp.runs import predictions
from attnexp.runs.manifest import FINGERPRINT, Manifest, PlannedRun, record_runs
from attnexp.runs.result import Run


def run(label: str, *words: str, seed: int = 0) -> Run:
    return result(label, seed, [0.8], *words)


def groups(*runs: Run, study: str = "s", plan: Manifest | None = None) -> list[Group]:
    return make_groups([as_rows(run, study, plan) for run in runs])


def one(*runs: Run, **more: Any) -> Group:
    (group,) = groups(*runs, **more)
    return group


def families(group: Group) -> list[list[str]]:
    return [[contrast.name for contrast in family] for family in group.families]


def planned(ids: str, **more: Any) -> Manifest:
    """The plan of these runs, whose ids begin with the variant, of one letter, and the seed."""
    runs = [PlannedRun(variant=run_id[0], seed=run_id[1], run_id=run_id) for run_id in ids.split()]
    more.setdefault("settings", {run.variant: {"imdb": PLAN} for run in runs})
    return Manifest(variants={run.variant: {} for run in runs}, commands=["x"], runs=runs, **more)


@pytest.mark.parametrize(
    ("seeds", "epoch", "best"),
    [
        ([[0.6, 0.9, 0.7], [0.9, 0.5, 0.7]], 1, [0.6, 0.9]),
        ([[0.8, 0.8, 0.7]], 1, [0.8]),  # the first of equals
        ([[0.6, 0.7, 0.9], [0.7, 0.8]], 2, [0.7, 0.8]),  # of those that all seeds have
    ],
)
def test_best_is_the_best_epoch_on_average(
    seeds: list[list[float]], epoch: int, best: list[float]
) -> None:
    runs = [result("a", seed, values, "train.epochs=3") for seed, values in enumerate(seeds)]
    group = one(*runs)
    assert {*group.at_endpoints.query("point == 'best'")["epoch"]} == {epoch}
    assert [*group.values("best", "accuracy")["a"]] == best
    assert [*group.values("final", "accuracy")["a"]] == [values[-1] for values in seeds]


def test_holdout_is_judged_on_test_at_the_chosen_epoch() -> None:
    run = result("a", 0, [0.6, 0.9, 0.7], "train=holdout")
    group = one(but(run, test=replace(run.result.test, accuracy=0.55)))
    assert group.protocol == "holdout"
    assert [point.name for point in group.endpoints] == ["chosen", "final"]
    rows = group.at_endpoints.set_index(["point", "metric"])["value"]
    assert (rows["chosen", "accuracy"], rows["final", "accuracy"]) == (0.55, 0.7)
    assert rows["final", "gap"] == pytest.approx(0.9 - 0.7)  # on train after the epoch


def test_validation_texts_are_counted_by_variant() -> None:
    few = run("b", "train=holdout", "train.holdout=0.1")
    group = one(run("a", "train=holdout"), but(few, data=few.result.data | {"n_val": 50}))
    assert [group.num_texts[variant, "final"] for variant in "ab"] == [25_000, 50]


DEFAULT = run("")
PE = run("pe")
OTHER = but(run("pe", seed=1), run_id="x-12345678")
CODE = but(OTHER, code={"a.py": "1"})
VECTORS = but(OTHER, data=PE.result.data | {"vectors": "0b"})
ROTARY = run("", "position=rotary", "model.heads=4")


@pytest.mark.parametrize(
    ("study", "runs", "names"),
    [
        ("s", [run("b", "model.heads=4"), PE], ["b", "pe"]),
        ("s", [PE, run("pe", "model.heads=4")], ["pe model.heads=8", "pe model.heads=4"]),
        ("s", [PE, CODE], ["pe", "pe (run x-12345678)"]),
        ("s", [PE, VECTORS], ["pe", "pe (run x-12345678)"]),
        ("s", [PE, but(PE, run_id="x-12345678")], ["pe", "pe (run x-12345678)"]),
        ("", [DEFAULT], ["imdb attention none train.epochs=1"]),
        # without a study, what differs, the plainest first
        ("", [ROTARY, DEFAULT], ["model.heads=8 position=none", "model.heads=4 position=rotary"]),
    ],
)
def test_variants_are_told_apart_by_name(study: str, runs: list[Run], names: list[str]) -> None:
    assert one(*runs, study=study).variants == names


def test_a_bare_run_like_those_of_a_study_is_one_of_theirs_wherever_it_stands() -> None:
    named = as_rows(run("no_pe"), "s")
    bare = as_rows(run("", seed=1))
    for rows in ([named, bare], [bare, named]):
        (group,) = make_groups(rows)
        assert group.variants == ["no_pe"]
        assert [*group.values("final", "accuracy").index] == ["0", "1"]


def test_other_data_and_protocols_are_groups_of_their_own() -> None:
    first = run("a")
    edited = but(run("b"), data=first.result.data | {"fingerprint": "x"})
    found = groups(first, run("a", "data=contrast"), run("a", "train=holdout"), edited)
    names = [f"{group.data} {group.protocol}" for group in found]
    assert names == ["imdb (imdb) blog", "contrast blog", "imdb (imdb) holdout", "imdb (x) blog"]


def test_kinds_of_seeds_are_never_pooled_and_each_is_compared_with_its_own() -> None:
    runs = []
    for position in ("position=none", "position=rotary"):
        runs.append(run("", position))
        runs += [run("", position, f"seeds.init={i}", seed=1) for i in (3, 4)]
    group = one(*runs, study="")
    assert group.values("final", "accuracy").count().tolist() == [1, 2, 1, 2]
    name = "position=rotary{0} − position=none{0}"
    assert families(group) == [[name.format("")], [name.format(" (seeds.init)")]]


def test_a_run_that_studies_of_two_kinds_of_seeds_share_counts_in_the_first() -> None:
    plan = planned("a0() b0()")
    other = planned("a0() b0() a1('seeds.init=3',) b1('seeds.init=3',)", seed_kind="seeds.init")
    both = [("s", plan), ("t", other)]
    rows = [as_rows(run(label), key, study) for key, study in both for label in "ab"]
    own = [as_rows(run(label, "seeds.init=3", seed=1), "t", other) for label in "ab"]
    rows += [replace(row, seed="1") for row in own]
    for missing in ([], ["b (seeds.init)"], ["a (seeds.init)", "b (seeds.init)"]):
        (group,) = make_groups(rows[: 6 - len(missing)])
        assert families(group) == [["b − a"], ["b (seeds.init) − a (seeds.init)"]]
        assert group.missing() == {variant: ["1"] for variant in missing}


def test_each_study_keeps_its_family() -> None:
    labels = [("a", 1, "s"), ("b", 2, "s"), ("c", 4, "t"), ("d", 8, "t")]
    plans = {"s": planned("a0 b0"), "t": planned("c0 d0 e0")}
    runs = [(run(label, f"model.heads={heads}"), study) for label, heads, study in labels]
    (group,) = make_groups([as_rows(run, study, plans[study]) for run, study in runs])
    assert families(group) == [["b − a"], ["d − c", "e − c"]]


def test_limits_that_all_variants_share_stand_in_the_name_of_the_data() -> None:
    few = run("a", "data.limit_train=100")
    assert one(few).data == "imdb (25,000 + 25,000 texts)"
    assert one(few, run("b")).data == "imdb"
    cut = run("a", "data.limit_test=100"), run("b", "data.limit_test=100", "data.limit_train=9")
    assert one(*cut).data == "imdb (25,000 test texts)"


def test_planned_seeds_that_are_not_there_are_missing() -> None:
    runs = [run("a"), run("a", seed=1), run("b", "model.heads=4", seed=1)]
    assert one(*runs, plan=planned("a0 a1 b0 b1 c0 c1")).missing() == {"b": ["0"], "c": ["0", "1"]}


def test_a_run_is_missing_on_the_data_set_of_its_plan_also_where_none_has_finished() -> None:
    both = {"a": {"imdb": PLAN, "contrast": PLAN | {FINGERPRINT: "contrast"}}}
    plan = planned("a0() a1('data=contrast',) a2()", settings=both)
    found = groups(run("a"), run("a", "data=contrast", seed=1), plan=plan)
    assert [group.missing() for group in found] == [{"a": ["2"]}, {"a": ["2"]}]
    none_on_contrast = one(run("a"), plan=plan)
    assert none_on_contrast.missing() == {"a on contrast": ["0", "1", "2"], "a": ["1", "2"]}


def test_a_cut_of_a_data_set_has_plans_of_its_own() -> None:
    settings = {"a": {"imdb": PLAN}, "b": {"imdb": PLAN | {"data.limit_test": 100}}}
    group = one(run("a"), plan=planned("a0 b0", settings=settings))
    assert (families(group), group.missing()) == ([], {"b on imdb": ["0"]})


def test_runs_of_a_study_that_adds_seeds_are_sequential(tmp_path: Path) -> None:
    out = tmp_path / "out"
    save_study(out, [run("a")], "usual")
    save_study(out, [run("b", "model.heads=4")], "until")
    plan = stored_study(out / "until")
    record_runs(out / "until", replace(plan, sequential=True))
    found = {}
    for folder in ("usual", "until", "runs", ".", ".."):
        (group,) = load_groups([out / folder])
        found[folder] = " ".join(group.sequential)
    bare = "model.heads=4"  # Without a study, variants are named by their settings.
    assert found == {"usual": "", "until": "b", "runs": bare, ".": bare, "..": bare}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("result.json", b"[" * 9999),
        ("result.json", b'{"schema": 5, "config": {}}'),
        (predictions.FILE, b"half"),
    ],
)
def test_a_damaged_run_is_left_out(
    tmp_path: Path, capsys: Capture, name: str, content: bytes
) -> None:
    save_study(tmp_path, [run("a"), run("a", seed=1)])
    (tmp_path / "runs/bloga1-0" / name).write_bytes(content)
    (group,) = load_groups([tmp_path / "blog"])
    assert [*group.at_endpoints["seed"].unique()] == ["0"]
    (message,) = capsys.readouterr().err.splitlines()
    assert re.match(r"left out: .*/bloga1-0", message)


@pytest.mark.parametrize(("num_right", "num_used"), [(19_999, 0), (20_000, 2)])
def test_answers_of_another_accuracy_are_not_used(num_right: int, num_used: int) -> None:
    answered = as_rows(run("a"))
    answered.epochs["correct"] = [np.packbits(np.arange(25_000) < num_right).tobytes()]
    (group,) = make_groups([answered])
    assert len(group.right) == num_used
