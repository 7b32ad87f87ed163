"""A trained model reads texts: as it did in its run, from anywhere, and told where it cannot."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from attnexp.base import SENTENCE
from attnexp.cli import app
from attnexp.config.compose import compose
from attnexp.data import contrast
from attnexp.inspect import insight
from attnexp.inspect.insight import Attention, Reading, shade
from attnexp.runs import predictions, store
from attnexp.runs.result import Run
from attnexp.training.run import train_run

TEXT = "The plot was superb, frabjous!"
SMALL = "data=contrast data.limit_train=64 data.limit_test=64 train.epochs=1".split()


def command(*words: str | Path, stdin: str = "") -> tuple[int, str, str]:
    """Exit code, stdout, and stderr on one line."""
    done = CliRunner().invoke(app, [str(word) for word in words], input=stdin)
    return done.exit_code, done.stdout, " ".join(done.stderr.split())


def run_of(path: Path) -> Run:
    return Run(path=path, result=store.load(path))


def a_reading(**other: Any) -> Reading:
    """Three tokens, the last unknown, under uniform attention over them and five of padding."""
    weights = np.full((2, 3, 3), 1 / 8, np.float32)
    given: dict[str, Any] = {
        "tokens": [insight.START, "plot", "frabjous"],
        "known": [True, True, False],
        "num_cut": 0,
        "probabilities": {"negative": 0.25, "positive": 0.75},
        "layers": [Attention(weights=weights, num_keys=8)],
        "table": None,
    }
    return Reading(**(given | other))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run of the examples, which knows order after two epochs."""
    words = ["data=contrast", "position=sinusoidal", "train.epochs=2", "train.threads=1"]
    path, result = train_run(compose([*words, f"out={tmp_path_factory.mktemp('trained')}"]))
    return Run(path=path, result=result)


def test_the_example_and_its_mirror_have_opposite_labels(run: Run) -> None:
    mirror = "the cast was dreadful but the plot was superb"
    labels = [reading.label for reading in map(insight.reader(run), [SENTENCE, mirror])]
    assert labels == ["negative", "positive"]


def test_probabilities_are_those_of_the_run(run: Run) -> None:
    read = insight.reader(run)
    corpus = contrast.generate_corpus(run.result.config["data"]["order_fraction"])
    reviews = [*corpus.rows.text[corpus.parts["test"]]]
    expected = 1 / (1 + np.exp(-predictions.load(run)[predictions.FINAL][:50]))
    assert [read(review).probabilities["positive"] for review in reviews[:50]] == pytest.approx(
        expected, abs=1e-5
    )


@pytest.mark.parametrize("num_tokens", [2, 9, 80])
def test_uniform_attention_has_one_light_shade_in_every_text(num_tokens: int) -> None:
    uniform = np.full((3, num_tokens), 1 / num_tokens)
    assert shade(uniform) == pytest.approx(0.25)
    assert shade(uniform / 2, 2 * num_tokens) == pytest.approx(0.25)  # half of it goes to padding
    assert shade(np.eye(num_tokens))[0].tolist() == [
        min(1, num_tokens / 4),
        *[0] * (num_tokens - 1),
    ]
    assert a_reading().shades() == pytest.approx(0.25)


def test_padding_counts_where_it_is_attended_to(tmp_path: Path) -> None:
    words = [*SMALL, "model.score=uniform", f"out={tmp_path}"]
    for more, num_keys in (([], 80), (["mask=padding"], 5)):
        path, _ = train_run(compose([*words, "data.max_len=80", *more]))
        reading = insight.reader(run_of(path))("the plot was superb")
        assert reading.attention().num_keys == num_keys
        assert reading.shades() == pytest.approx(0.25)
        with pytest.raises(ValueError, match="1 layers of 8 heads"):
            reading.attention(layer=2)


def test_attention_of_the_summary_token_and_the_table_of_positions(tmp_path: Path) -> None:
    words = "model.pooling=cls model.layers=2 data.max_len=6 position=learned".split()
    path, _ = train_run(compose([*SMALL, *words, f"out={tmp_path}"]))
    reading = insight.reader(run_of(path))("the cast was superb but the plot was dreadful")
    assert reading.tokens == [insight.SUMMARY, *"superb but the plot was dreadful".split()]
    assert reading.num_cut == 3
    assert reading.table is not None
    assert reading.table.shape == (7, 128)
    for layer in reading.layers:
        assert layer.weights.sum(axis=-1) == pytest.approx(1, abs=1e-5)
        np.testing.assert_allclose(reading.attention(head=3).mean, reading.layers[0].weights[2])


def test_tokens_are_said_with_what_they_receive(run: Run) -> None:
    code, out, err = command("predict", run.path, TEXT, "--json")
    (found,) = json.loads(out)["texts"]
    assert (code, err) == (0, "")
    assert found["tokens"] == [insight.START, "the", "plot", "was", "superb", "frabjous"]
    assert found["known"][-1] is False
    assert found["label"] == max(found["probabilities"], key=found["probabilities"].get)
    assert sum(found["probabilities"].values()) == pytest.approx(1)
    by_head = [
        json.loads(command("predict", run.path, TEXT, "--head", head, "--json")[1])["texts"][0]
        for head in "12345678"
    ]
    received = [one["attention"] for one in by_head]
    np.testing.assert_allclose(np.mean(received, axis=0), found["attention"], atol=1e-6)


def test_a_text_of_unknown_words_gets_no_probability(run: Run) -> None:
    code, out, _ = command("predict", run.path, "frabjous callooh")
    assert (code, out) == (0, "none of these words is known  ⟨start⟩ frabjous? callooh?\n")
    (found,) = json.loads(command("predict", run.path, "!", "--json")[1])["texts"]
    assert (found["label"], found["probabilities"]) == (None, None)
    assert a_reading(tokens=["good", "good?"], known=[False, False]).label is None


def test_lines_come_from_stdin_and_a_terminal_is_prompted(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = command("predict", run.path, stdin=f"{TEXT}\n\nthe cast was dreadful\n")
    assert (code, out.count(insight.START), err) == (0, 2, "")
    assert "frabjous?" in out
    assert "\x1b" not in out
    assert command("predict", run.path, TEXT)[1] == out.splitlines(keepends=True)[0]
    assert command("predict", run.path, stdin=f"\ufeff{TEXT}\n")[1] == out.splitlines(True)[0]
    assert command("predict", run.path, TEXT + 20 * " plot")[1].count("\n") == 1  # a line a text
    assert command("predict", run.path, f"{TEXT} \udcff")[0] == 0  # a byte that is no UTF-8
    terminal = type("Terminal", (io.BytesIO,), {"isatty": lambda self: True})
    assert [*insight.lines(None, terminal(b"good\n"))] == ["good"]
    assert "Ctrl-D" in capsys.readouterr().err


def test_a_terminal_gets_colours() -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, color_system="truecolor", width=200)
    console.print(insight.to_text(a_reading(num_cut=2), None))
    assert "\x1b[30;48;2;251;224;196m" in file.getvalue()
    assert "without 2 words beyond what training saw" in file.getvalue()


def test_a_model_without_attention_reads_too(tmp_path: Path) -> None:
    path, _ = train_run(compose([*SMALL, "model=mean", f"out={tmp_path}"]))
    (found,) = json.loads(command("predict", path, TEXT, "--json")[1])["texts"]
    assert found["attention"] is None
    assert found["label"] in ("negative", "positive")
    assert "has no attention" in command("predict", path, TEXT, "--head", "1")[2]


@pytest.mark.parametrize("words", [[TEXT, "--head", "99"], [TEXT, "--head", "0"], [" "]])
def test_wrong_words_are_reported(run: Run, words: list[str]) -> None:
    code, out, err = command("predict", run.path, *words)
    assert (code, out) == (2, "")
    assert "There is no" in err
