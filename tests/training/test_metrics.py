"""Metrics of logits and the TF-IDF baseline: those of scikit-learn, and calibration by hand."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import logit, softmax
from sklearn import metrics
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from attnexp.base.errors import UserError
from attnexp.training.metrics import measure
from attnexp.training.tfidf import TfidfModel

VOCAB = 60


@pytest.mark.parametrize("num_classes", [2, 4])
def test_every_figure_is_scikit_learns(num_classes: int) -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 3, (500, num_classes))
    labels = rng.integers(0, num_classes, 500)
    probability = softmax(logits, axis=1)
    predicted = logits.argmax(axis=1)
    is_binary = num_classes == 2
    found = measure(logits[:, 1] - logits[:, 0] if is_binary else logits, labels)
    assert found.n == 500
    assert found.accuracy == metrics.accuracy_score(labels, predicted)
    assert found.loss == pytest.approx(metrics.log_loss(labels, probability))
    truth = np.eye(num_classes)[labels]
    brier = np.square(probability - truth).sum(axis=1).mean()
    assert found.brier == pytest.approx(brier / 2 if is_binary else brier)
    assert found.macro_f1 == pytest.approx(metrics.f1_score(labels, predicted, average="macro"))


@pytest.mark.parametrize("low", range(8, 15))
def test_calibration_is_judged_in_each_of_15_bins_alone(low: int) -> None:
    """Errors of bins add up; within one they may cancel. The first text is right, the other not."""
    labels = np.array([1, 0])
    apart = np.array([low - 0.4, low + 0.5]) / 15
    assert measure(logit(apart), labels).ece == pytest.approx((1 - apart[0] + apart[1]) / 2)
    together = np.array([low + 0.01, low + 0.99]) / 15
    assert measure(logit(together), labels).ece == pytest.approx(abs(1 - together.sum()) / 2)


def test_large_logits_do_not_overflow() -> None:
    found = measure(np.array([3e4, -3e4, 3e4]), np.array([1, 0, 0]))
    assert found.loss == pytest.approx(1e4)
    assert found.brier == found.ece == pytest.approx(1 / 3)


def drawn_texts(seed: int) -> NDArray[np.int32]:
    """Random texts padded in front; rows 0 and 1 hold padding alone and a start alone."""
    ids = np.random.default_rng(seed).geometric(0.1, (200, 12)).clip(1, VOCAB - 1)
    ids[:100, :7] = 0
    ids[0] = 0
    ids[1] = [0] * 11 + [1]
    return ids.astype(np.int32)


@pytest.mark.parametrize("num_classes", [2, 4])
def test_it_is_the_usual_pipeline_on_the_same_words(num_classes: int) -> None:
    train = drawn_texts(seed=0)
    labels = train.sum(axis=1) % num_classes
    vectoriser = TfidfVectorizer(analyzer=lambda ids: ids[ids > 1])  # no padding and no start
    pipeline = make_pipeline(vectoriser, LogisticRegression(max_iter=10_000)).fit(train, labels)
    model = TfidfModel(VOCAB, num_classes).requires_grad_(False)
    model.fit(torch.from_numpy(train), torch.from_numpy(labels))
    for ids in (train, drawn_texts(seed=1)):
        expected = pipeline.decision_function(ids)
        np.testing.assert_allclose(model(torch.from_numpy(ids)), expected, atol=1e-5, rtol=0)
    with pytest.raises(UserError, match=f"texts of all {num_classes} classes"):
        model.fit(torch.from_numpy(train), torch.from_numpy(labels // 2))
