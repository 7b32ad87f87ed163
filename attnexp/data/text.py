"""From a review to words, from words to ranks, from ranks to ids.

A word's rank counts from 1 for the most frequent word of the train split; 0 is a word never seen
there. Keras's ids follow from it: 0 pads, 1 starts a review, 2 is out of vocabulary, and rank r
becomes r + 3.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray

from attnexp.base.errors import UserError
from attnexp.config.schema import DataConfig, Side

PAD, START, UNKNOWN, INDEX_FROM = 0, 1, 2, 3

Tokenize = Callable[[str], list[str]]

_KERAS_FILTERS = str.maketrans(dict.fromkeys('!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n', " "))


def keras_words(text: str) -> list[str]:
    """Keras's `text_to_word_sequence`: lower case, filtered characters to spaces, split there."""
    return [word for word in text.lower().translate(_KERAS_FILTERS).split(" ") if word]


def tokenizer(name: str) -> Tokenize:
    """The tokenizer of `data.tokenizer`: `keras`, or torchtext's `basic_english`."""
    if name == "keras":
        return keras_words
    try:
        from torchtext.data.utils import get_tokenizer
    except (ImportError, OSError) as error:  # torchtext 0.18 fails to load beside a newer torch
        raise UserError(
            f"data.tokenizer={name} needs torchtext, which does not load here ({error}). Install "
            f"the release that was tested: pip install 'torchtext>=0.6,<0.7'."
        ) from error
    tokenize: Tokenize = get_tokenizer(name)
    return tokenize


@dataclass(frozen=True, slots=True)
class Ragged:
    """Reviews of different lengths end to end: review i is `values[offsets[i]:offsets[i + 1]]`."""

    values: NDArray[np.int32]  # (all tokens,)
    offsets: NDArray[np.int64]  # (n + 1,), from 0

    @classmethod
    def of(cls, rows: Iterable[Sequence[int] | NDArray[np.int32]]) -> Self:
        """Lay rows end to end."""
        arrays = [np.asarray(row, np.int32) for row in rows]
        offsets = np.cumsum([0, *map(len, arrays)], dtype=np.int64)
        return cls(np.concatenate([np.zeros(0, np.int32), *arrays]), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[NDArray[np.int32]]:
        return (self.values[begin:end] for begin, end in pairwise(self.offsets))


def rank_words(
    train: Iterable[str], test: Iterable[str], tokenize: Tokenize
) -> tuple[Ragged, Ragged, list[str]]:
    """Ranks of both splits, and the train split's words, most frequent first.

    Words as frequent as each other keep the order of their first appearance, as in Keras.
    """
    # Numbering words as they appear keeps the inner loop in C: no counter, no second pass.
    number: dict[str, int] = _Numbered()
    rows = [
        [np.fromiter(map(number.__getitem__, tokenize(text)), np.int32) for text in texts]
        for texts in (train, test)
    ]
    numbered_train, numbered_test = (Ragged.of(split) for split in rows)
    counts = np.bincount(numbered_train.values, minlength=len(number))
    order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    rank_of = np.zeros(len(number), np.int32)  # words of test alone keep rank 0
    rank_of[order] = np.arange(1, len(order) + 1)
    words = list(number)
    return (
        Ragged(rank_of[numbered_train.values], numbered_train.offsets),
        Ragged(rank_of[numbered_test.values], numbered_test.offsets),
        [words[i] for i in order],
    )


class _Numbered(dict[str, int]):
    """Gives each new word the next number."""

    def __init__(self) -> None:
        self._next = count()

    def __missing__(self, word: str) -> int:
        self[word] = value = next(self._next)
        return value


def rank_with(words: Sequence[str], texts: Iterable[str], tokenize: Tokenize) -> Ragged:
    """Ranks of texts under a vocabulary made before: `words`, most frequent first."""
    rank = {word: i for i, word in enumerate(words, start=1)}
    return Ragged.of([rank.get(word, 0) for word in tokenize(text)] for text in texts)


def to_ids(ranks: Ragged, config: DataConfig) -> NDArray[np.int32]:
    """Ranks as Keras's ids, cut and padded: (n, max_len)."""
    values = np.where(ranks.values > 0, ranks.values + INDEX_FROM, UNKNOWN)
    values[values >= config.vocab_size] = UNKNOWN
    values = np.insert(values, ranks.offsets[:-1], START)
    offsets = ranks.offsets + np.arange(len(ranks.offsets))
    ids = np.full((len(ranks), config.max_len), PAD, np.int32)
    for row, (begin, end) in zip(ids, pairwise(offsets.tolist()), strict=True):
        length = min(end - begin, config.max_len)
        kept = (
            values[end - length : end] if config.truncate is Side.pre else values[begin:][:length]
        )
        if config.pad is Side.pre:
            row[config.max_len - length :] = kept
        else:
            row[:length] = kept
    return ids
