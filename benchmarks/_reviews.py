"""Reviews where no IMDB is at hand: words as uneven as words are, labels that can be learned."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

NUM_WORDS = 30_000

OPINION = 0.3
"""How much more often, in log, every other word stands in reviews of one label than of the other.
Chosen so that K's model gets about as many right as on IMDB."""


def generate(path: Path, *, n: int) -> None:
    """n reviews of train and n of test, in the format of Keras's imdb.npz."""
    random = np.random.default_rng(0)
    (x_train, y_train), (x_test, y_test) = (half(random, n) for _ in range(2))
    np.savez(path, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)


def half(random: np.random.Generator, n: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """n reviews of 80 to 240 word ranks, rank r as frequent as 1 / r, and their labels, in turn."""
    rank = np.arange(1, NUM_WORDS + 1)
    labels = np.arange(n) % 2
    reviews = np.empty(n, object)
    for label in (0, 1):
        frequency = np.exp(OPINION * (label - 0.5) * (-1.0) ** rank) / rank
        lengths = random.integers(80, 240, n)[labels == label]
        words = random.choice(rank, lengths.sum(), p=frequency / frequency.sum())
        pieces = np.split(words, np.cumsum(lengths)[:-1])
        for i, review in zip(np.flatnonzero(labels == label), pieces, strict=True):
            reviews[i] = review
    return reviews, labels
