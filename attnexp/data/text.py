"""From a text to tokens, from tokens to ranks, from ranks to the ids that a model takes.

Everything between a text and a model's input is computed here, and only here in `data`: a run's id
counts this module, and has the data's fingerprint for all that is read.

A token's rank counts from 1 for the most frequent of the train split; 0 is a token never seen
there. Keras's ids follow from it: 0 pads, 1 starts a text, 2 is out of vocabulary, and rank r
becomes r + 3.
"""

import importlib
import re
import reprlib
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count, pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from attnexp.base.errors import UserError
from attnexp.config.schema import TOKENIZERS, DataConfig, Side

PAD, START, UNKNOWN, INDEX_FROM = 0, 1, 2, 3

Tokenize = Callable[[str], list[str]]
Pair = tuple["Ragged", "Ragged"]
"""Ranks of train and of test."""

KERAS_FILTERS = '!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n'
CJK_FILTERS = "".join(chr(ord(one) + 0xFEE0) for one in KERAS_FILTERS if one > " ") + (
    "\u3000、。〃〈〉《》「」『』【】〒〔〕〖〗〘〙〚〛〜〝〞〟〰・｡｢｣､･￥·‥…—–―‘’“”"
)
"""Full-width forms of `KERAS_FILTERS`, and punctuation of Chinese, Japanese and Korean texts."""
CJK = re.compile(
    "(["
    "\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"  # Han, with its extensions
    "\u3041-\u3096\u3099-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
    "\U0001aff0-\U0001b16f"  # kana
    "\uac00-\ud7a3"  # Hangul syllables
    "])"
)
_KERAS = str.maketrans(dict.fromkeys(KERAS_FILTERS, " "))
_CHARACTERS = str.maketrans(dict.fromkeys(KERAS_FILTERS + CJK_FILTERS, " "))


def keras_words(text: str) -> list[str]:
    """Keras's `text_to_word_sequence`: lower case, filtered characters to spaces, split there."""
    return [word for word in text.lower().translate(_KERAS).split(" ") if word]


def characters(text: str) -> list[str]:
    """Each Chinese or Japanese character and Korean syllable; everything else as `keras_words`.

    The punctuation of these scripts is filtered too.
    """
    spaced = CJK.sub(r" \1 ", text.lower().translate(_CHARACTERS))
    return [token for token in spaced.split(" ") if token]


def whitespace(text: str) -> list[str]:
    """The parts of a text between white space, unchanged."""
    return text.split()


def basic_english(text: str) -> list[str]:
    """Tokens of torchtext's `basic_english`. Raises `UserError` where torchtext does not load."""
    return _torchtext()(text)


@cache
def _torchtext() -> Tokenize:
    try:
        from torchtext.data.utils import get_tokenizer
    except (ImportError, OSError) as error:  # torchtext 0.18 fails to load beside a newer torch
        raise UserError(
            f"data.tokenizer=basic_english needs torchtext, which does not load here ({error}). "
            f"Install the release that was tested: pip install 'torchtext>=0.6,<0.7'."
        ) from error
    tokenize: Tokenize = get_tokenizer("basic_english")
    return tokenize


def tokenizer_kind(name: str) -> str:
    """`data.tokenizer` as `module:function`."""
    return TOKENIZERS.get(name, name)


def tokenizer(name: str) -> Tokenize:
    """The tokenizer of `data.tokenizer`, ours or anyone's.

    Raises `UserError` where it cannot be imported; and so does calling it, where it raises or does
    not return a list of str.
    """
    kind = tokenizer_kind(name)
    module, _, attribute = kind.partition(":")
    try:
        function = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # whatever anyone's module may do when it is imported
        raise UserError(
            f"data.tokenizer={kind} cannot be imported: {_describe(error)}. Give a function from a "
            f"text to the list of its tokens, as module:function."
        ) from error
    if not callable(function):
        raise UserError(
            f"data.tokenizer={kind} is no function, but {reprlib.repr(function)}. Give a function "
            f"from a text to the list of its tokens, as module:function."
        )

    def tokenize(text: str) -> list[str]:
        try:
            tokens = function(text)
        except UserError:
            raise
        except Exception as error:  # it is anyone's function
            raise UserError(
                f"data.tokenizer={kind} raised {_describe(error)}, on the text "
                f"{reprlib.repr(text)}. Mend the function."
            ) from error
        if not isinstance(tokens, list) or not {*map(type, tokens)} <= {str}:
            raise UserError(
                f"data.tokenizer={kind} returned {reprlib.repr(tokens)}, of type "
                f"{_type_of(tokens)}, on the text {reprlib.repr(text)}. Let it return a list of "
                f"str."
            )
        if "\n" in "".join(tokens):  # vocabularies are kept one token a line
            (first, *_) = (token for token in tokens if "\n" in token)
            raise UserError(
                f"data.tokenizer={kind} returned the token {reprlib.repr(first)}. Leave out line "
                f"breaks."
            )
        return tokens

    return tokenize


def _describe(error: Exception) -> str:
    """An error, and the line of the user's module that raised it or called what raised it."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename != __file__ and "importlib" not in frame.filename
    ]
    own = [frame for frame in frames if frame.filename == frames[0].filename]
    where = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
    return f"{type(error).__name__}: {error}{where}"


def _type_of(tokens: Any) -> str:
    """`set`, or of a list `list of bytes`."""
    if not isinstance(tokens, list):
        return type(tokens).__name__
    return f"list of {' and '.join(sorted({type(token).__name__ for token in tokens}))}"


@dataclass(frozen=True, slots=True)
class Ragged:
    """Texts of different lengths end to end: text i is `values[offsets[i]:offsets[i + 1]]`."""

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
) -> tuple[Pair, list[str]]:
    """Ranks of both splits, and the train split's tokens, most frequent first.

    Tokens as frequent as each other keep the order of their first appearance, as in Keras.
    """
    # Numbering tokens as they appear keeps the inner loop in C: no counter, no second pass.
    number: dict[str, int] = _Numbered()
    numbered_train, numbered_test = (
        Ragged.of([np.fromiter(map(number.__getitem__, tokenize(text)), np.int32) for text in half])
        for half in (train, test)
    )
    return _by_frequency(numbered_train, numbered_test, list(number))


class _Numbered(dict[str, int]):
    """Gives each new word the next number, from 1."""

    def __init__(self) -> None:
        self._next = count(1)

    def __missing__(self, word: str) -> int:
        self[word] = value = next(self._next)
        return value


def _by_frequency(train: Ragged, test: Ragged, words: Sequence[str]) -> tuple[Pair, list[str]]:
    """Ranks and words by frequency in train, from texts of numbers. Number 0 is the unknown word.

    Of equally frequent words the lower number comes first. Numbers that do not occur in train
    become unknown. words: word i has number i + 1; empty if they are not known.
    """
    last = max(train.values.max(initial=0), test.values.max(initial=0))
    counts = np.bincount(train.values, minlength=last + 1)
    counts[0] = 0
    order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    rank_of = np.zeros(len(counts), np.int32)
    rank_of[order] = np.arange(1, len(order) + 1)
    ranks = (
        Ragged(rank_of[train.values], train.offsets),
        Ragged(rank_of[test.values], test.offsets),
    )
    return ranks, [words[number - 1] for number in order] if words else []


def rank_with(words: Sequence[str], texts: Iterable[str], tokenize: Tokenize) -> Ragged:
    """Ranks of texts under a vocabulary made before: `words`, most frequent first."""
    rank = {word: i for i, word in enumerate(words, start=1)}
    return Ragged.of([rank.get(word, 0) for word in tokenize(text)] for text in texts)


def vocabulary(words: list[str], config: DataConfig) -> list[str]:
    """The words that have an id of their own, most frequent first."""
    return words[: max(config.vocab_size - INDEX_FROM - 1, 0)]  # ranks count from 1


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


def stratified_sample(labels: NDArray[np.integer], size: int) -> NDArray[np.intp]:
    """Draw `size` rows, stratified by class; the same every time, in their old order.

    labels: (n,) of 0 to C - 1.
    """
    ends = size * np.cumsum(np.bincount(labels)) // len(labels)
    return _draw(labels, np.diff(ends, prepend=0), np.random.default_rng(0))


def _draw(
    labels: NDArray[np.integer], sizes: NDArray[np.intp], random: np.random.Generator
) -> NDArray[np.intp]:
    """`sizes[c]` rows of every class c, in their old order."""
    return np.sort(np.concatenate([
        random.permutation(np.flatnonzero(labels == label))[:size]
        for label, size in enumerate(sizes)
    ]))  # fmt: skip


def resample(
    ranks: Pair, labels: Sequence[NDArray[np.integer]], words: Sequence[str], seed: int
) -> tuple[Pair, tuple[NDArray[np.integer], NDArray[np.integer]], list[str]]:
    """Train and test drawn anew from their union, with ranks and words of the new train split.

    Both splits keep their sizes and how many texts of each class they have, and list their texts in
    the order of the union. Ranks count anew by frequency in the new train split; of equal
    frequency, the old rank decides. What is not there gets rank 0. Tokens that only the old test
    split had are rank 0 already, in whichever split they come to lie. Ranks without words (Keras's
    imdb.npz) are counted anew in the same way.

    ranks, labels: of train and test, labels (n,) of 0 to C - 1. words: by rank, or none.
    """
    union, given = [*ranks[0], *ranks[1]], np.concatenate(labels)
    in_train = _draw(given, np.bincount(labels[0]), np.random.default_rng(seed))
    in_test = np.delete(np.arange(len(given)), in_train)
    train, test = (Ragged.of(union[row] for row in half) for half in (in_train, in_test))
    drawn, words = _by_frequency(train, test, words)
    return drawn, (given[in_train], given[in_test]), words
