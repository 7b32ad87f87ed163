"""The list of runs: every run of a folder once, as it stands, with words that make it again."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from conftest import Refused
from samples import SMALL_RUN, exit_code, planned

from attnexp.analysis.listing import list_runs
from attnexp.config.compose import compose
from attnexp.config.schema import to_dict
from attnexp.runs import manifest, store
from attnexp.runs.identity import settings
from attnexp.training.run import train_run

FEW = [*SMALL_RUN, "data.limit_train=32", "data.limit_test=32"]
WORDS = ["position=learned", "mask=causal", "train=holdout", "seed=3"]


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    """One run of each state; two finished ones, of which one belongs to a study."""
    out = f"out={tmp_path}"
    finished, result = train_run(compose(FEW, WORDS, out))
    other, _ = train_run(compose([word for word in FEW if "head" not in word], "model=lstm", out))
    broken = finished.with_name("aaaaaaaaaaaa-bbbbbbbb")
    shutil.copytree(finished, broken)
    (broken / store.RESULT).write_text("{")
    running, stopped = (finished.with_name(name) for name in ("r", "s"))
    for path in (running, stopped):
        part = store.create(path, compose(FEW, "seed=5", out), [])
        store.add_epoch(part, result.epochs[0])
    (tmp_path / ".hydra").mkdir()
    (tmp_path / ".hydra" / "config.yaml").write_text("another: program's")
    manifest.record(tmp_path / "study", planned(("a", 3, finished.name)))
    return {"finished": finished, "other": other, "broken": broken,
            "running": store.part_of(running), "stopped": store.part_of(stopped)}  # fmt: skip


def by_folder(root: Path) -> dict[str, dict[str, Any]]:
    return {run["folder"]: run for run in list_runs(root)["runs"]}


def test_every_run_is_listed_in_its_state_and_its_words_make_it(
    tmp_path: Path,
    folders: dict[str, Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with store.lock(folders["running"].with_suffix("")):
        found = by_folder(tmp_path)
        code = exit_code("runs", tmp_path)
    shown = capsys.readouterr()
    states = {name: found.pop(str(path))["state"] for name, path in folders.items()}
    assert not found
    assert states.pop("other") == "finished"
    assert all(name == state for name, state in states.items())
    assert code == 1
    assert "1 broken: `attnexp doctor" in shown.err
    assert "running after epoch 1" in shown.out
    assert "2 finished, 1 running, 1 stopped, 1 broken." in shown.out

    run = by_folder(tmp_path)[str(folders["finished"])]
    result = store.load(folders["finished"])
    again = compose(f"data={run['data']}", run["settings"])
    assert settings(to_dict(again)) == settings(result.config)
    assert run["seed"] == "3"
    chosen = {"chosen": result.test.accuracy, "final": result.final.val_accuracy}
    assert run["accuracies"] == chosen
    lstm = by_folder(tmp_path)[str(folders["other"])]
    assert lstm["settings"][0] == "model=lstm"

    assert [*by_folder(tmp_path / "study")] == [str(folders["finished"])]
    monkeypatch.chdir(tmp_path / "study")
    assert exit_code("report", ".", "--table", "accuracy") == 0
    capsys.readouterr()
    assert exit_code("runs", ".") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "1 finished."
    assert max(map(len, lines[1:])) <= 80  # the first is the folder


def test_a_folder_without_a_run_is_reported(refused: Refused) -> None:
    assert "There is no run in" in refused("runs", ".")
    assert "There is no folder" in refused("runs", "nowhere")
