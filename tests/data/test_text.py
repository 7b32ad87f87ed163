"""Tokenizers, ours and anyone's, Keras's rules for ranks and ids, and pretrained vectors."""

import gzip
from collections import Counter
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import OwnModule
from hypothesis import given
from hypothesis import strategies as st

from attnexp.base.errors import UserError
from attnexp.config.schema import DataConfig, Side
from attnexp.data import text as t
from attnexp.data.encode import TokenizedCorpus
from attnexp.data.vectors import load_vectors


def test_our_tokenizers() -> None:
    words = t.keras('It\'s GOOD!<br />Really\tgood...\nno-one\u00a0else  says "so"')
    assert words == ["it's", *"good br really good no one\u00a0else says so".split(" ")]
    words = t.tokenizer_of(DataConfig(tokenizer="basic_english"))("You can't.<br />No!")
    assert words == ["you", "can", "'", "t", ".", "no", "!"]
    words = t.characters("我喜欢Attention，“真的”！ カフェで３杯。좋다 It's 〇𠮷々 A-1")
    assert words == [*"我喜欢", "attention", *"真的カフェで３杯좋다", "it's", *"〇𠮷々", "a", "1"]


OWN = r"""
def halves(text): return [text[:len(text) // 2], text[len(text) // 2:]]
def joined(text): return " ".join(text)
def lines(text): return ["a\nb", text]
def leaving(text): raise SystemExit(3)"""


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("joined", "ValueError: it returned 't h r e e'"),
        ("lines", r"ValueError: it returned \['a\\nb', 'three'\]"),
        ("leaving", "SystemExit: 3"),
    ],
)
def test_what_is_no_list_of_texts_fails(own_module: OwnModule, function: str, reason: str) -> None:
    module = own_module(OWN)
    assert t.tokenizer_of(DataConfig(tokenizer=f"{module}:halves"))("three") == ["th", "ree"]
    tokenize = t.tokenizer_of(DataConfig(tokenizer=f"{module}:{function}"))
    with pytest.raises(UserError, match=f"{function} failed on the text 'three': {reason}"):
        tokenize("three")


WORDS = st.text(alphabet="abcd", min_size=1, max_size=2)
TEXTS = st.lists(st.lists(WORDS, max_size=8), min_size=1, max_size=6)


@given(TEXTS, TEXTS)
def test_ranks_agree_with_a_counter(train: list[list[str]], test: list[list[str]]) -> None:
    expected_words = [word for word, _ in Counter(chain(*train)).most_common()]
    texts = [" ".join(text) for text in train + test]
    numbered, words = t.number_words(texts, str.split)
    splits = ["train"] * len(train) + ["test"] * len(test)
    rows = pd.DataFrame({"split": splits, "numbers": numbered})
    corpus = TokenizedCorpus(rows=rows, words=words, written=(), classes=(), source="", files={})
    ranked = corpus.by_rank()
    again = t.rank_with(ranked.words, texts, str.split)
    assert ranked.words == expected_words
    for text, ranks, same_ranks in zip(train + test, ranked.rows.numbers, again, strict=True):
        known = [expected_words.index(word) + 1 if word in expected_words else 0 for word in text]
        assert ranks.tolist() == same_ranks.tolist() == known


def keras_ids(ranks: list[int], config: DataConfig) -> list[int]:
    ids = [1]
    for rank in ranks:
        is_known = 0 < rank < config.vocab_size - 3
        ids.append(rank + 3 if is_known else 2)
    ids = ids[-config.max_len :] if config.truncate is Side.pre else ids[: config.max_len]
    padding = [0] * (config.max_len - len(ids))
    return padding + ids if config.pad is Side.pre else ids + padding


@given(
    rows=st.lists(st.lists(st.integers(0, 30), max_size=9), min_size=1, max_size=5),
    config=st.builds(
        DataConfig,
        truncate=st.sampled_from(Side),
        pad=st.sampled_from(Side),
        max_len=st.integers(1, 8),
        vocab_size=st.integers(4, 40),
    ),
)
def test_ids_agree_with_keras_review_by_review(rows: list[list[int]], config: DataConfig) -> None:
    ids = t.to_ids([np.array(row, np.int32) for row in rows], config)
    assert ids.dtype == np.int32
    assert ids.tolist() == [keras_ids(row, config) for row in rows]


VOCABULARY = ["good", "unheard", "the", "3", "no\u00a0one"]
EXPECTED = torch.tensor([[1, 2, 3], [0, 0, 0], [0.5, -1, 0.2], [0, 0, 0], [4, 5, 6]])
GLOVE = b"the 0.5 -1 2e-1\ngood 1 2 3\ngood luck 7 8 9\nno\xc2\xa0one 4 5 6\n"


def test_rows_follow_the_vocabulary_and_missing_words_are_zeros(tmp_path: Path) -> None:
    (tmp_path / "glove.txt").write_bytes(GLOVE)
    fasttext = b"3 3\ncaf\xe9 7 8 9\n" + GLOVE.replace(b"\n", b" \n")  # a header, a stray byte
    (tmp_path / "vec.gz").write_bytes(gzip.compress(fasttext))
    for name in ("glove.txt", "vec.gz"):
        vectors = load_vectors(str(tmp_path / name), VOCABULARY, 3)
        assert torch.equal(vectors.rows, EXPECTED)
        assert vectors.coverage == pytest.approx(3 / 5)
        few = load_vectors(str(tmp_path / name), VOCABULARY[:3], 3)
        assert few.fingerprint == vectors.fingerprint  # that of the file


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(b"gut 1 2 3\n", mtime=0), "no word is good, unheard, the, ..., or a number"),
        (gzip.compress(b"the 1 2 3\ngood 1 2 nan\n", mtime=0), "or a number is not finite"),
        (gzip.compress(b"good 1 2\n", mtime=0), "set model.d_model=2, as wide as its vectors"),
        (gzip.compress(GLOVE, mtime=0)[:10] + 9 * b"\xff", "Error -3"),
        (None, "No such file"),
    ],
)
def test_wrong_vectors_are_refused(tmp_path: Path, content: bytes | None, message: str) -> None:
    file = tmp_path / "vec.gz"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UserError, match=f"model.vectors={file} cannot be used: .*{message}"):
        load_vectors(str(file), VOCABULARY, 3)
