"""Tokenizers, ours and anyone's; Keras's rules for ranks and ids; texts drawn anew."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnexp.base.errors import UserError
from attnexp.config.compose import compose
from attnexp.config.schema import TOKENIZERS, DataConfig, Side
from attnexp.data.text import (
    Ragged,
    characters,
    keras_words,
    rank_with,
    rank_words,
    resample,
    to_ids,
    tokenizer,
    tokenizer_kind,
)


def test_keras_words_lower_strip_filters_and_split_on_spaces() -> None:
    text = 'It\'s GOOD!<br />Really\tgood...\nno-one\u00a0else  says "so"'
    assert keras_words(text) == ["it's", "good", "br", "really", "good", "no", "one\u00a0else",
                                 "says", "so"]  # fmt: skip


def test_basic_english_comes_from_torchtext() -> None:
    assert tokenizer("basic_english")("You can't.<br />No!") == ["you", "can", "'", "t", ".", "no",
                                                                 "!"]  # fmt: skip


def test_characters_splits_chinese_japanese_and_korean() -> None:
    text = "我喜欢Attention，“真的”！ カフェで３杯。좋다 It's 〇𠮷々 A-1"
    assert characters(text) == [
        *"我喜欢", "attention", *"真的カフェで", "３", "杯", *"좋다", "it's", *"〇𠮷々", "a", "1",
    ]  # fmt: skip
    assert tokenizer("whitespace")(" 我 喜欢，\u3000A\n") == ["我", "喜欢，", "A"]


HAN = st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF)
ASCII = st.characters(max_codepoint=0x7F)


@given(st.text(alphabet=HAN | ASCII))
def test_characters_differs_from_the_default_rules_in_cjk_alone(text: str) -> None:
    apart = "".join(f" {one} " if one >= "\u4e00" else one for one in text)
    assert characters(text) == keras_words(apart)


def test_every_tokenizer_of_ours_is_a_function_like_anyones() -> None:
    text = "It is GOOD"
    for name, kind in TOKENIZERS.items():
        assert tokenizer_kind(name) == tokenizer_kind(kind) == kind
        assert tokenizer(name)(text) == tokenizer(kind)(text)
        assert [token.lower() for token in tokenizer(name)(text)] == ["it", "is", "good"]


OWN = """
rate = 3
def halves(text):
    return [text[:len(text) // 2], text[len(text) // 2:]]
def joined(text):
    return " ".join(text)
def coded(text):
    return [text.encode(), text]
def lines(text):
    return ["a\\nb", text]
def broken(text):
    return inner(text)
def inner(text):
    import json
    return json.loads(text)
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module of one's own, which the current process has not imported yet."""
    name = f"tokens_of_{tmp_path.name}"
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / f"{name}.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path / "beside"))
    return name


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("none", "cannot be imported: AttributeError: .* has no attribute 'none'. Give a function"),
        ("rate", "is no function, but 3. Give a function"),
        ("joined", "returned 't h r e e', of type str, on the text 'three'. Let it return a list"),
        ("coded", r"returned \[b'three', 'three'\], of type list of bytes and str"),
        ("lines", r"returned the token 'a\\nb'. Leave out line breaks"),
        ("broken", r"raised JSONDecodeError: .*\.py, line 15\), on the text 'three'. Mend"),
    ],
)
def test_what_is_wrong_with_a_tokenizer_is_said(own: str, function: str, said: str) -> None:
    with pytest.raises(UserError, match=f"data.tokenizer={own}:{function} {said}"):
        tokenizer(f"{own}:{function}")("three")


def test_a_module_that_fails_is_named_with_its_line(own: str, tmp_path: Path) -> None:
    (tmp_path / "beside" / f"{own}.py").write_text("rate = 3\nrate / 0\n")
    with pytest.raises(UserError, match=rf"ZeroDivisionError: .*{own}\.py, line 2\)"):
        tokenizer(f"{own}:halves")


@pytest.mark.parametrize(
    ("given_name", "said"),
    [
        ("kears", "there is no such tokenizer. Did you mean 'keras'. Choose one of: keras, basic"),
        ("keras:", "there is no such tokenizer"),
        ("no_such_module:split", "there is no file of module 'no_such_module' in .* PYTHONPATH"),
        ("..:split", "there is no file of module"),
        ("builtins:list", "there is no file of module"),
    ],
)
def test_a_tokenizer_that_is_not_there_is_refused_before_data_are_read(
    given_name: str, said: str
) -> None:
    with pytest.raises(UserError, match=f"data.tokenizer={given_name}: {said}"):
        compose([f"data.tokenizer={given_name}"])


word = st.text(alphabet="abcd", min_size=1, max_size=2)
texts = st.lists(st.lists(word, max_size=8).map(" ".join), min_size=1, max_size=6)


@given(texts, texts)
def test_ranks_agree_with_a_counter(train: list[str], test: list[str]) -> None:
    counts = Counter(word for text in train for word in text.split())
    expected = {word: rank for rank, (word, _) in enumerate(counts.most_common(), start=1)}
    (ranked_train, ranked_test), words = rank_words(train, test, str.split)
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


@st.composite
def corpora(draw: st.DrawFn) -> tuple[list[list[str]], list[list[int]]]:
    """Texts and labels of train and test; every class of test is in train."""
    text = st.lists(word, max_size=8).map(" ".join)
    labels = [[*range(3), *draw(st.lists(st.integers(0, 2), max_size=12))],
              draw(st.lists(st.integers(0, 2), min_size=1, max_size=12))]  # fmt: skip
    return [[draw(text) for _ in half] for half in labels], labels


@given(corpora(), st.integers(0, 2**63 - 1))
def test_texts_drawn_anew_keep_their_union_and_classes(
    corpus: tuple[list[list[str]], list[list[int]]], seed: int
) -> None:
    given_texts, labels = corpus
    train, test = given_texts
    old, old_words = rank_words(train, test, str.split)
    arrays = [np.array(half, np.int8) for half in labels]
    new, new_labels, words = resample(old, arrays, old_words, seed)
    assert [len(half) for half in new] == [len(half) for half in old]
    for before, after in zip(arrays, new_labels, strict=True):
        assert after.dtype == np.int8
        assert np.bincount(after, minlength=3).tolist() == np.bincount(before, minlength=3).tolist()

    # Every text as words, those unknown as None, and as far as the new train split knows them.
    def read(ranks: Ragged, words: list[str], known: set[str]) -> list[tuple[str | None, ...]]:
        texts = [[words[rank - 1] if rank else None for rank in text] for text in ranks]
        return [tuple(one if one in known else None for one in text) for text in texts]

    union = [*read(old[0], old_words, {*words}), *read(old[1], old_words, {*words})]
    drawn = [*read(new[0], words, {*words}), *read(new[1], words, {*words})]
    assert Counter(zip(drawn, np.concatenate(new_labels).tolist(), strict=True)) == Counter(
        zip(union, [*labels[0], *labels[1]], strict=True)
    )
    counts = Counter(one for text in drawn[: len(new[0])] for one in text if one is not None)
    assert [counts[one] for one in words] == sorted(counts.values(), reverse=True)
    again, _, words_again = resample(old, arrays, old_words, seed)
    assert words_again == words
    assert again[0].values.tolist() == new[0].values.tolist()


def test_another_seed_draws_other_texts_also_of_ranks_without_words() -> None:
    ranks = Ragged.of([[i] for i in range(1, 41)]), Ragged.of([[i] for i in range(41, 61)])
    labels = [np.zeros(40, np.int8), np.zeros(20, np.int8)]
    named = [f"{i}" for i in range(1, 61)]
    drawn = [frozenset(resample(ranks, labels, named, seed)[2]) for seed in range(5)]
    assert len(set(drawn)) == 5
    (train, test), _, words = resample(ranks, labels, [], 0)
    assert words == []
    assert sorted(train.values.tolist()) == [*range(1, 41)]  # counted anew
    assert not test.values.any()
