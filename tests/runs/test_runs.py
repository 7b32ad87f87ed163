"""A run's id, its place on disk, and the studies that it belongs to."""

import json
import shutil
import threading
from pathlib import Path

import pytest
from samples import planned
from samples import result as sample

from attnexp.base.errors import UserError
from attnexp.config.compose import compose
from attnexp.config.schema import flatten, to_dict
from attnexp.runs import identity, manifest, result, store
from attnexp.runs.identity import Identity, identify, settings

HARMLESS = ["out=/elsewhere", "data.path=/elsewhere", "train.device=cpu", "train.threads=1",
            "train.fast=false"]  # fmt: skip
SEEDS = ["seed=1", "seeds.init=1", "seeds.order=1", "seeds.resample=1"]
TELLING = ["model.heads=4", "data.max_len=81", "train.epochs=4", "mask.query=true",
           "train=holdout", "train.precision=bf16", "data.limit_test=10"]  # fmt: skip


def of(*words: str, data: str = "data") -> Identity:
    return identify(compose(words), data)


def test_an_id_is_fit_for_a_folder() -> None:
    assert store.run_dir("out", of().run_id).parent == Path("out/runs")
    settings_and_data, code = of().run_id.split("-")
    assert (len(settings_and_data), len(code)) == (12, 8)
    assert (settings_and_data + code).isalnum()


@pytest.mark.parametrize("word", [*HARMLESS, *SEEDS, *TELLING])
def test_the_id_changes_with_what_can_change_the_result_and_the_variant_with_all_but_seeds(
    word: str,
) -> None:
    config, plain = compose([word]), compose([])
    assert (identify(config, "data") == identify(plain, "data")) is (word in HARMLESS)
    assert (settings(to_dict(config)) != settings(to_dict(plain))) is (word in TELLING)


def test_the_id_changes_with_data_and_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    before = of()
    assert of(data="other").settings != before.settings
    monkeypatch.setattr(identity, "SCHEMA", result.SCHEMA + 1)
    assert of().settings != before.settings


def test_vectors_count_by_their_content_wherever_they_lie(tmp_path: Path) -> None:
    here, there = (f"model.vectors={tmp_path}/{name}" for name in ("a", "b"))
    assert of(here) == of(there)
    assert of(here) != of()


def test_every_key_is_either_in_the_id_or_harmless() -> None:
    """A key added to the schema enters the id by itself."""
    left_out = {word.split("=")[0] for word in [*HARMLESS, *SEEDS]}
    every = set(flatten(to_dict(compose([]))))
    assert set(settings(to_dict(compose([])))) == every - left_out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is not a run's folder"),
        ("", "damaged"),
        ("[]", "damaged"),
        ("[" * 100_000, "damaged"),
        ("\x00", "damaged"),
        (json.dumps({"schema": 0}), "schema 0"),
        (json.dumps({"schema": result.SCHEMA}), "damaged"),
    ],
)
def test_what_is_no_result_is_reported(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / store.RESULT).write_text(content)
    with pytest.raises(UserError, match=message):
        store.load(tmp_path)


def test_an_unfinished_run_is_reported(tmp_path: Path) -> None:
    part = store.create(tmp_path / "run", compose([]), ["seed=0"])
    with pytest.raises(UserError, match="did not finish"):
        store.load(part)
    with pytest.raises(UserError, match="no finished run"):
        manifest.load_runs([tmp_path])


def test_of_many_runs_those_that_finished_are_found(tmp_path: Path) -> None:
    assert store.finished(tmp_path, ["a-1"]) == set()
    for name in ("a-1", "b-2", "c-3.part"):
        store.run_dir(tmp_path, name).mkdir(parents=True)
    for name in ("a-1", "c-3.part"):
        (store.run_dir(tmp_path, name) / store.RESULT).touch()
    assert store.finished(tmp_path, ["a-1", "b-2", "c-3", "d-4"]) == {"a-1"}


def test_a_place_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="out=DIR"):
        store.create(tmp_path / "file" / "run", compose([]), [])
    with pytest.raises(UserError, match="out=DIR"):
        manifest.record(tmp_path / "file" / "study", planned())


def write(path: Path, seconds: float) -> None:
    """A finished run that took that long."""
    part = store.create(path, compose([]), [])
    run = sample("", 0, [0.8]).result
    store.save(part, result.RunResult.from_json({**run.to_json(), "wall_seconds": seconds}))


def test_a_replacement_that_was_killed_half_way_is_undone(tmp_path: Path) -> None:
    """Killed after any step of it, the old run or the new one is there."""
    path = tmp_path / "runs" / "a-b"
    write(path, 1.0)
    store.finalize(store.part_of(path))
    write(path, 2.0)
    halfway = path.rename(path.with_name("a-b.replaced"))  # what `finalize` does first
    store.recover(path)
    assert store.load(path).wall_seconds == 1.0
    store.finalize(store.part_of(path))
    assert store.load(path).wall_seconds == 2.0
    assert not halfway.exists()
    shutil.copytree(path, halfway)  # and what it does last, left undone
    store.recover(path)
    assert (path.exists(), halfway.exists()) == (True, False)


# Studies


def test_a_sweep_adds_to_what_its_study_had(tmp_path: Path) -> None:
    """More seeds and variants join; the same run of new code takes the place of the old one."""
    later = [("b", 0, "2-y"), ("b", 1, "3-y"), ("c", 0, "4-y")]
    manifest.record(tmp_path, planned(("a", 0, "1-x"), ("b", 0, "2-x"), command="first"))
    manifest.record(tmp_path, planned(*later, command="second"))
    manifest.record(tmp_path, planned(later[0], command="second executor.workers=1"))
    found = manifest.load(tmp_path)
    assert found is not None
    assert found.commands == ["first", "second executor.workers=1"]
    assert [*found.variants] == ["b", "c", "a"]
    assert [(run.variant, run.run_id) for run in found.runs] == [
        *(("b", "2-y"), ("b", "3-y")),
        *(("c", "4-y"), ("a", "1-x")),
    ]


def test_sweeps_that_begin_at_once_lose_nothing(tmp_path: Path) -> None:
    threads = [
        threading.Thread(target=manifest.record, args=(tmp_path, planned(("a", i, f"{i}-x"))))
        for i in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = manifest.load(tmp_path)
    assert found is not None
    assert {run.run_id for run in found.runs} == {f"{i}-x" for i in range(20)}


def test_one_run_may_have_a_name_in_every_study(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = store.run_dir(tmp_path, "1-x")
    write(path, 1.0)
    store.finalize(store.part_of(path))
    manifest.record(tmp_path / "one", planned(("a", 0, "1-x"), ("twin", 0, "1-x")))
    manifest.record(
        tmp_path / "two", planned(("b", 0, "1-x"), ("b", 1, "2-x"), command="the command")
    )
    folders = [tmp_path / "one", tmp_path / "two", tmp_path / "one"]
    found = manifest.load_runs(folders)
    assert [run.label for run in found] == ["a", "twin", "b"]
    assert {run.path for run in found} == {path}
    assert "1 of 2 runs are missing. This makes them: the command" in capsys.readouterr().err
    assert [run.label for run in manifest.load_runs([tmp_path])] == [""]
