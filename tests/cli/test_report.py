"""`report`, `judge` and `runs` from outside: stdout, stderr and the exit code."""

import json
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
from conftest import PUBLISHED, Command, Json, Refused
from samples import result, save_study, write

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
        (["--format", "csv"], "data,protocol,variant,seed,point,epoch,metric,value"),
        (["--table", "differences", "--html", "a.html"], "other texts too"),
        (["--format", "csv", "--figure", "a.svg"], "data,protocol,variant"),
        (["--table", "epochs", "--format", "csv"], "epoch,metric,n,mean,sd"),
        (["--table", "epochs", "--json"], '"variant": "pe, K"'),
        (["--table", "epochs"], "99.45 ± 0.07  0.8351 ± 0.0529  81.58 ± 0.62"),
    ],
)
def test_formats_and_tables(here: Command, words: list[str], expected: str) -> None:
    done = here("report", BLOG, *words)
    written = [f"Wrote {word}." for word in words if word.startswith("a.")]
    assert (done.returncode, done.stderr.splitlines()) == (0, written)
    assert expected in done.stdout


def test_another_baseline_turns_the_differences_round(here_json: Json, study: str) -> None:
    (planned,) = here_json("report", study)["differences"]
    document = here_json("report", study, "--baseline", "pe")
    (turned,) = document["differences"]
    assert (turned["variant"], turned["baseline"]) == ("none", "pe")
    assert turned["mean"] == pytest.approx(-planned["mean"])
    assert document["notes"][0].startswith("--baseline pe;")
    assert document["schema"] == 7


def test_runs_that_lack_exit_1(here: Command, here_json: Json, study: str, tmp_path: Path) -> None:
    runs = sorted((tmp_path / "outputs/runs").iterdir())
    shutil.rmtree(runs[0])
    (runs[1] / "result.json").write_text("{")
    done = here("report", study)
    assert done.returncode == 1
    assert str(runs[1].name) in done.stderr
    assert "Planned seeds are missing." in done.stderr
    assert "Accuracy on imdb" in done.stdout
    listed = here("runs", "outputs")
    assert (listed.returncode, "1 broken" in listed.stdout) == (1, True)
    assert str(runs[1].name) in listed.stderr
    document = json.loads(here("runs", "outputs", "--json").stdout)
    states = pd.DataFrame(document["runs"])["state"].value_counts().to_dict()
    assert states == {"finished": 4, "broken": 1}


def test_runs_show_the_accuracy_of_the_last_epoch(here_json: Json, tmp_path: Path) -> None:
    save_study(tmp_path / "outputs", [result("a", 0, [0.9, 0.7])])
    (found,) = here_json("runs", "outputs")["runs"]
    assert (found["accuracy"], found["state"], found["seed"]) == (0.7, "finished", "0")
    folder = tmp_path / found["folder"]
    assert found["bytes"] == sum(file.stat().st_size for file in folder.iterdir())


def test_declared_metrics_judge(here: Command, here_json: Json, study: str, tmp_path: Path) -> None:
    earlier = here("report", study, "--metric", "macro_f1").stdout
    assert "imdb: these results hold no macro_f1." in earlier
    assert re.search(r"variant +final accuracy\n.*\nnone +80.10 ± 0.10", earlier)
    for file in tmp_path.glob("outputs/runs/*/result.json"):
        stored = json.loads(file.read_text())
        for row in (*stored["epochs"], stored["own_best"], stored["final"]):
            row["val_macro_f1"] = 1 - row["val_accuracy"]
        file.write_text(json.dumps(stored))
    plan = tmp_path / study / "study.json"
    plan.write_text(json.dumps(json.loads(plan.read_text()) | {"metric": "macro_f1"}))
    text = here("report", study).stdout
    assert re.search("variant +final macro_f1 +final accuracy", text)
    assert re.search("macro_f1 from none at [^$]*points, margin ±0.25[^$]*pe +-2.00.*hurts", text)
    other = here_json("report", study, "--metric", "accuracy")
    assert {row["metric"] for row in other["differences"]} == {"accuracy"}
    assert other["notes"][0].startswith("Planned: macro_f1 ±0.25. This judges accuracy")


def test_the_study_table_is_text_and_fields(here: Command, here_json: Json, study: str) -> None:
    text = here("report", study, "--table", "study").stdout
    assert text == here("report", study, "--table", "study", "--format", "markdown").stdout
    assert "imdb (fingerprint imdb), 25,000 train texts, 25,000 test texts" in text
    assert "none, pe, 2 epochs, 3 seeds (0, 1, 2), protocol blog, validated on test" in text
    assert "betas of Adam (0.9, 0.999)" in text
    assert "Parameters: none 2,609,281, pe 2,609,281." in text
    assert text.endswith("Command: attnexp sweep\n")
    (fields,) = here_json("report", study, "--table", "study")["study"]
    assert (fields["seeds"], fields["n_test"], fields["epochs"]) == (["0", "1", "2"], [25_000], [2])


def test_less_loss_is_better_and_its_margin_has_its_unit(here_json: Json) -> None:
    document = here_json("report", BLOG, "--metric", "loss", "--margin", "0.01")
    final, _ = document["differences"]
    assert (final["metric"], final["verdict"]) == ("loss", "helps on these texts")
    assert final["mean"] < 0


def test_judge_exits_with_1_where_it_is_undecided(here: Command, tmp_path: Path) -> None:
    rows = [
        (v, seed, 0.8 + 0.02 * (v == "b") + seed % 3 / 1000) for seed in range(12) for v in "abc"
    ]
    frame = pd.DataFrame(rows, columns=["variant", "seed", "accuracy"])
    frame.to_csv(tmp_path / "all.csv", index=False)
    frame.query("seed < 5").to_csv(tmp_path / "few.csv", index=False)
    done = here("judge", "all.csv")
    assert (done.returncode, done.stderr) == (0, "")
    assert "helps by at least 0.25" in done.stdout
    assert here("judge", "all.csv", "--baseline", "b", "--metric", "accuracy").returncode == 0
    assert here("judge", "all.csv", "--until", "decided", "--json").returncode == 0
    undecided = here("judge", "few.csv", "--until", "decided")
    assert undecided.returncode == 1
    assert "not decided: b − a, c − a" in undecided.stderr


def test_a_config_of_another_program_is_no_run(refused: Refused, tmp_path: Path) -> None:
    config = tmp_path / "conf" / "config.yaml"
    write(config, "lr: 1")
    assert "There is no run" in refused("runs", str(tmp_path))
    assert list(tmp_path.rglob("*")) == [config.parent, config]  # a listing writes nothing
