"""Draws are fair and repeat, problems are counted, and the embedded corpus is what it claims."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import IMDB, Patch, needs_imdb
from forms import Rows, on_disk, write_csv
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import message_of, write_file

from attnexp.config.compose import compose
from attnexp.config.schema import DataConfig
from attnexp.data import contrast
from attnexp.data.encode import TokenizedCorpus, load_dataset

TEXTS = [f"this film is number {i} of all" for i in range(12)]
TRAIN, TEST = TEXTS[:8], TEXTS[8:]
LABELS = st.lists(st.integers(0, 2), min_size=1, max_size=9)


def corpus_of(rows: pd.DataFrame) -> TokenizedCorpus:
    return TokenizedCorpus(rows=rows, words=[], written=(), classes=(), source="", files={})


def write(home: Path, **splits: list[str]) -> DataConfig:
    """Texts labelled 0 and 1 in turn, and the config that reads them."""
    for split, texts in splits.items():
        write_csv(home / f"{split}.csv", [(text, i % 2) for i, text in enumerate(texts)])
    return on_disk(home, max_len=6)


@pytest.mark.parametrize("share", [0.01, 0.2, 0.9])
def test_a_drawn_split_is_stratified(share: float) -> None:
    labels = np.repeat([0, 1, 2], [2100, 600, 300])
    groups = np.random.default_rng(1).integers(2500, size=3000)  # many stand there twice
    rows = pd.DataFrame({"split": "train", "text": range(3000), "label": labels, "group": groups})
    drawn = corpus_of(rows).draw_test(rows, dict.fromkeys(range(3), share), seed=0).rows
    is_test = drawn["split"].sort_index() == "test"
    assert not {*groups[is_test]} & {*groups[~is_test]}
    assert is_test.mean() == pytest.approx(share, abs=0.01)
    assert [*is_test.groupby(labels).mean()] == pytest.approx([share] * 3, abs=0.06)


def test_limits_draw_from_every_class_its_share(tmp_path: Path) -> None:
    write_csv(tmp_path / "train.csv", [*enumerate(20 * "abbbcccccc")])
    dataset = load_dataset(on_disk(tmp_path, limit_train=50, limit_test=20))
    assert np.bincount(dataset.train.labels).tolist() == [5, 15, 30]
    assert np.bincount(dataset.test.labels).tolist() == [2, 6, 12]
    message = message_of(load_dataset, on_disk(tmp_path, limit_train=9))
    assert message == "data.limit_train=9 leaves no text of some class. Use more."


@settings(max_examples=50)
@given(train=LABELS, test=LABELS, seed=st.integers(0, 2**63 - 1))
def test_a_new_draw_keeps_union_and_classes(train: list[int], test: list[int], seed: int) -> None:
    splits = ["train"] * (3 + len(train)) + ["test"] * len(test) + ["val"]
    rows = pd.DataFrame({"split": splits, "text": "a", "label": [0, 1, 2, *train, *test, 0]})
    rows["group"] = rows.index
    drawn = corpus_of(rows).redraw(seed).rows
    assert [*drawn["split"]] == splits
    assert sorted(drawn.index) == [*rows.index]
    assert drawn.index[-1] == rows.index[-1]  # validation stays
    by_class = rows.value_counts(["split", "label"])
    assert drawn.value_counts(["split", "label"]).to_dict() == by_class.to_dict()
    for split in ("train", "test"):
        assert drawn[drawn["split"] == split].index.is_monotonic_increasing


def test_a_corpus_drawn_anew_keeps_its_fingerprint_and_counts_words_anew(tmp_path: Path) -> None:
    config = write(tmp_path, train=TEXTS, test=[f"another {i} text {i}" for i in range(10)])
    whole = load_dataset(config)
    config.test_share = 0.5
    assert "data.test_share would do nothing" in message_of(load_dataset, config)
    config.test_share = 0.2
    drawn = load_dataset(config, resample=0)
    assert drawn.fingerprint == whole.fingerprint
    assert drawn.words != whole.words
    assert not {"another", "text"} & {*drawn.words}  # which the old train split did not have


def test_a_draw_leaves_some_of_every_class_and_is_refused_if_test_has_none(tmp_path: Path) -> None:
    texts = pd.DataFrame({"split": "train", "label": [0, 0, 0, 0, 1], "group": [0, 0, 0, 0, 1]})
    assert "train" in {*corpus_of(texts).draw_test(texts, {0: 0.9, 1: 0.9}, seed=0).rows.split}
    rows: Rows = [("good film", 1), ("bad film", 0)]
    write_csv(tmp_path / "train.csv", 9 * rows)
    write_csv(tmp_path / "test.csv", rows)
    assert "draws it has the classes none" in message_of(load_dataset, on_disk(tmp_path), 1)


def test_an_own_validation_split_is_encoded_beside_the_others(tmp_path: Path) -> None:
    config = write(tmp_path, train=TRAIN, test=TEST, validation=[TEXTS[0], "unheard words"])
    without = load_dataset(config)
    config.val_split = "validation"
    dataset: Any = load_dataset(config)
    assert [*dataset.val.ids[1]] == [0, 0, 0, 1, 2, 2]
    assert np.array_equal(dataset.val.ids[0], without.train.ids[0])
    assert np.array_equal(dataset.test.ids, without.test.ids)
    assert dataset.fingerprint != without.fingerprint


def test_problems_are_counted(tmp_path: Path) -> None:
    config = write(tmp_path, train=TRAIN, test=TEST, validation=["New words", TRAIN[0]])
    assert load_dataset(config).quality == {}
    config = write(tmp_path, train=[*TRAIN, TRAIN[0], ""], test=[*TEST, TRAIN[5], "new  words."])
    config.val_split = "validation"
    assert load_dataset(config).quality == {
        "test texts also occur in train": 1,
        "val texts also occur in train": 1,
        "val texts also occur in test": 1,
        "texts repeat another of their split": 1,
        "different texts have two labels or more": 3,
        "texts hold no word: row 10 of train.csv": 1,
    }


def test_a_label_that_pandas_writes_for_none_is_counted(tmp_path: Path) -> None:
    config = write(tmp_path, test=TEST)
    write_csv(tmp_path / "train.csv", [("a\r\nb", "\\N"), ("c", 1), ("d", 1), ("e", 0)])
    assert load_dataset(config).words[0] == "a"  # and not a with half a line break
    assert load_dataset(config).quality == {
        "labels are \\N, as where one is missing: row 1 of train.csv": 1,
        "of 3 classes with one text in train: 0, \\N": 2,
        "of 3 classes with no text in test: \\N": 1,
    }


@pytest.mark.parametrize(("resample", "num_test"), [(None, 16), (0, 4)])
def test_equal_texts_stay_together(tmp_path: Path, resample: int | None, num_test: int) -> None:
    """Whether they have one label or two, and where test was read, too."""
    pairs = "".join(f"number {i}.,0\nnumber {i}!,1\n" for i in range(40))
    write_file(tmp_path / "train.csv", "text,label\n" + pairs)
    config = write(tmp_path) if resample is None else write(tmp_path, test=TEST)
    dataset = load_dataset(config, resample)
    assert "test texts also occur in train" not in dataset.quality
    assert len(dataset.test.labels) == num_test


@pytest.mark.parametrize(("fraction", "share"), [(0.0, 1.0), (0.3, 0.85), (1.0, 0.5)])
def test_order_blind_answers_reach_the_ceiling(fraction: float, share: float) -> None:
    rows = contrast.generate_rows(fraction)
    assert rows["text"].is_unique
    rows["bag"] = rows["text"].str.split().map(sorted).str.join(" ")
    counts = rows.value_counts(["split", "bag", "label"])
    num_right = counts.groupby(["split", "bag"]).max().groupby("split").sum()
    assert [*num_right] == [share * contrast.NUM_TEST, share * contrast.NUM_TRAIN]


def test_what_stands_after_but_decides() -> None:
    rows = contrast.generate_rows(1.0)
    after = rows["text"].str.partition(" but ")[2].str.split()
    is_praised = [not {*contrast.PRAISE}.isdisjoint(words) for words in after]
    assert is_praised == [label == 1 for label in rows["label"]]


@pytest.mark.parametrize(
    ("name", "fingerprint"),
    [
        ("contrast", "efcf84f255c10c89"),  # whose labels follow from order
        pytest.param("cr", "10154df0b5aca674", marks=needs_imdb),  # of which test is drawn
        pytest.param("mpqa", "6864808ef195cf73", marks=needs_imdb),
        pytest.param("imdb", "63f4f417d797f53e", marks=[needs_imdb, pytest.mark.slow]),
    ],
)
def test_fingerprints_stay(monkeypatch: Patch, name: str, fingerprint: str) -> None:
    monkeypatch.setenv("ATTNEXP_DATA", str(IMDB.parent))
    assert load_dataset(compose([f"data={name}"]).data).fingerprint == fingerprint
