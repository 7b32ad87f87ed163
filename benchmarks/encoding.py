"""From text to ids for the first time, ours beside plain Python; and from the cache.

Plain Python goes over the text twice, as Keras's Tokenizer does: count words, then look every word
up; then it pads review by review. Both give the same ids, which is checked. Reading files is in
neither. "Of the cache" is what every later run does instead.

    python benchmarks/encoding.py
    python benchmarks/encoding.py --path aclImdb
"""

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _pairs import Measure, Table
from numpy.typing import NDArray

from attnexp.config.schema import DataConfig
from attnexp.data import sources
from attnexp.data.encode import Ranked
from attnexp.data.text import Ragged, keras_words, rank_words, to_ids

Ids = NDArray[np.int32]
FILTERS = '!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n'
SETTINGS = DataConfig()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=5, help="turns each (default 5)")
    parser.add_argument("--reviews", type=int, default=5000, help="a split, generated (5000)")
    parser.add_argument("--path", help="IMDB on disk instead, in any form with text in it")
    args = parser.parse_args()
    if args.path is None:
        train, test = generate(args.reviews, seed=0), generate(args.reviews, seed=1)
    else:
        corpus = sources.find(DataConfig(path=args.path)).read()
        assert not isinstance(corpus.train.reviews, Ragged), "these are ranks already, not text"
        assert not isinstance(corpus.test.reviews, Ragged), "these are ranks already, not text"
        train, test = corpus.train.reviews, corpus.test.reviews

    for a, b in zip(ours(train, test), plain(train, test), strict=True):
        np.testing.assert_array_equal(a, b)
    num_words = sum(len(text.split()) for text in train + test)
    title = f"Encoding {len(train):,} + {len(test):,} reviews, {num_words:,} words, to equal ids"
    table = Table(title, "ours")
    first_time = timed(lambda: ours(train, test))
    table.add("plain Python", first_time, timed(lambda: plain(train, test)), args.pairs)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ranks.npz"
        with path.open("wb") as file:
            rank(train, test).save(file, {})
        table.add("ours, from the cache", first_time, timed(lambda: cached(path)), args.pairs)


def timed(work: Callable[[], Any]) -> Measure:
    """Seconds of one call."""

    def measure() -> dict[str, float]:
        started = time.perf_counter()
        work()
        return {"encode": time.perf_counter() - started}

    return measure


def ours(train: Sequence[str], test: Sequence[str]) -> tuple[Ids, Ids]:
    """As `attnexp.data.encode.load` does it when nothing is cached."""
    train_ranks, test_ranks, _ = rank_words(train, test, keras_words)
    return to_ids(train_ranks, SETTINGS), to_ids(test_ranks, SETTINGS)


def cached(path: Path) -> tuple[Ids, Ids, str]:
    """As `attnexp.data.encode.load` does it when everything is cached."""
    ranked = Ranked.load(path)
    return to_ids(ranked.train, SETTINGS), to_ids(ranked.test, SETTINGS), ranked.fingerprint


def rank(train: Sequence[str], test: Sequence[str]) -> Ranked:
    """What the cache keeps."""
    train_ranks, test_ranks, words = rank_words(train, test, keras_words)
    labels = [np.zeros(len(texts), np.int8) for texts in (train, test)]
    return Ranked(
        train=train_ranks,
        train_labels=labels[0],
        test=test_ranks,
        test_labels=labels[1],
        words=words,
        quality={},
    )


def plain(train: Sequence[str], test: Sequence[str]) -> tuple[Ids, Ids]:
    """Count, then look up, then pad: as a tutorial would."""
    counts: Counter[str] = Counter()
    for text in train:
        counts.update(split(text))
    ids_of = {word: i for i, (word, _) in enumerate(counts.most_common(), start=4)}
    encoded = []
    for texts in (train, test):
        ids = np.zeros((len(texts), SETTINGS.max_len), np.int32)
        for row, text in zip(ids, texts, strict=True):
            review = [1]
            for word in split(text):
                i = ids_of.get(word, 2)
                review.append(i if i < SETTINGS.vocab_size else 2)
            kept = review[-SETTINGS.max_len :]
            row[-len(kept) :] = kept
        encoded.append(ids)
    return encoded[0], encoded[1]


def split(text: str) -> list[str]:
    """Keras's `text_to_word_sequence`."""
    to_spaces = str.maketrans(FILTERS, " " * len(FILTERS))
    return [word for word in text.lower().translate(to_spaces).split(" ") if word]


def generate(n: int, *, seed: int) -> list[str]:
    """Reviews of about 230 words out of 100,000, frequent as words are (Zipf), with marks."""
    random = np.random.default_rng(seed)
    frequency = 1 / np.arange(1, 100_001)
    lengths = np.maximum(10, random.gamma(1.8, 130, n)).astype(int)
    drawn = random.choice(len(frequency), size=lengths.sum(), p=frequency / frequency.sum())
    marks = random.choice(["", "", "", "", "", "", "", ",", ".", "!<br /><br />"], len(drawn))
    words = [f"W{i:x}{mark}" for i, mark in zip(drawn.tolist(), marks.tolist(), strict=True)]
    ends = np.cumsum(lengths).tolist()
    return [" ".join(words[end - length : end]) for end, length in zip(ends, lengths, strict=True)]


if __name__ == "__main__":
    main()
