"""From a text to tokens, from tokens to ranks, from ranks to the ids that a model takes.

A token's rank counts from 1 for the most frequent one of train; 0 is a token never seen there.
Keras's ids follow: 0 pads, 1 starts a text, 2 is out of vocabulary, and rank r becomes r + 3."""

import re
import reprlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import count

import numpy as np
from numpy.typing import NDArray

from attnexp.base.errors import UserError
from attnexp.config import pieces
from attnexp.config.schema import TOKENIZERS, DataConfig, Side

PAD = 0
START = 1
UNKNOWN = 2
INDEX_FROM = 3  # difference between the id of a word and its rank, as in Keras
FIRST_WORD = INDEX_FROM + 1  # id of the most frequent word, whose rank is 1

Tokenize = Callable[[str], list[str]]
Ids = NDArray[np.int32]
Texts = list[Ids]  # the tokens of each text, as numbers or ranks
KERAS_FILTERS = '!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n'
FULL_WIDTH = "".join(chr(ord(mark) + 0xFEE0) for mark in KERAS_FILTERS if mark > " ")
CJK_FILTERS = FULL_WIDTH + (
    "\u3000、。〃〈〉《》「」『』【】〒〔〕〖〗〘〙〚〛〜〝〞〟〰・｡｢｣､･￥·‥…—–―‘’“”"
)
"""Full-width forms of `KERAS_FILTERS`, and punctuation of Chinese, Japanese and Korean texts."""
CJK = re.compile(  # These are Han with its extensions, kana, and Hangul syllables.
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
    tokens = text.lower().translate(_KERAS).split(" ")
    return list(filter(None, tokens))


def characters(text: str) -> list[str]:
    """Chinese and Japanese characters and Korean syllables one by one, the rest as `keras`."""
    spaced = CJK.sub(r" \1 ", text.lower().translate(_CHARACTERS))
    return list(filter(None, spaced.split(" ")))


def whitespace(text: str) -> list[str]:
    """The parts of a text between white space, unchanged."""
    return text.split()


def basic_english(text: str) -> list[str]:
    """Tokens of torchtext's `basic_english`."""
    from torchtext.data.utils import get_tokenizer

    return list(get_tokenizer("basic_english")(text))


def tokenizer_of(config: DataConfig) -> Tokenize:
    """The function of `data.tokenizer`. One of the user's raises `UserError` where it fails, and
    where what it returns is no list of str, or has a line break or half a character in it."""
    kind = config.tokenizer
    if kind in TOKENIZERS:
        builtin: Tokenize = globals()[kind]
        return builtin
    function: Tokenize = pieces.load(kind)

    def tokenize(text: str) -> list[str]:
        try:
            tokens = function(text)
            if not isinstance(tokens, list) or UNFIT.search("".join(tokens)):
                raise ValueError(
                    f"it returned {reprlib.repr(tokens)}. Let it return a list of str, without "
                    f"line breaks and halves of characters (lone surrogates)"
                )
        except (Exception, SystemExit) as error:  # Code of users may raise anything.
            raise UserError(
                f"data.tokenizer={kind} failed on the text {reprlib.repr(text)}: "
                f"{type(error).__name__}: {error}."
            ) from error
        return tokens

    return tokenize


def number_words(texts: Iterable[str], tokenize: Tokenize) -> tuple[Texts, list[str]]:
    """Words of texts as numbers from 1 in the order of their first appearance, and the words."""
    number_of: defaultdict[str, int] = defaultdict(count(1).__next__)  # The inner loop is C.
    rows = []
    for text in texts:
        numbers = map(number_of.__getitem__, tokenize(text))
        rows.append(np.fromiter(numbers, np.int32))
    return rows, list(number_of)


def rank_with(words: Sequence[str], texts: Iterable[str], tokenize: Tokenize) -> Texts:
    """Ranks of texts under a vocabulary made before: `words`, most frequent first."""
    rank_of = {word: rank for rank, word in enumerate(words, start=1)}
    rows = []
    for text in texts:
        ranks = [rank_of.get(word, 0) for word in tokenize(text)]
        rows.append(np.array(ranks, np.int32))
    return rows


def kept_part(config: DataConfig) -> slice:
    """The tokens of a text that a model takes, `data.max_len` at most; its start counts as one."""
    if config.truncate is Side.pre:
        return slice(-config.max_len, None)
    return slice(config.max_len)


def to_text(ids: Ids, words: Sequence[str]) -> str:
    """The known words of a text, (max_len,), as the model sees it. words: by rank."""
    places = ids - FIRST_WORD
    known = [words[place] for place in places if 0 <= place < len(words)]
    return " ".join(known)


def to_ids(rows: Texts, config: DataConfig) -> Ids:
    """Ranks as Keras's ids, cut and padded: (n, max_len)."""
    ids = np.full((len(rows), config.max_len), PAD, np.int32)
    part = kept_part(config)
    for padded, ranks in zip(ids, rows, strict=True):
        kept = np.append(START, ranks + INDEX_FROM)[part]
        if config.pad is Side.pre:
            padded[-len(kept) :] = kept
        else:
            padded[: len(kept)] = kept
    has_rank_0 = ids == INDEX_FROM
    is_rare = ids >= config.vocab_size
    ids[has_rank_0 | is_rare] = UNKNOWN
    return ids
