"""From a text to tokens, from tokens to ranks, from ranks to the ids that a model takes.

A token's rank counts from 1 for the most frequent of the train split; 0 is a token never seen
there. Keras's ids follow from it: 0 pads, 1 starts a text, 2 is out of vocabulary, and rank r
becomes r + 3.
"""

import re
import reprlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from attnexp.base.errors import UserError
from attnexp.config import pieces
from attnexp.config.schema import DataConfig, Side

PAD, START, UNKNOWN, INDEX_FROM = 0, 1, 2, 3  # Keras's; the most frequent word has id 4

Tokens = TypeVar("Tokens", list[str], NDArray[np.int32])
Tokenize = Callable[[str], list[str]]
Ranked = tuple["Ragged", list[str]]  # ranks of texts; the words by rank from 1, if they are known
KERAS_FILTERS = '!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n'
CJK_FILTERS = "".join(chr(ord(one) + 0xFEE0) for one in KERAS_FILTERS if one > " ") + (
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
    return list(filter(None, text.lower().translate(_KERAS).split(" ")))


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

    return [*get_tokenizer("basic_english")(text)]


def tokenizer_of(config: DataConfig) -> Tokenize:
    """The function of `data.tokenizer`. One of the user's raises `UserError` where what it returns
    is no list of str, or has a line break or half a character in it."""
    is_ours, kind = ":" not in config.tokenizer, config.tokenizer
    function: Tokenize = pieces.load(f"{__name__}:{kind}" if is_ours else kind)

    def checked(text: str) -> list[str]:
        try:
            tokens = function(text)
        except Exception as error:  # whatever anyone's code may do
            said = f"{reprlib.repr(text)} ({type(error).__name__}: {error})"
            raise UserError(f"data.tokenizer={kind} failed on the text {said}.") from error
        is_list = isinstance(tokens, list) and {*map(type, tokens)} <= {str}
        if not is_list or UNFIT.search("".join(tokens)):
            raise UserError(
                f"data.tokenizer={kind} returned {reprlib.repr(tokens)} on the text "
                f"{reprlib.repr(text)}. Let it return a list of str, without line breaks and "
                f"halves of characters (lone surrogates)."
            )
        return tokens

    return function if is_ours else checked


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
    # Numbering words as they appear keeps the inner loop in C: no counter, no second pass.
    number: defaultdict[str, int] = defaultdict(count(1).__next__)
    rows = (np.fromiter(map(number.__getitem__, tokenize(text)), np.int32) for text in texts)
    numbered = Ragged.of(rows)
    return rank_by_frequency(numbered, num_train, [*number])


def rank_by_frequency(numbered: Ragged, num_train: int, words: Sequence[str]) -> Ranked:
    """Rank texts given as numbers: 0 is the unknown word, i + 1 stands for `words[i]`.

    Of equally frequent words the lower number comes first.
    """
    values = numbered.values
    counts = np.bincount(values[: numbered.offsets[num_train]], minlength=values.max(initial=0) + 1)
    counts[0] = 0
    order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    rank_of = np.zeros(len(counts), np.int32)
    rank_of[order] = np.arange(1, len(order) + 1)
    ranks = Ragged(rank_of[values], numbered.offsets)
    return ranks, [words[number - 1] for number in order] if words else []


def rank_with(words: Sequence[str], texts: Iterable[str], tokenize: Tokenize) -> Ragged:
    """Ranks of texts under a vocabulary made before: `words`, most frequent first."""
    rank = {word: i for i, word in enumerate(words, start=1)}
    return Ragged.of([rank.get(word, 0) for word in tokenize(text)] for text in texts)


def cut(tokens: Tokens, config: DataConfig) -> Tokens:
    """The tokens of a text that a model sees: the last or the first `data.max_len`."""
    if config.truncate is Side.pre:
        return tokens[-config.max_len :]
    return tokens[: config.max_len]


def to_ids(ranks: Ragged, config: DataConfig) -> NDArray[np.int32]:
    """Ranks as Keras's ids, cut and padded: (n, max_len)."""
    values = np.where(ranks.values > 0, ranks.values + INDEX_FROM, UNKNOWN)
    values[values >= config.vocab_size] = UNKNOWN
    values = np.insert(values, ranks.offsets[:-1], START)
    whole = Ragged(values, ranks.offsets + np.arange(len(ranks.offsets)))
    ids = np.full((len(ranks), config.max_len), PAD, np.int32)
    for row, text in zip(ids, whole, strict=True):
        kept = cut(text, config)
        row[slice(-len(kept), None) if config.pad is Side.pre else slice(len(kept))] = kept
    return ids
