"""From a text to tokens, from tokens to ranks, from ranks to the ids that a model takes.

A token's rank counts from 1 for the most frequent of the train split; 0 is a token never seen
there. Keras's ids follow from it: 0 pads, 1 starts a text, 2 is out of vocabulary, and rank r
becomes r + 3.
"""

import math
import os
import re
import reprlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from attnexp.base.errors import UserError
from attnexp.config import pieces
from attnexp.config.schema import DataConfig, Side

PAD = 0  # these four are Keras's
START = 1
UNKNOWN = 2
INDEX_FROM = 3  # so the most frequent word has id 4

Tokens = TypeVar("Tokens", list[Any], NDArray[Any])
Tokenize = Callable[[str], list[str]]
Ranked = tuple["Ragged", list[str]]  # ranks of texts; the words by rank from 1, if they are known
KERAS_FILTERS = '!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n'
FULL_WIDTH = "".join(chr(ord(mark) + 0xFEE0) for mark in KERAS_FILTERS if mark > " ")
CJK_FILTERS = FULL_WIDTH + (
    "\u3000、。〃〈〉《》「」『』【】〒〔〕〖〗〘〙〚〛〜〝〞〟〰・｡｢｣､･￥·‥…—–―‘’“”"
)
"""Full-width forms of `KERAS_FILTERS`, and punctuation of Chinese, Japanese and Korean texts."""
CJK = re.compile(  # Han with its extensions, kana, Hangul syllables
    "([\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff\u3041-\u3096\u3099-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
    "\uff66-\uff9f\U0001aff0-\U0001b16f\uac00-\ud7a3])"
)
UNFIT = re.compile("[\n\ud800-\udfff]")
"""No token holds a line break, for a vocabulary is stored by lines, nor half a character."""
_KERAS = str.maketrans(dict.fromkeys(KERAS_FILTERS, " "))
_CHARACTERS = str.maketrans(dict.fromkeys(KERAS_FILTERS + CJK_FILTERS, " "))


def keras(text: str) -> list[str]:
    """Keras's `text_to_word_sequence`: lower case, filtered characters to spaces, split there."""
    spaced = text.lower().translate(_KERAS)
    return [token for token in spaced.split(" ") if token]


def characters(text: str) -> list[str]:
    """Each Chinese or Japanese character and Korean syllable, without their punctuation; everything
    else as `keras`."""
    spaced = CJK.sub(r" \1 ", text.lower().translate(_CHARACTERS))
    return [token for token in spaced.split(" ") if token]


def whitespace(text: str) -> list[str]:
    """The parts of a text between white space, unchanged."""
    return text.split()


def basic_english(text: str) -> list[str]:
    """Tokens of torchtext's `basic_english`."""
    from torchtext.data.utils import get_tokenizer

    return list(get_tokenizer("basic_english")(text))


def tokenizer_of(config: DataConfig) -> Tokenize:
    """The function of `data.tokenizer`. One of the user's raises `UserError` where what it returns
    is no list of str, or has a line break or half a character in it."""
    kind = config.tokenizer
    if ":" not in kind:
        function: Tokenize = pieces.load(f"{__name__}:{kind}")
        return function
    user_function = pieces.load(kind)

    def tokenize(text: str) -> list[str]:
        try:
            tokens: list[str] = user_function(text)
        except (Exception, SystemExit) as error:  # whatever anyone's code may do
            reason = f"{reprlib.repr(text)} ({type(error).__name__}: {error})"
            raise UserError(f"data.tokenizer={kind} failed on the text {reason}.") from error
        if not _are_tokens(tokens):
            raise UserError(
                f"data.tokenizer={kind} returned {reprlib.repr(tokens)} on the text "
                f"{reprlib.repr(text)}. Let it return a list of str, without line breaks and "
                f"halves of characters (lone surrogates)."
            )
        return tokens

    return tokenize


def _are_tokens(tokens: object) -> bool:
    """Whether that is a list of str (of no class derived from it) that a vocabulary can store."""
    if not isinstance(tokens, list):
        return False
    if any(type(token) is not str for token in tokens):
        return False
    return UNFIT.search("".join(tokens)) is None


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


def rank_words(texts: Iterable[str], num_train: int, tokenize: Tokenize) -> Ranked:
    """Ranks of texts, and the words of the first `num_train` of them, most frequent first.

    Words as frequent as each other keep the order of their first appearance, as in Keras.
    """
    numbered, words = number_words(texts, tokenize)
    return rank_by_frequency(numbered, num_train, words)


def number_words(texts: Iterable[str], tokenize: Tokenize) -> Ranked:
    """Words of texts as numbers from 1 in the order of their first appearance, and the words."""
    # Numbering words as they appear keeps the inner loop in C: no counter, no second pass.
    number_of: defaultdict[str, int] = defaultdict(count(1).__next__)
    rows = []
    for text in texts:
        numbers = map(number_of.__getitem__, tokenize(text))
        rows.append(np.fromiter(numbers, np.int32))
    return Ragged.of(rows), list(number_of)


def number_texts(numbered: Ragged) -> NDArray[np.intp]:
    """A number for each text, (n,), the same for texts of the same tokens, which no model can tell
    apart."""
    number_of: defaultdict[bytes, int] = defaultdict(count().__next__)
    return np.array([number_of[row.tobytes()] for row in numbered], np.intp)


def rank_by_frequency(numbered: Ragged, num_train: int, words: Sequence[str]) -> Ranked:
    """Rank texts given as numbers: 0 is the unknown word, i + 1 stands for `words[i]`.

    Of equally frequent words the lower number comes first.
    """
    num_numbers = numbered.values.max(initial=0) + 1
    in_train = numbered.values[: numbered.offsets[num_train]]
    counts = np.bincount(in_train, minlength=num_numbers)
    counts[0] = 0
    by_frequency = np.argsort(-counts, kind="stable")
    ranked_numbers = by_frequency[: np.count_nonzero(counts)]
    rank_of = np.zeros(num_numbers, np.int32)
    rank_of[ranked_numbers] = np.arange(1, len(ranked_numbers) + 1)
    ranks = Ragged(rank_of[numbered.values], numbered.offsets)
    ranked_words = [words[number - 1] for number in ranked_numbers] if words else []
    return ranks, ranked_words


def rank_with(words: Sequence[str], texts: Iterable[str], tokenize: Tokenize) -> Ragged:
    """Ranks of texts under a vocabulary made before: `words`, most frequent first."""
    rank_of = {word: rank for rank, word in enumerate(words, start=1)}
    rows = []
    for text in texts:
        rows.append([rank_of.get(word, 0) for word in tokenize(text)])
    return Ragged.of(rows)


def cut_text(tokens: Tokens, config: DataConfig) -> Tokens:
    """The tokens of a text that a model takes, `data.max_len` at most; its start counts as one."""
    if config.truncate is Side.pre:
        return tokens[-config.max_len :]
    return tokens[: config.max_len]


def to_ids(ranks: Ragged, config: DataConfig) -> NDArray[np.int32]:
    """Ranks as Keras's ids, cut and padded: (n, max_len). Raises `UserError` where they are more
    than the machine's memory holds, which the system may notice only when it ends the process."""
    size = 4 * len(ranks) * config.max_len / 2**30
    if size > memory_of_machine():
        raise UserError(
            f"data.max_len={config.max_len} for {len(ranks):,} texts does not fit in memory: "
            f"{size:,.0f} GiB, and this machine has {memory_of_machine():,.0f}. Take a smaller "
            f"data.max_len."
        )
    ids_of_words = np.where(ranks.values > 0, ranks.values + INDEX_FROM, UNKNOWN)
    ids_of_words[ids_of_words >= config.vocab_size] = UNKNOWN
    ids = np.full((len(ranks), config.max_len), PAD, np.int32)
    for row, (begin, end) in zip(ids, pairwise(ranks.offsets), strict=True):
        text = cut_text(np.append(START, ids_of_words[begin:end]), config)
        if config.pad is Side.pre:
            row[len(row) - len(text) :] = text
        else:
            row[: len(text)] = text
    return ids


def memory_of_machine() -> float:
    """Memory in GiB; infinite where the system does not tell."""
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return math.inf
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
