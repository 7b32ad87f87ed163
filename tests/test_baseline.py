"""TF-IDF and logistic regression: scikit-learn's own, on the ids the models see."""

import sys

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load, save

from attnexp.config.schema import DataConfig, DataName
from attnexp.data import contrast, encode
from attnexp.errors import UserError
from attnexp.training.tfidf import TfidfModel, fit_tfidf, word_counts

pytest.importorskip("sklearn", reason="scikit-learn is an extra")

VOCAB = 60

Ids = NDArray[np.int32]


def reviews(n: int = 200, *, seed: int = 0) -> tuple[Ids, NDArray[np.int8]]:
    """Random reviews padded in front; rows 0 and 1 hold padding alone and a start alone."""
    random = np.random.default_rng(seed)
    ids = np.minimum(random.zipf(1.3, (n, 12)) + 1, VOCAB - 1).astype(np.int32)
    for row, length in zip(ids, random.integers(2, 13, n), strict=True):
        row[:-length], row[-length] = 0, 1
    ids[0], ids[1, :-1], ids[1, -1] = 0, 0, 1
    labels = ((ids % 2).sum(axis=1) + random.normal(0, 2, n) > 6).astype(np.int8)
    return ids, labels


def as_text(ids: Ids) -> list[str]:
    """The same reviews as strings for a vectoriser: a token an id, padding and start left out."""
    return [" ".join(f"w{id_}" for id_ in row if id_ > 1) for row in ids]


def test_it_is_the_usual_pipeline_on_the_same_words() -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss
    from sklearn.pipeline import make_pipeline

    (ids, labels), (test_ids, test_labels) = reviews(), reviews(seed=1)
    assert 0.2 < labels.mean() < 0.8
    assert set(test_ids.flat) - set(ids.flat)  # some words stand in test alone
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression(max_iter=10_000))
    pipeline.fit(as_text(ids), labels)
    model = fit_tfidf(ids, labels, vocab_size=VOCAB)
    for some, truth in ((ids, labels), (test_ids, test_labels)):
        expected = pipeline.predict_proba(as_text(some))[:, 1]
        np.testing.assert_allclose(model.probabilities(some), expected, atol=1e-6, rtol=0)
        measured = model.evaluate(some, truth)
        assert measured.loss == pytest.approx(log_loss(truth, expected), abs=1e-6)
        assert measured.accuracy == pytest.approx(pipeline.score(as_text(some), truth))
        assert measured.n == len(some)


def test_words_count_and_padding_and_start_do_not() -> None:
    ids = np.array([[0, 0, 1, 2, 5, 5], [1, 3, 3, 3, 3, 2], [0, 0, 0, 0, 0, 0]], np.int32)
    expected = [[0, 0, 1, 0, 0, 2], [0, 0, 1, 4, 0, 0], [0] * 6]
    assert word_counts(ids, vocab_size=6).toarray().tolist() == expected


def test_order_and_padding_do_not_matter() -> None:
    ids, labels = reviews()
    model = fit_tfidf(ids, labels, vocab_size=VOCAB)
    shuffled = np.random.default_rng(0).permuted(ids, axis=1)
    wider = np.pad(shuffled, ((0, 0), (0, 5)))
    assert np.array_equal(model.logits(ids), model.logits(wider))


def test_a_review_without_words_is_left_to_the_intercept() -> None:
    model = fit_tfidf(*reviews(), vocab_size=VOCAB)
    empty = np.array([[0, 0], [0, 1]], np.int32)
    assert model.logits(empty).tolist() == [model.intercept[0]] * 2


def test_batched_equals_alone() -> None:
    ids, labels = reviews()
    model = fit_tfidf(ids, labels, vocab_size=VOCAB)
    alone = np.concatenate([model.logits(row[None]) for row in ids])
    assert np.array_equal(model.logits(ids), alone)


@pytest.fixture(params=[0.0, 1.0])
def order_fraction(request: pytest.FixtureRequest) -> float:
    return float(request.param)


def test_on_the_contrast_corpus_it_reaches_the_ceiling_of_order_blind_models(
    order_fraction: float,
) -> None:
    config = DataConfig(
        name=DataName.contrast, order_fraction=order_fraction, max_len=24, vocab_size=1000
    )
    data = encode.load(config)
    model = fit_tfidf(data.train.ids, data.train.labels, vocab_size=config.vocab_size)
    measured = model.evaluate(data.test.ids, data.test.labels)
    # A review and its mirror get one logit, so where order decides exactly one of two is right.
    assert measured.accuracy == contrast.order_blind_ceiling(order_fraction)
    assert measured.n == contrast.NUM_TEST


def test_it_is_the_same_every_time_and_after_a_round_trip_through_a_file() -> None:
    ids, labels = reviews()
    model = fit_tfidf(ids, labels, vocab_size=VOCAB)
    again = fit_tfidf(ids, labels, vocab_size=VOCAB)
    loaded = TfidfModel.from_arrays(load(save(model.to_arrays())))
    for other in (again, loaded):
        assert model.to_arrays().keys() == other.to_arrays().keys()
        for name, array in model.to_arrays().items():
            assert array.dtype == np.float64
            assert np.array_equal(array, other.to_arrays()[name]), name
        assert np.array_equal(model.logits(ids), other.logits(ids))
        assert model.evaluate(ids, labels) == other.evaluate(ids, labels)


def test_parameters_are_what_is_learned() -> None:
    model = fit_tfidf(*reviews(), vocab_size=VOCAB)
    assert model.parameters == VOCAB + 1
    assert {name: array.shape for name, array in model.to_arrays().items()} == {
        "idf": (VOCAB,),
        "coef": (VOCAB,),
        "intercept": (1,),
    }


def test_a_far_logit_costs_its_distance_and_overflows_nothing() -> None:
    model = TfidfModel(idf=np.ones(4), coef=np.array([0, 0, 0, 1e4]), intercept=np.zeros(1))
    ids = np.array([[3], [2]], np.int32)
    assert model.evaluate(ids, np.array([0, 0])).loss == pytest.approx((1e4 + np.log(2)) / 2)
    assert model.probabilities(ids).tolist() == [1.0, 0.5]
    assert model.evaluate(ids, np.array([1, 0])).accuracy == 1.0  # one half counts as negative


def test_one_label_alone_is_refused() -> None:
    ids, _ = reviews(5)
    with pytest.raises(UserError, match="all 5 training reviews have label 1"):
        fit_tfidf(ids, np.ones(5, np.int8), vocab_size=VOCAB)


def test_without_scikit_learn_the_message_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fitted = fit_tfidf(*reviews(), vocab_size=VOCAB)
    for name in [name for name in sys.modules if name.split(".")[0] == "sklearn"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=r"pip install 'attnexp\[baseline\]'"):
        fit_tfidf(*reviews(), vocab_size=VOCAB)
    assert fitted.evaluate(*reviews()).n == 200  # a fitted one does without
