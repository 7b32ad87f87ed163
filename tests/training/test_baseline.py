"""TF-IDF and logistic regression: scikit-learn's own, on the ids the models see."""

import numpy as np
import pytest
import torch
from torch import Tensor

from attnexp.training.tfidf import TfidfModel

pytest.importorskip("sklearn", reason="scikit-learn is an extra")

VOCAB = 60


def texts(n: int = 200, *, seed: int = 0, num_classes: int = 2) -> tuple[Tensor, Tensor]:
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

    (ids, labels), (test_ids, _) = texts(num_classes=num_classes), texts(seed=1)
    vectorizer, regression = TfidfVectorizer(), LogisticRegression(max_iter=10_000)
    pipeline = make_pipeline(vectorizer, regression).fit(as_text(ids), labels.numpy())
    model = TfidfModel(VOCAB, num_classes).requires_grad_(False)
    model.fit(ids, labels)
    for some in (ids, test_ids):
        expected = pipeline.decision_function(as_text(some))
        np.testing.assert_allclose(model(some), expected, atol=1e-5, rtol=0)
