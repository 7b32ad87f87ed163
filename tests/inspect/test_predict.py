"""A trained model reads texts: as it did in its run, from anywhere, and told where it cannot."""

import io
import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from conftest import Command, Json, Refused
from rich.console import Console
from samples import stored

from attnexp.cli import app
from attnexp.config.compose import compose
from attnexp.data import contrast
from attnexp.inspect import insight, predict
from attnexp.runs import predictions, store
from attnexp.runs.result import Run
from attnexp.training.run import train_run

TEXT = "The plot was superb, frabjous!"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run of the examples, which knows order after two epochs."""
    words = ["data=contrast", "position=sinusoidal", "train.epochs=2", "train.threads=1"]
    path, result = train_run(compose([*words, f"out={tmp_path_factory.mktemp('trained')}"]))
    return Run(path=path, result=result)


def test_the_examples_of_help_are_a_sentence_and_its_mirror_with_opposite_labels(
    trained: Run,
) -> None:
    commands: Any = typer.main.get_command(app)
    examples = [
        shlex.split(line)[-1]
        for line in commands.commands["predict"].help.splitlines()
        if "Example:" in line
    ]
    assert len({tuple(sorted(text.split())) for text in examples}) == 1
    labels = [reading.label for reading in predict.readings(trained.path, examples)]
    assert labels == ["negative", "positive"]


def test_probabilities_are_those_of_the_run(trained: Run) -> None:
    run = trained
    read = insight.reader(run)
    reviews = contrast.generate(run.result.config["data"]["order_fraction"]).test.texts
    assert isinstance(reviews, list)
    expected = 1 / (1 + np.exp(-predictions.load(run)[predictions.FINAL][:50]))
    assert [read(review).probabilities["positive"] for review in reviews[:50]] == pytest.approx(
        expected, abs=1e-5
    )


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    run = stored(tmp_path / "run", "model.heads=2")
    store.save(run.path, run.result)
    return run.path


def test_tokens_are_said_with_what_they_receive(here_json: Json, run_dir: Path) -> None:
    document = here_json("predict", str(run_dir), TEXT)
    (found,) = document["texts"]
    assert document["schema"] == 1
    assert found["tokens"] == ["⟨start⟩", "the", "plot", "was", "superb", "frabjous"]
    assert found["known"] == [True] * 5 + [False]
    assert found["label"] == ("positive" if found["positive"] > 0.5 else "negative")
    assert found["probabilities"]["positive"] == found["positive"]
    assert sum(found["probabilities"].values()) == pytest.approx(1)
    assert len(found["attention"]) == 6
    num_heads = store.load(run_dir).config["model"]["heads"]
    by_head = [
        here_json("predict", str(run_dir), TEXT, "--head", str(head))["texts"][0]["attention"]
        for head in range(1, num_heads + 1)
    ]
    np.testing.assert_allclose(np.mean(by_head, axis=0), found["attention"], atol=1e-6)


def test_lines_come_from_stdin_and_from_a_file(
    here: Command, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = f"{TEXT}\n\nthe cast was dreadful\n"
    (file := run_dir / "lines.txt").write_text(lines)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    piped = here("predict", run_dir).stdout
    assert piped.count("⟨start⟩") == 2
    assert "frabjous?" in piped
    assert "\x1b" not in piped
    assert here("predict", run_dir, "--file", file).stdout == piped
    assert here("predict", run_dir, TEXT).stdout == piped.splitlines(keepends=True)[0]


@pytest.mark.parametrize("no_color", ["", "1"])
def test_a_terminal_gets_colours_unless_it_wants_none(run_dir: Path, no_color: str) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, color_system="truecolor",
                      _environ={"NO_COLOR": no_color})  # fmt: skip
    (reading,) = predict.readings(run_dir, [TEXT])
    predict.print_reading(reading, None, console)
    seen = console.file.getvalue()  # type: ignore[attr-defined]
    assert ("\x1b[30;48" in seen) is not bool(no_color)


def test_a_model_without_attention_reads_too(
    here: Command, refused: Refused, tmp_path: Path
) -> None:
    words = ["data=contrast", "data.limit_train=64", "data.limit_test=64", "train.epochs=1"]
    done = here("train", *words, "model=mean", "--json")
    run_dir = tmp_path / "outputs/runs" / json.loads(done.stdout)["run_id"]
    found = json.loads(here("predict", str(run_dir), TEXT, "--json").stdout)["texts"][0]
    assert found["attention"] is None
    assert 0 < found["positive"] < 1
    assert "has no attention" in refused("predict", str(run_dir), TEXT, "--head", "1")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([TEXT, "--head", "99"], "There is no head 99"),
        ([TEXT, "--head", "0"], "There is no head 0"),
        ([TEXT, "--file", "a.txt"], "not both"),
        (["--file", "missing.txt"], "missing.txt cannot be read"),
        (["  "], "no text to read"),
    ],
)
def test_wrong_words_are_reported(
    refused: Refused, run_dir: Path, words: list[str], message: str
) -> None:
    assert message in refused("predict", str(run_dir), *words)
