"""Problems of a data set, counted when it is encoded and reported with it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from attnexp.data.text import Ragged

TEST_IN_TRAIN = "test texts that are in train too"
BOTH_LABELS = "texts with both labels"
WITHOUT_WORDS = "texts without a word"
FEW_TOKENS = "texts of one or two tokens that are long (is data.tokenizer the right one?)"
UNKNOWN = "test tokens that train has not, more than half of all"

Quality = dict[str, int]
"""Counts of the problems above; those not found are left out."""


def compare(
    texts: Sequence[Iterable[str | NDArray[np.int32]]],
    labels: Sequence[NDArray[np.integer]],
    ranks: Sequence[Ragged],
) -> Quality:
    """Problems between train and test; texts without a word count for one only.

    Each argument has train first. texts: ranks where the source has no texts. labels: (n,).
    """
    digests = [
        [_digest(text) if words else b"" for text, words in zip(half, lengths, strict=True)]
        for half, lengths in zip(texts, [np.diff(half.offsets) for half in ranks], strict=True)
    ]
    in_train = set(digests[0]) - {b""}
    labels_of: defaultdict[bytes, set[int]] = defaultdict(set)
    for digest, label in zip(chain(*digests), np.concatenate(labels).tolist(), strict=True):
        if digest:
            labels_of[digest].add(label)
    lengths = np.concatenate([np.diff(half.offsets) for half in ranks]).tolist()
    few = sum(  # a sentence in Chinese is one word, if words are parted by spaces
        tokens < 3 and isinstance(text, str) and len(text) > 10 * max(tokens, 1)
        for text, tokens in zip(chain(*texts), lengths, strict=True)
    )
    unknown = int((ranks[1].values == 0).sum())
    counts = {
        TEST_IN_TRAIN: sum(digest in in_train for digest in digests[1]),
        BOTH_LABELS: sum(len(both) > 1 for both in labels_of.values()),
        WITHOUT_WORDS: sum(not digest for digest in chain(*digests)),
        FEW_TOKENS: few if 10 * few > len(lengths) else 0,
        UNKNOWN: unknown if 2 * unknown > len(ranks[1].values) else 0,
    }
    return {what: count for what, count in counts.items() if count}


def _digest(text: str | NDArray[np.int32]) -> bytes:
    content = text.encode() if isinstance(text, str) else text.tobytes()
    return blake2b(content, digest_size=16).digest()


def format_quality(quality: Mapping[str, int]) -> str:
    """Problems in one line; empty where there are none."""
    problems = "; ".join(f"{what}: {count:,}" for what, count in quality.items())
    return f"Questions about the data: {problems}." if problems else ""
