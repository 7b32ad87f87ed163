"""What is not as it was written is named and left out; nothing of it is believed."""

import json
import os
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import Refused
from samples import exit_code, planned

from attnexp.base.errors import UserError
from attnexp.config.compose import compose
from attnexp.inspect import doctor
from attnexp.runs import manifest, predictions, store
from attnexp.runs.arrays import WEIGHTS, save_weights
from attnexp.training.run import train_run

WORDS = ["experiment=smoke", "train.threads=1", "train.epochs=1", "data.limit_train=32",
         "model.d_model=8", "model.d_head=4"]  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root of two runs."""
    out = tmp_path_factory.mktemp("finished")
    for position in ("none", "sinusoidal"):
        words = [*WORDS, f"position={position}", f"out={out}"]
        train_run(compose(words), overrides=words)
    return out


@pytest.fixture
def runs(finished: Path, tmp_path: Path) -> list[Path]:
    """A copy of the two, without and with positions."""
    shutil.copytree(finished, tmp_path / "out")
    folders = (tmp_path / "out" / "runs").glob("*-*")
    return sorted(folders, key=lambda path: store.load(path).config["position"]["kind"] or "")


def turn_over(file: Path, position: int) -> None:
    """One bit, at a share of the file."""
    content = bytearray(file.read_bytes())
    content[position * (len(content) - 1) // 100] ^= 1 << position % 8
    file.write_bytes(content)


def printed(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """stdout and stderr, without their line breaks."""
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return out, " ".join(err.split())


FILES = [store.RESULT, store.METRICS, store.CONFIG, store.OVERRIDES, store.VOCABULARY, WEIGHTS,
         predictions.FILE]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "position"), [*((name, 50) for name in FILES), (WEIGHTS, 0), (store.RESULT, 100)]
)
def test_doctor_finds_every_bit_and_says_what_to_do(
    runs: list[Path], name: str, position: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("doctor", runs[0].parent) == 0
    turn_over(runs[1] / name, position)
    assert exit_code("doctor", runs[0].parent) == 1
    out, _ = printed(capsys)
    assert "1 of 2 runs are whole" in out
    assert f"{name} " in out
    if name != store.OVERRIDES:
        assert f"train --again {' '.join(WORDS)} position=sinusoidal" in out
        assert f"out={runs[0].parent.parent}" in out


def test_a_run_of_which_no_words_are_known_gets_no_command_of_another_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, _ = train_run(compose([*WORDS, f"out={tmp_path}"]))
    assert exit_code("export", path, "--to", "hub", "--into", tmp_path / "hub") == 0
    assert "attnexp train" not in (tmp_path / "hub" / path.name / "README.md").read_text()
    turn_over(path / store.RESULT, 50)
    assert exit_code("doctor", path) == 1
    out, _ = printed(capsys)
    assert f"rm -r {path}  # then train or sweep as before" in out
    assert "attnexp train" not in out


def test_a_damaged_result_is_left_out_of_a_report_and_no_run(
    runs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    turn_over(runs[1] / store.RESULT, 60)
    assert exit_code("report", runs[0].parent) == 1
    out, err = printed(capsys)
    assert "train.epochs=1: 1 run on contrast" in " ".join(out.split())
    assert f"{runs[1] / store.RESULT} is damaged" in err
    assert exit_code("evaluate", runs[1]) == 2


def test_a_folder_that_may_not_be_read_is_named(
    runs: list[Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = os.scandir

    def forbid(path: str) -> Any:
        if str(path) == str(runs[1]):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr("os.scandir", forbid)
    for command, code in {"report": 1, "runs": 0, "doctor": 0}.items():
        assert exit_code(command, runs[0].parent) == code
        assert f"{runs[1]} cannot be read: Permission denied." in printed(capsys)[1]


def test_damaged_predictions_cost_their_test_alone(
    runs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    turn_over(runs[1] / predictions.FILE, 80)
    assert exit_code("report", runs[0].parent) == 1
    out, err = printed(capsys)
    assert "sinusoidal − " in out
    assert "McNemar" not in out
    assert f"{runs[1] / predictions.FILE} is damaged" in err


@pytest.mark.parametrize("position", [0, 100])
def test_a_damaged_model_or_vocabulary_is_not_used(
    runs: list[Path], position: int, tmp_path: Path, refused: Refused
) -> None:
    turn_over(runs[0] / WEIGHTS, position)
    assert f"{runs[0] / WEIGHTS} is damaged" in refused("evaluate", str(runs[0]))
    turn_over(runs[1] / store.VOCABULARY, position)
    message = refused("evaluate", str(runs[1]), f"data.path={tmp_path}")
    assert f"{runs[1] / store.VOCABULARY} is damaged" in message


def test_evaluate_exits_with_1_where_the_model_is_not_the_one_that_was_measured(
    runs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    result = store.load(runs[0])
    assert exit_code("evaluate", runs[0]) == 0
    from safetensors.torch import load_file

    weights = load_file(runs[0] / WEIGHTS)
    save_weights(runs[0], {name: tensor + 0.5 for name, tensor in weights.items()})
    store.save(runs[0], replace(result, files=store.digests(runs[0])))
    assert exit_code("evaluate", runs[0]) == 1
    assert f"stored and measured differ: accuracy {result.test.accuracy} and" in printed(capsys)[1]


def test_a_report_of_nothing_that_can_be_read_is_an_error(
    runs: list[Path], refused: Refused
) -> None:
    for run in runs:
        (run / store.RESULT).write_text("")
    assert refused("report", str(runs[0].parent)).count("is damaged") == 2


@pytest.mark.parametrize(("key", "value"), [("variants", None), ("runs", [None])])
def test_a_damaged_study_is_left_out_and_the_others_are_shown(
    runs: list[Path], key: str, value: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("mine", "other"):
        manifest.record(runs[0].parent.parent / name, planned(("a", 0, runs[0].name)))
    file = runs[0].parent.parent / "mine" / manifest.FILE
    file.write_text(json.dumps({**json.loads(file.read_text()), key: value}))
    assert exit_code("report", file.parent, file.parent.with_name("other")) == 1
    out, err = printed(capsys)
    assert "a: 1 run" in out
    assert f"{file} cannot be used" in err


def test_an_edited_study_is_refused(tmp_path: Path) -> None:
    manifest.record(tmp_path, planned(("a", 0, "1-a"), ("b", 0, "2-b")))
    file = tmp_path / manifest.FILE
    written = file.read_text()
    without = {name: value for name, value in json.loads(written).items() if name != "sha256"}
    for edited in (written.replace("1-a", "3-a"), json.dumps(without)):
        file.write_text(edited)
        with pytest.raises(UserError, match="it is not what attnexp wrote, by its checksum"):
            manifest.load(tmp_path)


def test_doctor_tells_what_is_missing_and_unfinished_but_not_what_is_under_way(
    runs: list[Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = runs[0].parent.parent
    store.create(runs[0].with_name("0-a"), compose([]), ["seed=3", "out=elsewhere"])
    manifest.record(
        root / "mine", planned(("a", 0, runs[0].name), ("b", 0, "1-b"), command="the sweep")
    )
    (runs[1] / WEIGHTS).unlink()
    found = doctor.examine(root)
    assert (found["runs"], found["whole"], found["studies"]) == (3, 1, 1)
    part, run, study = found["troubles"]
    assert part["what"] == "unfinished, at its start"
    assert part["command"] == f"attnexp train seed=3 out={root}"
    assert run["what"] == f"{runs[1] / WEIGHTS} is missing."
    assert (study["what"], study["command"]) == ("1 of 2 runs are missing", "the sweep")
    with store.lock(runs[0].with_name("0-a")):
        under_way = doctor.examine(root)
        assert (under_way["whole"], len(under_way["troubles"])) == (1, 2)
    with pytest.raises(UserError, match="There is no folder"):
        doctor.examine(runs[0] / "nothing")
    odd = root.with_name("odd (1)")
    shutil.copytree(root, odd)
    monkeypatch.chdir(odd / store.RUNS)
    part, _ = doctor.examine(Path("."))["troubles"]
    assert part["command"] == shlex.join(["attnexp", "train", "seed=3", f'out="{odd}"'])
    monkeypatch.chdir(odd / "mine")
    (study,) = doctor.examine(Path("."))["troubles"]
    assert study["what"] == "1 of 2 runs are missing"
    assert exit_code("doctor", root, "--json") == 1
    assert json.loads(printed(capsys)[0])["troubles"][2]["command"] == "the sweep"


def test_doctor_shows_the_installation(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("doctor", "--json") == 0
    found = json.loads(printed(capsys)[0])
    assert found["devices"][0]["name"] == "cpu"
    packages = {package["name"]: package for package in found["packages"]}
    assert packages["torch"]["version"] == torch.__version__
    assert packages["submitit"]["extra"] == "slurm"
    assert [one["name"] for one in found["data"]][:2] == ["imdb", "contrast"]
    assert "cannot be reached" in found["hub"]["unreachable"]  # nobody listens there
    assert exit_code("doctor") == 0
    assert "contrast: generated here" in printed(capsys)[0]
