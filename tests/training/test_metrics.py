"""Metrics of logits and the TF-IDF baseline: those of scikit-learn, and calibration by hand."""

import numpy as np
import pytest
import torch
from sklearn import metrics
from torch import Tensor

from attnexp.training.metrics import measure
from attnexp.training.tfidf import TfidfModel

VOCAB = 60


@pytest.mark.parametrize("num_classes", [2, 4])
def test_every_figure_is_scikit_learns(num_classes: int) -> None:
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(500, num_classes)) * 3, rng.integers(0, num_classes, 500)
    probability = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    found = measure(logits[:, 1] - logits[:, 0] if num_classes == 2 else logits, labels)
    squares = np.square(probability - np.eye(num_classes)[labels]).sum(1)
    assert found.loss == pytest.approx(metrics.log_loss(labels, probability))
    assert found.brier == pytest.approx(squares.mean() / (2 if num_classes == 2 else 1))
    f1 = metrics.f1_score(labels, logits.argmax(1), average="macro")
    assert found.macro_f1 == pytest.approx(f1)
    assert (found.n, found.accuracy) == (500, metrics.accuracy_score(labels, logits.argmax(1)))


@pytest.mark.parametrize("low", range(7, 14))
def test_calibration_is_judged_in_each_of_15_bins_alone(low: int) -> None:
    """Errors of two bins add up, however they point; those within one may cancel out."""
    for first, second in ((low + 0.6, low + 1.5), (low + 1.01, low + 1.99)):
        right, wrong = confidence = np.array([first, second]) / 15
        error = (1 - right) + wrong if int(first) < int(second) else abs((1 - right) - wrong)
        measured = measure(np.log(confidence / (1 - confidence)), np.array([1, 0]))
        assert measured.ece == pytest.approx(error / 2)


def test_large_logits_do_not_overflow() -> None:
    found = measure(np.array([1e4, -1e4, 1e4]), np.array([1, 0, 0]))
    assert (found.loss, found.accuracy) == pytest.approx((1e4 / 3, 2 / 3))
    assert (found.brier, found.ece) == pytest.approx((1 / 3, 1 / 3))


def drawn_texts(n: int = 200, *, seed: int = 0, num_classes: int = 2) -> tuple[Tensor, Tensor]:
    """Random texts padded in front; rows 0 and 1 hold padding alone and a start alone."""
    random = np.random.default_rng(seed)
    ids = np.minimum(random.zipf(1.3, (n, 12)) + 1, VOCAB - 1).astype(np.int32)
    for row, length in zip(ids, random.integers(2, 13, n), strict=True):
        row[:-length], row[-length] = 0, 1
    ids[0], ids[1, :-1], ids[1, -1] = 0, 0, 1
    score = (ids % 2).sum(axis=1) + random.normal(0, 2, n)
    labels = np.digitize(score, 10 - 2 * np.arange(num_classes, 1, -1)).astype(np.float32)
    return torch.from_numpy(ids), torch.from_numpy(labels)


def as_text(ids: Tensor) -> list[str]:
    """The same texts as strings for a vectoriser: a token an id, padding and start left out."""
    return [" ".join(f"w{id_}" for id_ in row if id_ > 1) for row in ids.tolist()]


@pytest.mark.parametrize("num_classes", [2, 4])
def test_it_is_the_usual_pipeline_on_the_same_words(num_classes: int) -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    (ids, labels), (test_ids, _) = drawn_texts(num_classes=num_classes), drawn_texts(seed=1)
    vectorizer, regression = TfidfVectorizer(), LogisticRegression(max_iter=10_000)
    pipeline = make_pipeline(vectorizer, regression).fit(as_text(ids), labels.numpy())
    model = TfidfModel(VOCAB, num_classes).requires_grad_(False)
    model.fit(ids, labels)
    for some in (ids, test_ids):
        expected = pipeline.decision_function(as_text(some))
        np.testing.assert_allclose(model(some), expected, atol=1e-5, rtol=0)
