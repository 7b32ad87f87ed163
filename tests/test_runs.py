"""A run's id and what is read back from disk."""

import json
from pathlib import Path

import pytest

from attnexp.config.compose import compose
from attnexp.config.schema import flatten, to_dict
from attnexp.errors import UserError
from attnexp.runs import identity, result, store
from attnexp.runs.identity import run_id
from attnexp.runs.store import run_dir

HARMLESS = ["out=/elsewhere", "data.path=/elsewhere", "train.device=cpu", "train.threads=1"]
TELLING = ["seed=1", "seeds.init=1", "seeds.order=1", "train=holdout",
           "model.heads=4", "data.max_len=81", "train.epochs=4", "mask.query=true",
           "train.precision=bf16", "data.limit_test=10"]  # fmt: skip


@pytest.mark.parametrize("word", HARMLESS)
def test_the_id_ignores_place_and_machine(word: str) -> None:
    assert run_id(compose([word]), "data") == run_id(compose([]), "data")


@pytest.mark.parametrize("word", TELLING)
def test_the_id_changes_with_what_can_change_the_result(word: str) -> None:
    assert run_id(compose([word]), "data") != run_id(compose([]), "data")


def test_the_id_changes_with_data_and_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    before = run_id(compose([]), "data")
    assert run_id(compose([]), "other data") != before
    monkeypatch.setattr(identity, "SCHEMA", result.SCHEMA + 1)
    assert run_id(compose([]), "data") != before


def test_every_key_is_either_in_the_id_or_harmless() -> None:
    """A key added to the schema enters the id by itself."""
    left_out = {word.split("=")[0] for word in HARMLESS}
    assert left_out < set(flatten(to_dict(compose([]))))


def test_folders_are_named_without_equals_signs() -> None:
    path = run_dir(compose(["seed=5"]), "0123456789ab", folder="f", label="position=none x/y")
    assert path == Path("outputs/f/position-none-x-y-s5-01234567")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "is not a run's folder"),
        ("", "damaged"),
        ("[]", "damaged"),
        (json.dumps({"schema": 0}), "schema 0"),
        (json.dumps({"schema": result.SCHEMA}), "damaged"),
    ],
)
def test_what_is_no_result_is_told(tmp_path: Path, content: str | None, told: str) -> None:
    if content is not None:
        (tmp_path / store.RESULT).write_text(content)
    with pytest.raises(UserError, match=told):
        store.load(tmp_path)


def test_an_unfinished_run_is_told(tmp_path: Path) -> None:
    store.create(tmp_path / "run", compose([]), ["seed=0"])
    with pytest.raises(UserError, match="did not finish"):
        store.load(tmp_path / "run")
    with pytest.raises(UserError, match="no finished run"):
        store.load_all([tmp_path])


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="out=DIR"):
        store.create(tmp_path / "file" / "run", compose([]), [])
