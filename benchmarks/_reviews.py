"""Generated reviews, used without IMDB: Zipf-distributed words and labels that can be learned."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

NUM_WORDS = 30_000

OPINION = 0.3
"""Log-ratio of the frequencies of every other word in positive and negative reviews. Chosen so that
K's model is about as accurate as on IMDB."""


def generate(folder: Path, *, n: int) -> None:
    """Write n reviews of train and n of test as csv, each word named by its rank."""
    random = np.random.default_rng(0)
    for split in ("train", "test"):
        reviews, labels = half(random, n)
        rows = (
            f"{' '.join(f'w{rank}' for rank in review)},{label}"
            for review, label in zip(reviews, labels, strict=True)
        )
        (folder / f"{split}.csv").write_text("\n".join(["text,label", *rows, ""]))


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
