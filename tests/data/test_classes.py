"""More than two classes: one softmax and cross-entropy, and the same commands."""

import io
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from samples import Parsed, only, page, write_csv

from attnexp.config.compose import compose
from attnexp.inspect import insight, predict
from attnexp.model.classifier import build_model, cost_of
from attnexp.runs import predictions
from attnexp.runs.result import Run
from attnexp.training.evaluate import evaluate_run
from attnexp.training.loop import loss_of
from attnexp.training.metrics import measure
from attnexp.training.run import train_run

TASTES = {"sour": "lemon vinegar", "sweet": "honey sugar", "hot": "chili pepper"}
FILLER = "it has a hint of and some more".split()
NETWORK = "train.epochs=3 train.batch_size=8 train.lr=0.02 model.d_model=16 model.heads=2"


@pytest.fixture(scope="module")
def tastes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of three classes, which one word of a text tells."""
    chance = random.Random(0)
    folder = tmp_path_factory.mktemp("tastes") / "tastes"
    folder.mkdir()
    for split, n in (("train", 240), ("test", 60)):
        rows = []
        for i in range(n):
            label = list(TASTES)[i % 3]
            words = [*chance.choices(FILLER, k=6), chance.choice(TASTES[label].split())]
            rows.append((" ".join(chance.sample(words, 7)), label))
        write_csv(folder / f"{split}.csv", rows)
    return folder


def trained(data: Path, words: str) -> Run:
    """The run of these words, which is trained once."""
    out = data.parent / "outputs"
    config = compose(f"data=files data.path={data} data.max_len=8 out={out} {words}".split())
    path, result = train_run(config)
    return Run(path=path, result=result)


@pytest.mark.parametrize(
    "words", [f"{NETWORK} train=holdout", f"{NETWORK} model.hidden=8", "model=tfidf"]
)
def test_what_a_run_has_learned_can_be_measured_again(tastes: Path, words: str) -> None:
    run = trained(tastes, words)
    assert sorted(run.result.classes) == sorted(TASTES)
    assert run.result.final.val_accuracy > 0.9
    stored, measured = evaluate_run(run.path)
    assert measured == stored == run.result.test
    said = predictions.load(run)
    found = measure(said[predictions.FINAL], said[predictions.VAL_LABELS])
    final = run.result.final
    assert said[predictions.FINAL].shape == (run.result.data["n_val"], 3)
    assert (found.loss, found.brier, found.ece) == (final.val_loss, final.val_brier, final.val_ece)


def test_a_text_is_given_a_class_by_its_name(tastes: Path) -> None:
    run = trained(tastes, f"{NETWORK} train=holdout")
    read = insight.reader(run)
    for label, telling in TASTES.items():
        reading = read(f"it has some {telling}")
        assert reading.label == label
        assert sum(reading.probabilities.values()) == pytest.approx(1)
        console = Console(file=io.StringIO(), width=80)
        predict.print_reading(reading, None, console)
        said = console.file.getvalue()  # type: ignore[attr-defined]
        assert said.startswith(f"{label} {reading.confidence:.4f}, ")
        assert predict.to_json(reading, None)["probabilities"] == reading.probabilities


def test_variants_are_compared_text_by_text_and_shown_on_the_page(tastes: Path) -> None:
    words = "train.epochs=1 train.batch_size=8 model.d_model=16 model.heads="
    runs = [trained(tastes, f"{words}{heads}") for heads in (8, 1)]
    comparison = only(runs)
    (by_point,) = comparison.differences.values()
    (mcnemar,) = by_point["final"].mcnemar.values()
    assert mcnemar.only_variant != mcnemar.only_baseline
    difference = by_point["final"].metrics["accuracy"].difference.mean
    assert mcnemar.only_variant - mcnemar.only_baseline == pytest.approx(60 * difference)
    reading = insight.look(runs[0]).reading
    assert reading is not None
    said = f"The model finds it {reading.label} with probability {reading.confidence:.4f}."
    assert said in Parsed(page(runs, runs[0])).text


def test_more_classes_change_the_last_layer_alone() -> None:
    config = compose(["data=contrast", "model.hidden=8"])
    two, five = (build_model(config, num_classes).state_dict() for num_classes in (2, 5))
    assert two.keys() == five.keys()
    unlike = [name for name in two if not torch.equal(two[name], five[name])]
    assert unlike == ["output.3.weight", "output.3.bias"]
    more = cost_of(config, 5)["parameters"] - cost_of(config, 2)["parameters"]
    assert more == 4 * (8 + 1)


def test_softmax_over_two_classes_is_the_sigmoid() -> None:
    """Logits (0, x) have the loss of x alone; Brier's sum over both classes is twice as much."""
    generator = torch.Generator().manual_seed(0)
    x = 4 * torch.randn(200, generator=generator)
    x[0] = 0
    labels = torch.randint(0, 2, (200,), generator=generator).float()
    both = torch.stack([torch.zeros(200), x], dim=1)
    torch.testing.assert_close(loss_of(both, labels), loss_of(x, labels))
    one, two = measure(x.numpy(), labels.numpy()), measure(both.numpy(), labels.numpy())
    assert (two.loss, two.accuracy, two.brier, two.ece) == pytest.approx(
        (one.loss, one.accuracy, 2 * one.brier, one.ece)
    )


def test_figures_of_several_classes_are_scikit_learns() -> None:
    from sklearn.metrics import accuracy_score, log_loss

    rng = np.random.default_rng(0)
    logits, labels = 3 * rng.normal(size=(300, 4)), rng.integers(0, 4, 300)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    found = measure(logits, labels)
    assert found.loss == pytest.approx(log_loss(labels, p))
    assert found.accuracy == accuracy_score(labels, p.argmax(axis=1))
    assert found.brier == pytest.approx(np.square(p - np.eye(4)[labels]).sum(axis=1).mean())
    shifted, order = measure(logits + 500, labels), rng.permutation(4)
    swapped = measure(logits[:, order], np.argsort(order)[labels])
    for same in (shifted, swapped):
        assert (same.loss, same.brier, same.ece) == pytest.approx(
            (found.loss, found.brier, found.ece)
        )


@pytest.mark.parametrize("tokenizer", ["characters", "by_letters:by_letters"])
def test_a_language_without_spaces_is_learned_by_its_characters(
    tokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "by_letters.py").write_text("def by_letters(text):\n    return [*text]\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    chance = random.Random(0)
    (folder := tmp_path / "texts").mkdir()
    for split in ("train", "test"):
        fillers = ["".join(chance.sample("这部电影我看了两遍觉得", 11)) for _ in range(60)]
        rows = [(f"{filler}{'坏好'[i % 2]}。", i % 2) for i, filler in enumerate(fillers)]
        write_csv(folder / f"{split}.csv", rows)
    words = f"model=tfidf data.tokenizer={tokenizer}"
    run = trained(folder, f"{words} data.max_len=80")
    assert run.result.test.accuracy == 1
    stored, measured = evaluate_run(run.path, trust_code=True)
    assert measured == stored
    assert insight.reader(run, trust_code=True)("我觉得这部电影坏").label == "negative"
    assert trained(folder, "model=tfidf").result.test.accuracy == 0.5
