"""Runs on disk, their ids and names, and the studies that they belong to."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from samples import but, result, stored_study

from attnexp.base.errors import UserError
from attnexp.config.compose import compose
from attnexp.config.schema import to_dict
from attnexp.runs import identity, labels, manifest, store
from attnexp.runs.manifest import Manifest, PlannedRun
from attnexp.runs.result import SCHEMA
from attnexp.training.state import best_epoch


def write(path: Path, *, code: str = "x") -> None:
    made = but(result("a", 0, [0.9]), run_id=path.name, code={"model/a.py": code}).result
    path.mkdir(parents=True)
    store.save_result(path, made)


def planned(*runs: tuple[str, int, str], command: str = "attnexp sweep") -> Manifest:
    """The study of these runs, each as variant, seed and id."""
    entries = [PlannedRun(variant=name, seed=str(seed), run_id=id_) for name, seed, id_ in runs]
    variants: dict[str, dict[str, str]] = {name: {} for name, _, _ in runs}
    return Manifest(variants=variants, commands=[command], runs=entries)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file"),
        (json.dumps({"schema": 0}), "it has schema 0"),
        (
            json.dumps({"schema": SCHEMA}),
            "cannot be read .ValidationError: .* run_id Field required",
        ),
    ],
)
def test_what_is_no_result_is_named(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / store.RESULT).write_text(content)
    with pytest.raises(UserError, match=message):
        store.load_result(tmp_path)


def test_a_result_that_calls_its_own_best_epoch_best_is_read(tmp_path: Path) -> None:
    write(tmp_path / "1-x")
    stored = store.load_result(tmp_path / "1-x")
    file = tmp_path / "1-x" / store.RESULT
    file.write_text(file.read_text().replace('"own_best"', '"best"'))
    assert store.load_result(tmp_path / "1-x") == stored


def test_a_sweep_adds_seeds_to_what_its_study_had(tmp_path: Path) -> None:
    """The same run of new code takes the place of the old one."""
    study = tmp_path / "study"
    write(store.run_dir(tmp_path, "1-x"))
    manifest.record_runs(study, planned(("a", 0, "1-x"), ("b", 0, "2-x"), command="first"))
    later = planned(("a", 1, "4-y"), ("b", 0, "2-y"), ("b", 1, "3-y"), command="second")
    manifest.record_runs(study, later)
    assert stored_study(study).commands == ["first", "second"]
    assert [*stored_study(study).variants] == ["a", "b"]
    runs = [(run.variant, run.run_id) for run in stored_study(study).runs]
    assert runs == [("a", "4-y"), ("a", "1-x"), ("b", "2-y"), ("b", "3-y")]


def acting(settings: dict[str, Any], data: str = "imdb") -> dict[str, Any]:
    """The settings of a plan whose two variants have these, on one data set."""
    return {"settings": {name: {data: settings} for name in "ab"}}


ONE_EPOCH = {"train.epochs": 1, "position.kind": None}
PLAN = replace(planned(("a", 0, "1-x"), ("b", 0, "2-x")), **acting(ONE_EPOCH))
OTHER_PLANS: list[dict[str, Any]] = [
    acting(ONE_EPOCH | {"train.epochs": 2}),
    acting({"train.epochs": 1}),
    acting(ONE_EPOCH | {"train.lr": 1}),
    acting({"train.epochs": 1}, data="trec"),
    {"seed_kind": "seeds.init"},
    {"variants": {"b": {}, "a": {}}},
    {"variants": {"a": {}, "b": {}, "c": {}}},
    {"metric": "macro_f1"},
    {"margin": 0.02},
]


@pytest.mark.parametrize("change", OTHER_PLANS)
def test_another_plan_is_refused_with_the_words_that_differ(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    first = replace(PLAN, commands=["attnexp sweep a=1 'b=2 3'"])
    manifest.record_runs(tmp_path / "s", first)
    other = replace(first, **change, commands=["attnexp sweep a=1 c=4"])
    with pytest.raises(UserError, match=r"s holds another plan \(it differs in 'b=2 3' c=4\)"):
        manifest.record_runs(tmp_path / "s", other)
    with pytest.raises(UserError, match=r"another plan \(it differs in data, files or"):
        manifest.record_runs(tmp_path / "s", replace(other, commands=first.commands))
    assert stored_study(tmp_path / "s") == first


def test_a_later_sweep_of_fewer_seeds_misses_only_its_own(tmp_path: Path) -> None:
    """Finished runs of earlier commands are shown; those that never ran are no longer missed."""
    runs = [("a", seed, f"{seed}-x") for seed in range(6)]
    for _, _, run_id in runs[:4]:
        write(store.run_dir(tmp_path, run_id))
    study = tmp_path / "study"
    manifest.record_runs(study, planned(*runs, command="six"))
    assert (len(manifest.load_runs(study)), len(stored_study(study).runs)) == (4, 6)
    manifest.record_runs(study, planned(*runs[:3], command="three"))
    assert len(manifest.load_runs(study)) == len(stored_study(study).runs) == 4
    manifest.record_runs(study, planned(runs[5], command="three"))  # it adds a seed
    assert (len(manifest.load_runs(study)), len(stored_study(study).runs)) == (4, 5)
    manifest.record_runs(study, replace(planned(runs[1]), sequential=True))
    manifest.record_runs(study, planned(runs[2]))
    assert stored_study(study).sequential  # whoever adds to it


def test_sweeps_that_begin_at_once_lose_nothing(tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        studies = [planned(("a", seed, f"{seed}-x")) for seed in range(20)]
        list(pool.map(manifest.record_runs, [tmp_path] * 20, studies))
    assert len(stored_study(tmp_path).runs) == 20


def test_a_run_has_its_name_in_its_study(tmp_path: Path) -> None:
    tmp_path = tmp_path / "project" / "outputs"
    for run_id in ("1-x", "2-x"):
        write(store.run_dir(tmp_path, run_id))
    manifest.record_runs(tmp_path / "one", planned(("a", 0, "1-x"), ("twin", 0, "1-x")))
    manifest.record_runs(tmp_path / "two", planned(("b", 0, "1-x"), ("b", 1, "2-x")))
    manifest.record_runs(tmp_path.parent / "far", planned(("c", 0, "1-x")))
    (store.run_dir(tmp_path, "2-x") / store.RESULT).write_text("{")
    left_out = list[str]()
    both = [manifest.load_runs(tmp_path / name, left_out.append) for name in ("one", "two")]
    assert [run.label for runs in both for run in runs] == ["a", "twin", "b"]
    assert str(store.run_dir(tmp_path, "2-x")) in "".join(left_out)
    assert [run.label for run in manifest.load_runs(tmp_path, left_out.append)] == [""]
    with pytest.raises(UserError, match="There is no folder"):
        manifest.load_runs(tmp_path / "three")
    (tmp_path / "one" / manifest.FILE).write_text('{"variants": 1}')
    with pytest.raises(UserError, match="Delete it and sweep again"):
        manifest.load_runs(tmp_path / "one")
    left_out.clear()
    assert [run.label for run in manifest.load_runs(tmp_path / "runs", left_out.append)] == [""]
    assert f"{tmp_path / 'one' / manifest.FILE} cannot be read" in left_out[0]


def test_the_newest_run_of_the_same_settings_is_found(tmp_path: Path) -> None:
    for time, code in enumerate("cab", start=1):
        path = store.run_dir(tmp_path, f"1-{code}")
        write(path)
        os.utime(path / store.RESULT, (time, time))
    assert store.newest_finished(tmp_path) == {"1": store.run_dir(tmp_path, "1-b")}


def test_the_earliest_of_equal_epochs_is_the_best() -> None:
    assert best_epoch(result("a", 0, [0.7, 0.9, 0.8, 0.9]).result.epochs) == 1


def test_an_id_holds_every_file_that_computes() -> None:
    code = identity.identify(compose(), "").code
    package = ROOT / "attnexp"
    files = [
        p for room in ("model", "network", "training", "data") for p in package.glob(f"{room}/*.py")
    ]
    assert [*code] == sorted(str(path.relative_to(package)) for path in files)


def test_settings_that_act_seeds_and_data_are_in_the_id() -> None:
    def first(*words: str, fingerprint: str = "") -> str:
        return identity.identify(compose(words), fingerprint).settings

    same = [first(), first("seeds.init=0"), first("out=x", "train.threads=2", "train.fast=false")]
    assert len({*same, first("data.path=/x")}) == 1
    words = ("seed=1", "seeds.init=1", "train.lr=1", "seeds.resample=0", "seeds.resample=3")
    assert len({same[0], first(fingerprint="other"), *map(first, words)}) == 7


def test_other_texts_are_another_run_of_the_same_variant() -> None:
    """`seeds.resample` does not follow `seed`: 0 with seed 0 is not the same as none."""
    configs = [compose(words.split()) for words in ("", "seeds.resample=0", "seeds.resample=3")]
    assert len({json.dumps(labels.settings(to_dict(config))) for config in configs}) == 1
    names = [labels.replicate(to_dict(config)) for config in configs]
    assert names == ["0", "0-resample0", "0-resample3"]


LABELS = {
    "seed=3 out=x": "imdb attention none",
    "position=rotary model.heads=4": "imdb attention rotary model.heads=4",
    "model=lstm data=trec": "trec lstm none model.pooling=last",
    "model=cnn_attention": "imdb attention none model.before=cnn",
    "mask=window mask.radius=3 train=holdout": "imdb attention none mask=window mask.radius=3 "
    "train=holdout",
    "model=tfidf data=contrast": "contrast tfidf",
}


@pytest.mark.parametrize("words", LABELS)
def test_a_label_says_what_is_not_usual(words: str) -> None:
    assert labels.default_label(to_dict(compose(words.split()))) == LABELS[words]


def test_a_label_of_a_piece_from_elsewhere_imports_nothing() -> None:
    config = to_dict(compose("position=sinusoidal", "train.lr=0.1"))
    config["position"] = {"kind": "theirs:Decay", "shuffled": False, "dropout": 0.0, "rate": 0.5}
    label = labels.default_label(config)
    own = "position.shuffled=false position.dropout=0.0 position.rate=0.5"
    assert label == f"imdb attention Decay {own} train.lr=0.1"
