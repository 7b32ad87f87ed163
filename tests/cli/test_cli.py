"""The installed command, from outside: what it prints, where, and with which exit code."""

import io
import os
import re
import shlex
import shutil
from pathlib import Path

import pytest
from conftest import Command, Json, Refused
from samples import exit_code, interrupted, on_a_terminal, outcomes, write_reviews

from attnexp.cli import main
from attnexp.config.compose import compose
from attnexp.training.run import train_run

SMOKE = ["experiment=smoke", "data.limit_train=64", "data.limit_test=64"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The outputs of one run, with positions."""
    out = tmp_path_factory.mktemp("trained")
    train_run(compose([*SMOKE, "position=sinusoidal", f"out={out}"]))
    return out


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> str:
    """The folder of that run, copied to where commands are called."""
    shutil.copytree(trained, tmp_path / "outputs")
    (run_dir,) = (tmp_path / "outputs/runs").glob("*-*")
    return str(run_dir)


def test_train_says_where_the_results_are_and_commands_that_work(
    here: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["train", *SMOKE, "position=rotary", "seed=4"]
    done = here(*words)
    assert done.returncode == 0, done.stderr
    assert "contrast (synthetic), validated on test" in done.stdout
    (results,) = re.findall("^Results: (.*)", done.stdout, re.MULTILINE)
    assert (tmp_path / results / "result.json").exists()
    lines = done.stderr.splitlines()
    assert [line.split()[:2] for line in lines] == [["epoch", "1/2"], ["epoch", "2/2"]]
    again = here(*words)
    assert (again.returncode, again.stdout) == (0, done.stdout)
    assert again.stderr == "This run has finished before. To do it once more: --again.\n"
    predict, report, sweep = (
        shlex.split(line)[1:] for line in done.stdout.partition("\nNext:\n")[2].splitlines()
    )
    monkeypatch.chdir(tmp_path)
    assert exit_code(*predict) == exit_code(*report) == 0
    assert "<h1>" in Path("page.html").read_text()
    assert "position=none,rotary" in sweep
    assert "12 runs, 1 finished before" in here(*sweep, "--dry-run").stdout


def test_a_study_ends_in_the_comparison_and_report_repeats_it(
    here: Command, here_json: Json
) -> None:
    """As text or, with --json, as all there is on stdout."""
    words = ["sweep", "study=blog", *SMOKE, "seed=range(2)", "executor.workers=1", "out=my runs"]
    first = here(*words)
    assert first.returncode == 0, first.stderr
    assert "pe − no_pe" in first.stdout
    assert "reaches 50.00 % at most" in first.stdout
    assert max(map(len, first.stdout.splitlines())) <= 80
    again = here(*words)
    assert again.stdout == first.stdout
    assert again.stderr.count("finished before") == 4
    tables, _, results = first.stdout.rpartition("\nResults: ")
    assert results == "my runs/blog\nAgain: attnexp report 'my runs/blog'\n"
    assert here("report", "my runs/blog").stdout == tables
    swept = here_json(*words)
    assert here_json("report", "my runs/blog") == swept
    (study,), (bare,) = swept["comparisons"], here_json("report", "my runs")["comparisons"]
    assert [variant["label"] for variant in study["variants"]] == ["no_pe", "pe"]
    assert [*bare["differences"].values()] == [*study["differences"].values()]


@pytest.mark.usefixtures("run")
def test_a_terminal_without_unicode_is_given_ascii(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.environ", {**os.environ})
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    monkeypatch.setattr("sys.argv", ["attnexp", "report", "outputs"])
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(shown := io.BytesIO(), "ascii"))
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 0
    assert "contrast attention sinusoidal" in shown.getvalue().decode("ascii")
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("run")
def test_wrong_words_of_report_get_a_message_and_no_page(refused: Refused, tmp_path: Path) -> None:
    for words, message in (
        (["--run", "outputs"], "--html FILE"),
        (["--html", "other.html", "--run", "outputs"], "is not a run's folder"),
        (["--margin", "0"], "--margin takes a number above 0"),
        (["--margin", "100"], "--margin of accuracy is in points, below 100"),
        (["--lower", "loss"], "--margin loss=0.01"),
    ):
        assert message in refused("report", "outputs", *words)
    assert not (tmp_path / "other.html").exists()


@pytest.mark.usefixtures("run")
def test_a_dry_run_lists_the_runs_and_their_time_and_trains_none(
    here: Command, here_json: Json, tmp_path: Path
) -> None:
    words = ["sweep", *SMOKE, "position=none,sinusoidal", "seed=0,1", "--dry-run"]
    planned = here_json(*words)
    assert [(run["variant"], run["seed"], run["finished"]) for run in planned["runs"]] == [
        ("position=none", "0", False),
        ("position=sinusoidal", "0", True),
        ("position=none", "1", False),
        ("position=sinusoidal", "1", False),
    ]
    runs = sum(run["seconds"] or 0 for run in planned["runs"])
    assert planned["seconds"] == planned["start_up"] + runs > runs > 0
    shown = here(*words)
    assert "4 runs, 1 finished before, 3 to do: about" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert len(list(tmp_path.rglob("result.json"))) == 1


def test_evaluate_gives_the_stored_figures_and_measures_other_reviews(
    here: Command, here_json: Json, refused: Refused, run: str, tmp_path: Path
) -> None:
    assert "The same to the last bit." in here("evaluate", run).stdout
    write_reviews(tmp_path, *[["the cast was dull", "the plot was superb"]] * 2)
    assert here_json("evaluate", run, f"data.path={tmp_path}")["measured"]["n"] == 2
    assert "takes only data.path" in refused("evaluate", run, "model.heads=4")


@pytest.mark.usefixtures("_own_cache")
def test_data_prepare_fills_the_cache_and_data_shows_it(here: Command, tmp_path: Path) -> None:
    write_reviews(tmp_path, *[["bad", "good"]] * 2)
    words = ["data=files", f"data.path={tmp_path}"]
    assert "; encoded" not in here("data", *words).stdout
    prepared = here("data", "prepare", *words)
    assert prepared.returncode == 0, prepared.stderr
    assert "2 + 2 texts, keras tokens" in prepared.stdout
    assert "2 classes: negative 1 + 1; positive 1 + 1" in prepared.stdout
    assert "median 1, 95 % up to 1, longest 1" in prepared.stdout
    assert "data.max_len=80 cuts 0.0 % of the texts" in prepared.stdout
    assert "negative  bad" in prepared.stdout
    assert "imdb" not in prepared.stdout  # only what was asked for
    shown = here("data", *words).stdout
    assert f"parquet files in {tmp_path}; encoded" in shown
    assert "2 + 2 texts, keras tokens" in shown
    (cached,) = (tmp_path / "cache").iterdir()
    cached.write_bytes(b"damaged")
    assert "made again when needed" in here("data", *words).stdout


WRONG = {
    "train modle.heads=4": "Did you mean 'model.heads'?",
    "train data.path=EMPTY": "in no known format",
    "train --jsno": "--json",
    "train --seed 3": "without dashes: seed=3",
    "train data=contrast --model.heads=4": "without dashes: model.heads=4",
    "train --position": "without dashes: position=VALUE",
    "train data=contrast out=EMPTY": "out=DIR",
    "train data=contrast data.limit_train=9999": "data.limit_train=9999",
    "train data=imdb": "Or do without IMDB: data=contrast",
    "sweep data=contrast --max-seeds 9": "--max-seeds and --metric need --until decided",
    "config experiment=null": "experiment=null: there is no such experiment",
    "sweep study=blog executor=a:B": "executor=a:B: there is no such executor",
    "report /nowhere": "/nowhere",
    "evaluate /nowhere": "/nowhere",
    "predict /nowhere text": "/nowhere",
    "claims C99": "no claim C99",
}
"""One of each kind; the tests of each room have them all."""


@pytest.mark.parametrize("words", WRONG)
def test_wrong_input_gets_one_message_and_exit_code_2(
    refused: Refused, tmp_path: Path, words: str
) -> None:
    (tmp_path / "empty").write_bytes(b"")
    assert WRONG[words] in refused(*words.replace("EMPTY", str(tmp_path / "empty")).split())
    assert not list(tmp_path.rglob("result.json"))


def test_a_run_that_diverges_exits_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*SMOKE, "executor.workers=1", f"out={tmp_path}"]
    assert exit_code("sweep", *words, "train.lr=1e-3,1e38") == 1
    out, err = capsys.readouterr()
    assert "runs failed; 1 of 2 done, 1 failed" in err
    assert "train.lr=1e+38, seed 0: The loss is not finite" in err
    assert "train.lr=0.001: 1 run" in out
    assert exit_code("train", *SMOKE, "train.lr=1e38", f"out={tmp_path}") == 1
    assert "train.lr" in capsys.readouterr().err


@pytest.mark.slow
def test_an_interrupt_exits_with_130_and_the_sweep_goes_on_later(
    attnexp: Command, tmp_path: Path
) -> None:
    words = ["sweep", "data=contrast", "data.limit_train=400", "data.limit_test=64"]
    words += ["model.d_model=16", "seed=range(2)", "executor.workers=1"]
    code, said = interrupted(tmp_path, *words, at="[2/2]")  # the first run has finished
    assert code == 130, said
    again = "1 of 2 runs are done. Run the same command again for the other 1."
    assert again in " ".join(said.split())
    assert "Traceback" not in said
    assert len(list(tmp_path.rglob("result.json"))) == 1
    assert attnexp(*words).stderr.count("finished before") == 1
    assert len(list(tmp_path.rglob("result.json"))) == 2


def test_a_terminal_gets_a_live_bar(tmp_path: Path) -> None:
    text = on_a_terminal(tmp_path, "train", "data=contrast", "train.epochs=1", "data.limit_test=64")
    assert "epoch 1/1" in text
    assert "/125" in text  # batches done of all
    assert "/s" in text


@pytest.mark.slow
def test_a_terminal_gets_a_live_table_of_a_sweep(tmp_path: Path) -> None:
    """A sweep of several processes gives the figures of one run after another."""
    words = ["sweep", "data=contrast", "data.limit_train=512", "data.limit_test=256", "seed=0,1",
             "train.threads=1", "position=none,sinusoidal", "train.epochs=2"]  # fmt: skip
    text = on_a_terminal(tmp_path, *words, "executor.workers=2", "out=together")
    assert "0 of 4 done, 2 running, 2 waiting" in text
    assert "epoch 1/2" in text
    assert "runs/min" in text
    assert "best so far: position=" in text
    assert exit_code(*words, "executor.workers=1", f"out={tmp_path}/alone") == 0
    assert outcomes(tmp_path / "together") == outcomes(tmp_path / "alone")


def test_claims_are_chosen_by_id_and_judged(here_json: Json) -> None:
    found = here_json("claims", "c13", "C01", "C20")["claims"]
    assert [(row["id"], row["verdict"]) for row in found] == [
        ("C13", "holds"),
        ("C01", "holds"),
        ("C20", "not run"),
    ]
    assert "attnexp sweep study=blog" in found[2]["measured"]
