"""`report`, `judge` and `runs` from outside: stdout, stderr and the exit code."""

import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import PUBLISHED, Command, Json
from samples import result, save_study

BLOG = str(PUBLISHED / "blog")


@pytest.fixture
def study(tmp_path: Path) -> str:
    runs = [
        result(label, seed, [0.7, 0.8 + shift + seed / 1000], f"position={position}")
        for seed in range(3)
        for label, position, shift in (("none", "none", 0.0), ("pe", "sinusoidal", 0.02))
    ]
    save_study(tmp_path / "outputs", runs)
    return "outputs/blog"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--format csv --html a.html --figure a.svg", "data,protocol,variant,seed,point,epoch"),
        ("--table epochs --json", '"variant": "pe, K"'),
        ("--table epochs", "99.45 ± 0.07  0.8351 ± 0.0529  81.58 ± 0.62"),
    ],
)
def test_formats_and_tables(here: Command, tmp_path: Path, words: str, expected: str) -> None:
    done = here("report", BLOG, *words.split())
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout
    files = [file.name for file in tmp_path.iterdir()]
    assert done.stderr.splitlines() == [f"Wrote {name}." for name in sorted(files)]


def test_another_baseline_turns_the_differences_round(here_json: Json, study: str) -> None:
    (planned,) = here_json("report", study)["differences"]
    document = here_json("report", study, "--baseline", "pe")
    (turned,) = document["differences"]
    assert turned["variant"] == planned["baseline"]
    assert turned["mean"] == pytest.approx(-planned["mean"])
    assert document["notes"][0].startswith("--baseline pe;")


def test_runs_that_lack_exit_1(here: Command, here_json: Json, study: str, tmp_path: Path) -> None:
    runs = sorted((tmp_path / "outputs/runs").iterdir())
    shutil.rmtree(runs[0])
    (runs[1] / "result.json").write_text("{")
    done = here("report", study)
    assert done.returncode == 1
    assert runs[1].name in done.stderr
    assert "Planned seeds are missing." in done.stderr
    assert "Accuracy on imdb" in done.stdout
    listed = here("runs", "outputs", "--json")
    assert listed.returncode == 1
    assert runs[1].name in listed.stderr
    states = Counter(run["state"] for run in json.loads(listed.stdout)["runs"])
    assert states == {"finished": 4, "broken": 1}


def test_runs_show_the_accuracy_of_the_last_epoch(here_json: Json, tmp_path: Path) -> None:
    save_study(tmp_path / "outputs", [result("a", 0, [0.9, 0.7])])
    (found,) = here_json("runs", "outputs")["runs"]
    assert (found["accuracy"], found["state"], found["seed"]) == (0.7, "finished", "0")


def test_declared_metrics_judge(here: Command, here_json: Json, study: str, tmp_path: Path) -> None:
    for file in tmp_path.glob("outputs/runs/*/result.json"):
        stored = json.loads(file.read_text())
        for row in (*stored["epochs"], stored["own_best"], stored["final"]):
            row["val_macro_f1"] = 1 - row["val_accuracy"]
        file.write_text(json.dumps(stored))
    plan = tmp_path / study / "study.json"
    plan.write_text(plan.read_text().replace('"metric": "accuracy"', '"metric": "macro_f1"'))
    assert "final macro_f1" in here("report", study).stdout
    (declared,) = here_json("report", study)["differences"]
    assert (declared["metric"], declared["verdict"]) == ("macro_f1", "hurts on these texts")
    document = here_json("report", study, "--metric", "accuracy")
    (other,) = document["differences"]
    assert (other["metric"], other["verdict"]) == ("accuracy", "helps on these texts")
    assert document["notes"][0].startswith("Planned: macro_f1 ±0.25. This judges accuracy")


def test_the_study_table_is_text_and_fields(here: Command, here_json: Json, study: str) -> None:
    text = here("report", study, "--table", "study").stdout
    assert text == here("report", study, "--table", "study", "--format", "markdown").stdout
    assert "2 epochs, 3 seeds (0, 1, 2), protocol blog, validated on test" in text
    (fields,) = here_json("report", study, "--table", "study")["study"]
    assert fields["seeds"] == ["0", "1", "2"]
    assert fields["n_test"] == [25_000]


def test_judge_exits_with_1_where_it_is_undecided(here: Command, tmp_path: Path) -> None:
    frame = pd.DataFrame({"variant": [*"abc"] * 12, "seed": np.repeat(range(12), 3)})
    is_better = frame["variant"] == "b"
    frame["accuracy"] = 0.8 + 0.02 * is_better + frame["seed"] % 3 / 1000
    frame.to_csv(tmp_path / "all.csv", index=False)
    frame[:15].to_csv(tmp_path / "few.csv", index=False)
    done = here("judge", "all.csv")
    assert (done.returncode, done.stderr) == (0, "")
    assert "helps by at least 0.25" in done.stdout
    assert here("judge", "all.csv", "--until", "decided", "--json").returncode == 0
    undecided = here("judge", "few.csv", "--until", "decided")
    assert undecided.returncode == 1
    assert "not decided: b − a, c − a" in undecided.stderr
