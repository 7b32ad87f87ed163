"""What should be questioned in a data set: counted when it is encoded, and told with it."""

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
MISSING_FILES = "review files missing by their numbers"
REPEATED_FILES = "review files that are there again (the last is read)"
BYTE_ORDER_MARKS = "byte order marks before a text (left out)"

Quality = dict[str, int]
"""How often each of these was found; what was not found is not in it."""


def compare(
    reviews: Sequence[Iterable[str | NDArray[np.int32]]],
    labels: Sequence[NDArray[np.integer]],
    ranks: Sequence[Ragged],
) -> Quality:
    """What the texts of train and test say of each other; those without a word say nothing.

    Each of the three has train first. reviews: texts, or ranks where there are none. labels: (n,).
    """
    texts = [
        [_digest(review) if words else b"" for review, words in zip(half, lengths, strict=True)]
        for half, lengths in zip(reviews, [np.diff(half.offsets) for half in ranks], strict=True)
    ]
    in_train = set(texts[0]) - {b""}
    labels_of: defaultdict[bytes, set[int]] = defaultdict(set)
    for text, label in zip(chain(*texts), np.concatenate(labels).tolist(), strict=True):
        if text:
            labels_of[text].add(label)
    return found({
        TEST_IN_TRAIN: sum(text in in_train for text in texts[1]),
        BOTH_LABELS: sum(len(both) > 1 for both in labels_of.values()),
        WITHOUT_WORDS: sum(not text for text in chain(*texts)),
    })  # fmt: skip


def _digest(review: str | NDArray[np.int32]) -> bytes:
    content = review.encode() if isinstance(review, str) else review.tobytes()
    return blake2b(content, digest_size=16).digest()


def found(counts: Mapping[str, int]) -> Quality:
    """Counts without those of nothing."""
    return {what: count for what, count in counts.items() if count}


def format_quality(quality: Mapping[str, int]) -> str:
    """One line; empty where there is nothing to question."""
    told = "; ".join(f"{what}: {count:,}" for what, count in quality.items())
    return f"Questions about the data: {told}." if told else ""
