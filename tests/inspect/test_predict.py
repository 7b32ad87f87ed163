"""A trained model reads texts: as it did in its run, from anywhere, and told where it cannot."""

import json
import os
import pty
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import Command, Json, Refused
from forked import PROGRAM
from samples import stored

from attnexp.data import contrast
from attnexp.inspect import insight
from attnexp.runs import predictions, store
from attnexp.runs.result import Run

TEXT = "The plot was superb, frabjous!"


def test_probabilities_are_those_of_the_run(attnexp: Command, tmp_path: Path) -> None:
    words = ["data=contrast", "data.limit_train=64", "train.epochs=1"]
    assert attnexp("train", *words).returncode == 0
    (run_dir,) = (tmp_path / "outputs/runs").glob("*-*")
    run = Run(path=run_dir, result=store.load(run_dir))
    read = insight.reader(run)
    reviews = contrast.generate(run.result.config["data"]["order_fraction"]).test.texts
    assert isinstance(reviews, list)
    expected = 1 / (1 + np.exp(-predictions.load(run)[predictions.FINAL][:50]))
    assert [read(review).probabilities["positive"] for review in reviews[:50]] == pytest.approx(
        expected, abs=1e-5
    )


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    run = stored(tmp_path / "run")
    store.save(run.path, run.result)
    return run.path


def test_tokens_are_said_with_what_they_receive(attnexp_json: Json, run_dir: Path) -> None:
    document = attnexp_json("predict", str(run_dir), TEXT)
    (found,) = document["texts"]
    assert document["schema"] == 1
    assert found["tokens"] == ["⟨start⟩", "the", "plot", "was", "superb", "frabjous"]
    assert found["known"] == [True] * 5 + [False]
    assert found["label"] == ("positive" if found["positive"] > 0.5 else "negative")
    assert found["probabilities"] == {
        "negative": 1 - found["positive"],
        "positive": found["positive"],
    }
    assert len(found["attention"]) == 6
    num_heads = store.load(run_dir).config["model"]["heads"]
    by_head = [
        attnexp_json("predict", str(run_dir), TEXT, "--head", str(head))["texts"][0]["attention"]
        for head in range(1, num_heads + 1)
    ]
    np.testing.assert_allclose(np.mean(by_head, axis=0), found["attention"], atol=1e-6)


def test_lines_come_from_stdin_and_from_a_file(attnexp: Command, run_dir: Path) -> None:
    lines = f"{TEXT}\n\nthe cast was dreadful\n"
    piped = subprocess.run(
        [PROGRAM, "predict", str(run_dir)], input=lines, capture_output=True, text=True
    )
    assert piped.returncode == 0, piped.stderr
    assert piped.stdout.count("⟨start⟩") == 2
    assert "frabjous?" in piped.stdout
    assert "\x1b" not in piped.stdout
    file = run_dir / "lines.txt"
    file.write_text(lines)
    assert attnexp("predict", str(run_dir), "--file", str(file)).stdout == piped.stdout
    assert attnexp("predict", str(run_dir), TEXT).stdout == piped.stdout.splitlines(True)[0]


@pytest.mark.parametrize("no_color", ["", "1"])
def test_a_terminal_gets_colours_unless_it_wants_none(run_dir: Path, no_color: str) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    environment.pop("NO_COLOR", None)
    subprocess.run(
        [PROGRAM, "predict", str(run_dir), TEXT],
        stdout=theirs, check=True,
        env=environment | ({"NO_COLOR": no_color} if no_color else {}),
    )  # fmt: skip
    os.close(theirs)
    seen = os.read(ours, 65536).decode()
    os.close(ours)
    assert ("\x1b[30;48" in seen) is not bool(no_color)


def test_a_model_without_attention_reads_too(
    attnexp: Command, refused: Refused, tmp_path: Path
) -> None:
    words = ["data=contrast", "data.limit_train=64", "data.limit_test=64", "train.epochs=1"]
    done = attnexp("train", *words, "model=mean", "--json")
    run_dir = tmp_path / "outputs/runs" / json.loads(done.stdout)["run_id"]
    found = json.loads(attnexp("predict", str(run_dir), TEXT, "--json").stdout)["texts"][0]
    assert found["attention"] is None
    assert 0 < found["positive"] < 1
    assert "has no attention" in refused("predict", str(run_dir), TEXT, "--head", "1")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([TEXT, "--head", "99"], "There is no head 99"),
        ([TEXT, "--head", "0"], "There is no head 0"),
        ([TEXT, "--file", "a.txt"], "not both"),
        (["--file", "missing.txt"], "missing.txt cannot be read"),
        (["  "], "no text to read"),
    ],
)
def test_wrong_words_are_told(refused: Refused, run_dir: Path, words: list[str], told: str) -> None:
    assert told in refused("predict", str(run_dir), *words)
