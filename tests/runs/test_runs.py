"""Runs on disk, their ids and names, and the studies that they belong to."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT
from samples import message_of, result, save_run, stored_study, study_of, write_file

from attnexp.config.compose import compose
from attnexp.config.schema import to_dict
from attnexp.runs import find, identity, labels, manifest, predictions, store
from attnexp.training.state import best_row


def write(out: Path, run_id: str) -> Path:
    return save_run(out, result("a", 0, [0.9]), run_id)


def test_a_result_of_another_schema_is_not_read(tmp_path: Path) -> None:
    path = write_file(tmp_path / store.RESULT, json.dumps({"schema": 0})).parent
    assert "it has schema 0" in message_of(store.load_result, path)


def test_a_sweep_adds_seeds_to_what_its_study_had(tmp_path: Path) -> None:
    """Finished runs of earlier commands stay, and those that never ran are no longer missed. The
    same run of new code takes the place of the old one."""
    study = tmp_path / "study"
    for run_id in ("1-x", "2-x"):
        write(tmp_path, run_id)
    first = study_of(("a", 0, "1-x"), ("a", 1, "5-x"), ("b", 0, "2-x"), command="first")
    manifest.record_runs(study, first)
    later = study_of(("a", 2, "4-y"), ("b", 0, "2-y"), ("b", 1, "3-y"), command="second")
    manifest.record_runs(study, later)
    stored = stored_study(study)
    assert stored.commands == ["first", "second"]
    assert [run.run_id for run in stored.runs] == ["4-y", "1-x", "2-y", "3-y"]
    (finished,) = find.load_runs(study)
    assert finished.result.run_id == "1-x"


def test_predictions_without_an_array_name_the_file_and_the_array(tmp_path: Path) -> None:
    run = find.load_run(write(tmp_path, "1-x"))
    arrays = {predictions.FINAL: np.zeros(2, np.float32)}
    predictions.save_arrays(run.path / predictions.FILE, arrays)
    message = message_of(predictions.at_endpoint, run, "final")
    assert "1-x/predictions.safetensors cannot be read (KeyError: 'val_labels')" in message
    with pytest.raises(KeyError):
        predictions.at_endpoint(run, "best")


def acting(settings: dict[str, Any], data: str = "imdb") -> dict[str, Any]:
    return {"settings": {name: {data: settings} for name in "ab"}}


ONE_EPOCH = {"train.epochs": 1, "position.kind": None}
RUNS = [("a", 0, "1-x"), ("b", 0, "2-x")]
PLAN = replace(study_of(*RUNS, command="attnexp sweep a=1 'b=2 3'"), **acting(ONE_EPOCH))
OTHER_PLANS: list[dict[str, Any]] = [
    acting(ONE_EPOCH | {"train.epochs": 2}),
    acting({"train.epochs": 1}),
    acting(ONE_EPOCH, data="trec"),
    {"variants": {"b": {}, "a": {}}},
    {"variants": {"a": {}, "b": {}, "c": {}}},
    {"metric": "macro_f1"},
    {"margin": 0.02},
]


@pytest.mark.parametrize("change", OTHER_PLANS)
def test_another_plan_is_refused_with_the_words_that_differ(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    study = tmp_path / "s"
    manifest.record_runs(study, PLAN)
    other = replace(PLAN, **change, commands=["attnexp sweep a=1 c=4"])
    message = message_of(manifest.record_runs, study, other)
    assert "another plan (it differs in 'b=2 3' c=4)" in message
    also = f"{PLAN.commands[0]} seed=5 executor=ray --until decided"
    other = replace(PLAN, **change, commands=[also])
    message = message_of(manifest.record_runs, study, other)
    assert "(it differs in data, files or default settings)" in message
    assert stored_study(study) == PLAN


def test_sweeps_that_begin_at_once_lose_nothing(tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        studies = [study_of(("a", seed, f"{seed}-x")) for seed in range(20)]
        list(pool.map(manifest.record_runs, [tmp_path] * 20, studies))
    assert len(stored_study(tmp_path).runs) == 20


def test_sweeps_under_way_lose_nothing_that_has_not_finished(tmp_path: Path) -> None:
    """What never ran is missed until another command has ended."""
    study = tmp_path / "study"
    first = study_of(("a", 0, "1-x"), ("a", 1, "2-x"), command="first")
    second = study_of(("a", 2, "3-x"), command="second")
    manifest.record_runs(study, first, has_ended=False)
    manifest.record_runs(study, second, has_ended=False)
    assert len(stored_study(study).runs) == 3
    with store.lock(store.run_dir(tmp_path, "1-x")):
        manifest.record_runs(study, second)
    assert len(stored_study(study).runs) == 3
    store.lock_file(store.run_dir(tmp_path, "2-x")).mkdir()  # Nobody may open this for writing.
    manifest.record_runs(study, first)
    manifest.record_runs(study, second, has_ended=False)
    manifest.record_runs(study, second)
    assert [run.run_id for run in stored_study(study).runs] == ["3-x"]


def test_a_run_has_its_name_in_its_study(tmp_path: Path) -> None:
    write(tmp_path, "1-x")
    manifest.record_runs(tmp_path / "one", study_of(("a", 0, "1-x"), ("twin", 0, "1-x")))
    manifest.record_runs(tmp_path / "early", replace(study_of(("b", 0, "1-x")), sequential=True))
    assert [run.variant for run in find.load_runs(tmp_path / "one")] == ["a", "twin"]
    assert [run.variant for run in find.load_runs(tmp_path / "early")] == ["b"]
    assert [run.sequential for run in find.load_runs(tmp_path)] == [True]
    write_file(tmp_path / "damaged" / manifest.FILE, "{")  # It is not in the folder out.
    write(tmp_path / "out", "2-x")
    assert len(find.load_runs(tmp_path / "out", pytest.fail)) == 1


def test_the_newest_run_of_the_same_settings_is_found(tmp_path: Path) -> None:
    for time, code in enumerate("cab", start=1):
        path = write(tmp_path, f"1-{code}")
        os.utime(path / store.RESULT, (time, time))
    assert store.newest_finished(tmp_path) == {"1": store.run_dir(tmp_path, "1-b")}


def test_the_earliest_of_equal_epochs_is_the_best() -> None:
    assert best_row(result("a", 0, [0.7, 0.9, 0.8, 0.9]).result.epochs).epoch == 2


def test_an_id_holds_every_file_that_computes() -> None:
    files = []
    for folder in ("data", "model", "network", "training"):
        files += sorted((ROOT / "attnexp").glob(f"{folder}/*.py"))
    code = identity.identify(compose(), "").code
    assert [ROOT / "attnexp" / name for name in code] == files


def id_of(*words: str, fingerprint: str = "") -> str:
    return identity.identify(compose(words), fingerprint).settings_digest


def test_settings_that_act_seeds_and_data_are_in_the_id() -> None:
    idle = ["seeds.init=0", "out=x", "train.threads=2", "train.fast=false", "data.path=/x"]
    assert {*map(id_of, idle)} == {id_of()}
    words = ["seed=1", "seeds.init=1", "train.lr=1", "seeds.resample=0", "seeds.resample=3"]
    assert len({id_of(), id_of(fingerprint="other"), *map(id_of, words)}) == 7


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("seed=2", "2"),
        ("seed=2 seeds.init=2", "2"),
        ("seed=2 seeds.init=3", "2-init3"),
        ("seeds.resample=0", "0-resample0"),
    ],
)
def test_runs_of_a_variant_are_told_apart_by_their_seeds(words: str, name: str) -> None:
    """`seeds.resample` does not follow `seed`: 0 with seed 0 is not the same as none."""
    config = to_dict(compose(words.split()))
    assert labels.seed_name(config) == name
    assert labels.variant_settings(config) == labels.variant_settings(to_dict(compose()))


LABELS = {
    "seed=3 out=x": "imdb attention none",
    "position=rotary model.heads=4": "imdb attention rotary model.heads=4",
    "model=lstm data=trec": "trec lstm none model.pooling=last",
    "mask=window mask.radius=3 train=holdout": "imdb attention none mask=window mask.radius=3 "
    "train=holdout",
}


@pytest.mark.parametrize("words", LABELS)
def test_a_label_says_what_is_not_usual(words: str) -> None:
    assert labels.default_label(to_dict(compose(words.split()))) == LABELS[words]


def test_a_label_of_a_piece_from_elsewhere_imports_nothing() -> None:
    config = to_dict(compose("position=sinusoidal", "train.lr=0.1"))
    config["position"] = {"kind": "theirs:Decay", "shuffled": False, "dropout": 0.0, "rate": 0.5}
    config["position"]["inner"] = {"kind": "attnexp.model.mixers:Mean"}
    own = "position.shuffled=false position.dropout=0.0 position.rate=0.5 position.inner=mean"
    assert labels.default_label(config) == f"imdb attention Decay {own} train.lr=0.1"
