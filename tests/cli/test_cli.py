"""The installed command, from outside: what it prints, where, and with which exit code."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from unittest.mock import Mock

import pytest
import yaml
from conftest import PROGRAM, PUBLISHED, Command, Json, OwnModule, Patch, Refused, exit_code

from attnexp.analysis import read_runs
from attnexp.base import progress
from attnexp.runs.result import Run

SMOKE = ["experiment=smoke", "data.limit_train=64", "data.limit_test=64", "train.threads=1"]


def test_train_says_commands_that_work(here: Command, own_module: OwnModule) -> None:
    words = ["train", *SMOKE, "position=rotary", "seed=4"]
    done = here(*words)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^epoch \d/\d", done.stderr, re.MULTILINE) == ["epoch 1/2", "epoch 2/2"]
    assert here(*words).stdout == done.stdout
    _, _, commands = done.stdout.partition("\nNext:\n")
    predict, sweep, report = (shlex.split(line)[1:] for line in commands.splitlines())
    assert exit_code(*predict) == 0
    assert '"errors": [' in here("evaluate", predict[1], "--table", "errors", "--json").stdout
    assert exit_code(*report[:2]) == 0  # without its page
    assert report[2:] == ["--html", "page.html"]
    assert "position=none,rotary" in sweep
    assert "Runs to do: 11," in here(*sweep, "--dry-run").stdout
    module = own_module("from attnexp.model.positions import *\nclass Turn(RotaryPosition): ...")
    assert f"position=none,{module}:Turn" in here("train", *SMOKE, f"position={module}:Turn").stdout


def test_a_study_ends_in_the_answer_and_report_repeats_it(here: Command, here_json: Json) -> None:
    """As text or, with --json, as all there is on stdout; with the margin that it was given."""
    words = ["sweep", "study=blog", *SMOKE, "train.epochs=1", "executor.workers=1", "out=my runs"]
    words += ["seed=range(3)", "--margin=2"]
    done = here(*words)
    assert done.returncode == 0, done.stderr
    answer, _, results = done.stdout.rpartition("Results: ")
    assert results.startswith("my runs/blog. More: attnexp report 'my runs/blog'")
    assert "margin ±2" in answer
    assert here("report", "my runs/blog").stdout == answer
    assert here_json(*words) == here_json("report", "my runs/blog")


OF_A_RUN = [
    "train RUN", "config RUN", "evaluate RUN", "predict RUN good", "report RUN", "runs RUN",
    "probe RUN --do shuffle --limit 8", "report RUN --figure a.svg --show attention --run RUN",
]  # fmt: skip


@pytest.mark.parametrize("words", OF_A_RUN)
def test_a_run_has_three_names(here: Command, tmp_path: Path, template: Run, words: str) -> None:
    """Its id, its folder, and a folder that holds no other, however it is called."""
    path = template.path
    (tmp_path / "outputs").symlink_to(path.parents[1])
    (tmp_path / "out(1),a").symlink_to("outputs")
    printed = set()
    for name in (path.name, str(path), "out(1),a/"):
        done = here(*words.replace("RUN", name).split())
        assert done.returncode == 0, done.stderr
        printed.add(done.stdout.partition("\nNext:")[0])
    assert len(printed) == 1


def test_a_name_of_several_runs_is_none(refused: Refused, tmp_path: Path, template: Run) -> None:
    for name in ("4d2a", "4d2b"):
        shutil.copytree(template.path, tmp_path / "outputs/runs" / name)
    assert "outputs stands for 2 finished runs." in refused("evaluate", "outputs")
    assert "got outputs/runs/4d2b." in refused("evaluate", "outputs/runs/4d2a", "outputs/runs/4d2b")


def test_config_prints_settings_groups_and_costs(here: Command, here_json: Json) -> None:
    groups = here("config", "--groups").stdout
    assert yaml.safe_load(groups)["experiment"]["blog_pe"] == "K's run with positional encoding"
    settings = here("config", "position=rotary").stdout
    for line in (r"seed=0 +\w.{15,}", r"model.score.scale=true +\w.{15,}", " *position=rotary *"):
        assert re.search(f"^{line}$", settings, re.MULTILINE)
    assert here_json("config", "--cost", "experiment=blog_pe")["parameters"] == 2_609_281
    assert "a/r.csv" in here("data", "data=files", "data.path=a/r.csv,b/r.csv").stdout


WRONG = {
    "sweep data=contrast --metric f1": "Give --metric one of accuracy",
    "sweep study=blog seeds.init=0,1": "Crossed seed and seeds.init are not independent",
    "sweep study=blog position=rotary": "position=rotary: blog varies this setting itself",
    "sweep train.fast=true,false": "are the same run",
    "sweep 'executor.slurm={mem: 2GB}'": "executor.slurm would do nothing",
    "sweep study=blog train=blog,holdout --until decided": "one data set with one protocol",
    "sweep study=variance --until decided": "--until decided varies seed",
    "sweep data=contrast --until decided": "--until decided compares variants",
    "sweep study=blog tune=train.lr=1e-3,1e-2 tune.seeds=range(10)": "other seeds than those",
    "sweep study=variance tune=train.lr=1,2": "which may set no seeds",
    "sweep study=blog tune.seed=3 tune=train.lr=1,2": "Write tune=KEY=V1,V2",
    "sweep study=blog data=trec tune=data.hub=a,b": "tune= takes settings other than data",
    "sweep train=blog,holdout tune=train.lr=1,2": "tune= chooses for one protocol",
    "sweep study=blog tune=out=a,b": "'no_pe out=a' and 'no_pe out=b' are the same run",
    "sweep study=blog tune=train.lr=1,2 --until decided": "do not go together",
    "sweep name=a/b": "a sweep's name has letters",
    "sweep data=imdb,files data.path=a/r.csv": "on r.csv, seed 0'. Use two sweeps",
    "train data=contrast model.d_head=1000000000": "Memory does not suffice. ",
    "sweep -m seed=1,2": "If it is a setting, leave out the dashes",
    "train data=contrast data.limit_train=9999": "_train=9999, but there are 4000 texts. Use 4000",
    "evaluate outputs/fffff": "attnexp runs lists",
    "report STUDY --table across": "across takes verdicts on two data sets",
    "report STUDY --metric loss": "smallest difference of loss that matters",
    "report STUDY --html a.html --show forest": "--show is for --figure FILE",
    "report STUDY --html a.html --text a": "--text is for --run",
    "report STUDY --figure a.svg --show positions": "Give one with --run RUN_DIR",
    "report STUDY --html nowhere/a.html": "file or directory: 'nowhere/a.html'",
    "judge nowhere.csv": "Error: [Errno 2] No such file or directory: 'nowhere.csv'",
    "runs nowhere": "There is no folder nowhere",
    "runs .": "There is no run",
    "claims C99": "C99",
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_input_gets_one_message(refused: Refused, tmp_path: Path, words: str) -> None:
    given = shlex.split(words.replace("STUDY", str(PUBLISHED / "contrast")))
    assert WRONG[words] in refused(*given)
    assert not list(tmp_path.iterdir())


def test_a_run_that_diverges_exits_with_1(here: Command) -> None:
    done = here("train", *SMOKE, "train.lr=1e38")
    assert done.returncode == 1
    assert "A smaller train.lr" in done.stderr


def test_a_terminal_gets_a_live_bar(here: Command, monkeypatch: Patch) -> None:
    monkeypatch.setattr(progress.PlainConsole, "is_terminal", True)
    monkeypatch.setattr(progress.console, "is_interactive", True)
    done = here("train", *SMOKE, "data.limit_train=null")
    assert done.returncode == 0
    assert "epoch 2/2" in done.stderr
    assert "100%" in done.stderr
    assert re.search(r" [1-9][\d,]*/s", done.stderr)


@pytest.mark.parametrize("words", ["config --groups", "--help", "--version"])
def test_a_reader_that_has_enough_is_no_error(monkeypatch: Patch, words: str) -> None:
    """Here one that reads nothing. A text as short as the version is buffered until the end."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    pipe = ["bash", "-o", "pipefail", "-c", f"{PROGRAM} {words} | true"]
    done = subprocess.run(pipe, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def test_an_interruption_is_a_message_a_fault_an_error(here: Command, monkeypatch: Patch) -> None:
    monkeypatch.setattr("signal.signal", Mock())  # The tests need Ctrl-C afterwards.
    errors = [KeyboardInterrupt, RuntimeError("a fault")]
    monkeypatch.setattr(read_runs, "load_groups", Mock(side_effect=errors))
    done = here("report", "outputs")
    assert (done.returncode, done.stdout) == (130, "")
    assert "again to resume" in done.stderr
    with pytest.raises(RuntimeError, match="a fault"):
        here("report", "outputs")
