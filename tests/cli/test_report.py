"""`report`, `judge` and `runs` from outside: stdout, stderr and the exit code."""

import shutil
from pathlib import Path

import pytest
from conftest import PUBLISHED, Command, Json
from samples import result, save_study


@pytest.fixture
def study(tmp_path: Path) -> str:
    runs = []
    for seed in range(3):
        accuracy = 0.8 + seed / 1000
        runs.append(result("none", seed, [0.7, accuracy], "position=none"))
        runs.append(result("pe", seed, [0.7, accuracy + 0.02], "position=sinusoidal"))
    save_study(tmp_path / "outputs", runs)
    return "outputs/blog"


REPORTS = [
    ("contrast --format csv --html a.html --figure a.svg", "data,protocol,variant,seed,point"),
    ("blog --table epochs --format csv", '"pe, K",5,train_loss,1,0.0182,\nimdb,blog,"no_pe'),
    ("blog --table epochs", "99.45 ± 0.07  0.8351 ± 0.0529  81.58 ± 0.62"),
    ("contrast --table study", "no_pe, pe, 5 epochs, 6 seeds (0, 1, "),
    ("contrast --table study --format markdown", "5), protocol blog, measured on test."),
    ("contrast --table study --json", '"n_test": [\n    2000\n   ],'),
]


@pytest.mark.parametrize(("words", "expected"), REPORTS)
def test_formats_and_tables(here: Command, tmp_path: Path, words: str, expected: str) -> None:
    study, *options = words.split()
    done = here("report", str(PUBLISHED / study), *options)
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout
    files = [file.name for file in tmp_path.iterdir()]
    assert done.stderr.splitlines() == [f"Wrote {name}." for name in sorted(files)]


def test_runs_that_lack_exit_1(here: Command, study: str, tmp_path: Path) -> None:
    """Those that are listed have the accuracy of their last epoch."""
    assert here("runs", "outputs").stdout.startswith("Runs on imdb: 6 finished; ")
    folders = sorted((tmp_path / "outputs/runs").iterdir())
    shutil.rmtree(folders[0])
    (folders[1] / "result.json").write_text("{")
    done = here("report", study)
    assert done.returncode == 1
    assert folders[1].name in done.stderr
    assert "Planned seeds are missing." in done.stderr
    assert "Accuracy on imdb" in done.stdout
    listed = here("runs", "outputs", "--json")
    assert listed.returncode == 1
    assert folders[1].name in listed.stderr
    assert listed.stdout.count('"state": "finished"') == 4
    assert listed.stdout.count('"state": "broken"') == 1
    assert listed.stdout.count('"seed": "2"') == 2
    assert '"accuracy": 0.802,' in listed.stdout


def test_the_planned_metric_judges(here_json: Json, study: str, tmp_path: Path) -> None:
    plan = tmp_path / study / "study.json"
    plan.write_text(plan.read_text().replace('"metric": "accuracy"', '"metric": "loss"'))
    planned, _ = here_json("report", study)["differences"]  # final, best
    assert (planned["metric"], planned["mean"]) == ("loss", 0)
    document = here_json("report", study, "--metric", "accuracy")
    other, _ = document["differences"]
    assert (other["metric"], other["verdict"]) == ("accuracy", "helps on these texts")
    assert document["notes"][0].startswith("Planned: loss ±0.0025. This judges accuracy")


def test_judge_exits_with_1_where_it_is_undecided(here: Command, tmp_path: Path) -> None:
    rows = ["variant,seed,accuracy"]
    for seed in range(12):
        rows += [f"a,{seed},0.80{seed % 3}", f"b,{seed},0.82{seed % 3}"]
    (tmp_path / "all.csv").write_text("\n".join(rows))
    (tmp_path / "few.csv").write_text("\n".join(rows[:11]))
    done = here("judge", "all.csv")
    assert (done.returncode, done.stderr) == (0, "")
    assert "helps by at least 0.25" in done.stdout
    assert here("judge", "all.csv", "--until", "decided", "--json").returncode == 0
    undecided = here("judge", "few.csv", "--until", "decided")
    assert undecided.returncode == 1
    assert "not decided: b − a" in undecided.stderr
