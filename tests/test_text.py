"""Keras's rules for words, ranks and ids."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnexp.config.schema import DataConfig, Side
from attnexp.data.text import Ragged, keras_words, rank_with, rank_words, to_ids, tokenizer


def test_keras_words_lower_strip_filters_and_split_on_spaces() -> None:
    text = 'It\'s GOOD!<br />Really\tgood...\nno-one\u00a0else  says "so"'
    assert keras_words(text) == ["it's", "good", "br", "really", "good", "no", "one\u00a0else",
                                 "says", "so"]  # fmt: skip


def test_basic_english_comes_from_torchtext() -> None:
    assert tokenizer("basic_english")("You can't.<br />No!") == ["you", "can", "'", "t", ".", "no",
                                                                 "!"]  # fmt: skip


def test_ranks_count_from_one_by_falling_frequency_and_ties_keep_order() -> None:
    train, test, words = rank_words(["b a c a", "b d"], ["a z d"], str.split)
    assert words == ["b", "a", "c", "d"]
    assert train.values.tolist() == [1, 2, 3, 2, 1, 4]
    assert test.values.tolist() == [2, 0, 4]  # z was never seen in train
    assert train.offsets.tolist() == [0, 4, 6]


word = st.text(alphabet="abcd", min_size=1, max_size=2)
texts = st.lists(st.lists(word, max_size=8).map(" ".join), min_size=1, max_size=6)


@given(texts, texts)
def test_ranks_agree_with_a_counter(train: list[str], test: list[str]) -> None:
    counts = Counter(word for text in train for word in text.split())
    expected = {word: rank for rank, (word, _) in enumerate(counts.most_common(), start=1)}
    ranked_train, ranked_test, words = rank_words(train, test, str.split)
    for ranked, given_texts in ((ranked_train, train), (ranked_test, test)):
        wanted = [expected.get(word, 0) for text in given_texts for word in text.split()]
        assert ranked.values.tolist() == wanted
        again = rank_with(words, given_texts, str.split)
        assert again.values.tolist() == wanted
        assert again.offsets.tolist() == ranked.offsets.tolist()


def keras_ids(ranks: list[int], config: DataConfig) -> list[int]:
    """`load_data(num_words)` and `pad_sequences`, review by review."""
    ids = [1] + [rank + 3 if 0 < rank < config.vocab_size - 3 else 2 for rank in ranks]
    if len(ids) > config.max_len:
        pre = config.truncate is Side.pre
        ids = ids[-config.max_len :] if pre else ids[: config.max_len]
    padding = [0] * (config.max_len - len(ids))
    return padding + ids if config.pad is Side.pre else ids + padding


@given(
    st.lists(st.lists(st.integers(0, 30), max_size=9), min_size=1, max_size=5),
    st.sampled_from(Side),
    st.sampled_from(Side),
    st.integers(1, 8),
    st.integers(4, 40),
)
def test_ids_agree_with_keras_review_by_review(
    rows: list[list[int]], truncate: Side, pad: Side, max_len: int, vocab_size: int
) -> None:
    config = DataConfig(truncate=truncate, pad=pad, max_len=max_len, vocab_size=vocab_size)
    ids = to_ids(Ragged.of(rows), config)
    assert ids.dtype == np.int32
    assert ids.tolist() == [keras_ids(row, config) for row in rows]


@pytest.mark.parametrize("side", Side)
def test_an_empty_review_is_its_start_token(side: Side) -> None:
    ids = to_ids(Ragged.of([[]]), DataConfig(max_len=3, pad=side))
    assert ids.tolist() == ([[0, 0, 1]] if side is Side.pre else [[1, 0, 0]])
