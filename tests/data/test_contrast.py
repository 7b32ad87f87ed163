"""The embedded corpus is what its ceiling says it is."""

from collections import Counter, defaultdict

import numpy as np
import pytest

from attnexp.data import contrast
from attnexp.data.corpus import Split


def bags(split: Split) -> dict[frozenset[tuple[str, int]], list[int]]:
    """Labels by bag of words."""
    found = defaultdict(list)
    for review, label in zip(split.texts, split.labels.tolist(), strict=True):
        assert isinstance(review, str)
        found[frozenset(Counter(review.split()).items())].append(label)
    return found


@pytest.mark.parametrize("fraction", [0.0, 0.3, 1.0])
def test_the_best_order_blind_answers_reach_exactly_the_ceiling(fraction: float) -> None:
    corpus = contrast.generate(fraction)
    for split in (corpus.train, corpus.test):
        right = sum(max(labels.count(0), labels.count(1)) for labels in bags(split).values())
        ceiling = contrast.order_blind_ceiling(fraction)
        assert right / len(split.labels) == pytest.approx(ceiling)


@pytest.mark.parametrize("fraction", [0.0, 0.5, 1.0])
def test_sizes_balance_and_no_review_twice(fraction: float) -> None:
    corpus = contrast.generate(fraction)
    assert len(corpus.train.texts) == contrast.NUM_TRAIN
    assert len(corpus.test.texts) == contrast.NUM_TEST
    assert corpus.train.labels.mean() == corpus.test.labels.mean() == 0.5
    together = [*corpus.train.texts, *corpus.test.texts]
    assert len(set(map(str, together))) == len(together)


def test_the_clause_after_but_decides() -> None:
    train = contrast.generate(1.0).train
    for review, label in zip(train.texts, train.labels, strict=True):
        after = str(review).partition(" but ")[2].split()
        assert bool(set(after) & set(contrast.PRAISE)) == bool(label)


def test_the_corpus_is_the_same_every_time() -> None:
    one, other = contrast.generate(0.5), contrast.generate(0.5)
    assert one.train.texts == other.train.texts
    assert np.array_equal(one.test.labels, other.test.labels)
