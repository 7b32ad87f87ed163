"""A trained model reads texts: as it did in its run, from anywhere, and told where it cannot."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Command, Json, Patch, Refused
from made_up import made_reading
from samples import FEW_TEXTS
from scipy.special import expit

import attnexp
from attnexp.base import SENTENCE
from attnexp.config.compose import compose
from attnexp.data.encode import load_once
from attnexp.data.text import to_text
from attnexp.inspect import insight
from attnexp.report.reading import as_line
from attnexp.runs import predictions
from attnexp.runs.result import Run
from attnexp.training.run import train_run

TEXT = "The plot was superb, frabjous!"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    words = "data=contrast data.limit_train=1000 data.limit_test=64 position=sinusoidal".split()
    words += ["train.epochs=4", "train.lr=3e-3", "train.threads=1"]
    path, result = train_run(compose([*words, f"out={tmp_path_factory.mktemp('trained')}"]))
    return Run(path=path, result=result)


def trained(folder: Path, *words: str) -> insight.TrainedModel:
    path, _ = train_run(compose([*FEW_TEXTS, f"out={folder}", *words]))
    return insight.load_model(path)


def test_the_example_and_its_mirror_have_opposite_labels(run: Run) -> None:
    model = insight.load_model(run.path)
    assert model.read(SENTENCE).label == "negative"
    assert model.read("the cast was dreadful but the plot was superb").label == "positive"


def test_a_loaded_model_gives_the_probabilities_of_its_run(run: Run) -> None:
    model = attnexp.load_model(run.path)
    data = load_once(model.config.data)
    reviews = [to_text(ids, data.words) for ids in data.test.ids[:50]]
    logits = predictions.load_arrays(run, predictions.FILE)["final"][:50]
    probabilities = model.predict_proba(reviews)
    np.testing.assert_allclose(probabilities[:, 1], expit(logits), atol=1e-5)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    again = model.model(model.encode(reviews))
    np.testing.assert_allclose(again.detach(), logits, atol=1e-5)
    no_texts: Any = [None]
    for texts in (reviews[0], no_texts):
        with pytest.raises(ValueError, match="take a list of texts"):
            model.predict_proba(texts)


@pytest.mark.parametrize(("mask", "share"), [("none", 75 / 80), ("padding", 0)])
def test_padding_that_is_seen_takes_its_share(tmp_path: Path, mask: str, share: float) -> None:
    model = trained(tmp_path, "model.score=uniform", "data.max_len=80", f"mask={mask}")
    attention = model.read("the plot was superb").attention()
    assert attention.weights.shape == (8, 5, 5)
    assert attention.padding_share == pytest.approx(share)


def test_attention_of_the_summary_token_and_the_table_of_positions(tmp_path: Path) -> None:
    words = "model.pooling=cls model.layers=2 data.max_len=6 position=learned".split()
    model = trained(tmp_path, *words)
    reading = model.read("the cast was superb but the plot was dreadful")
    assert reading.tokens == [insight.SUMMARY, *"superb but the plot was dreadful".split()]
    assert reading.num_cut == 3
    assert reading.table is not None
    assert reading.table.shape == (7, 8)
    for layer in reading.layers:
        np.testing.assert_allclose(layer.weights.sum(axis=-1), 1, atol=1e-5)


def test_tokens_are_said_with_what_they_receive(run: Run, here_json: Json) -> None:
    (record,) = here_json("predict", run.path, TEXT)["texts"]
    (third,) = here_json("predict", run.path, TEXT, "--head", "3")["texts"]
    assert record["tokens"] == [insight.START, *"the plot was superb frabjous".split()]
    assert record["known"] == [True] * 5 + [False]
    probabilities = record["probabilities"]
    assert record["label"] == max(probabilities, key=probabilities.get)
    received = np.mean(record["maps"][0], axis=1)  # of layer 1: (heads, queries, keys)
    np.testing.assert_allclose(received.mean(axis=0), record["attention"], atol=1e-6)
    np.testing.assert_allclose(received[2], third["attention"], atol=1e-6)


def test_each_line_is_a_text(run: Run, here: Command, here_json: Json, monkeypatch: Patch) -> None:
    text = f"\n{TEXT}\n\nplot \udcff\n"  # a byte that is no UTF-8
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    first, _ = here("predict", run.path).stdout.splitlines()
    assert "frabjous?" in first
    assert "\x1b" not in first
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    records = here_json("predict", run.path)["texts"]
    assert [record["line"] for record in records] == [2, 4]


def test_the_token_that_receives_most_is_darkest() -> None:
    reading = replace(made_reading("a b", num_padding=6), num_cut=2)
    line = as_line(reading, None)
    assert "black on rgb(240,130,20)" in [span.style for span in line.spans]
    assert "(darkest: 0.125, padding: 75 %, without 2 words beyond" in line.plain
    assert "padding" not in as_line(made_reading("a b"), None).plain


@pytest.mark.parametrize("head", ["9", "0"])
def test_a_head_that_is_not_there_is_reported(run: Run, refused: Refused, head: str) -> None:
    assert f"There is no head {head}:" in refused("predict", run.path, TEXT, "--head", head)
