"""One's own data: every format gives the same rows, a split is fair, what is wrong is said."""

import csv
import gzip
import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from conftest import Command, Refused
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from samples import ROW_LABELS, ROW_TEXTS, ROWS, Rows, each, write_csv, write_folder, write_jsonl

from attnexp.base.errors import UserError
from attnexp.config.schema import DataConfig, DataName
from attnexp.data import encode
from attnexp.data.corpus import Corpus, draw_test
from attnexp.data.sources import find
from attnexp.data.tables import read_files


def columns(rows: Rows) -> dict[str, list[Any]]:
    return {"text": [text for text, _ in rows], "label": [label for _, label in rows]}


def write_csv_with_mark(path: Path, rows: Rows) -> None:
    write_csv(path, rows)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())


def write_list(path: Path, rows: Rows) -> None:
    path.write_text(json.dumps([{"label": label, "text": text, "n": 1} for text, label in rows]))


def write_parquet(path: Path, rows: Rows) -> None:
    parquet.write_table(pa.table(columns(rows)), path)


def save_to_disk(home: Path) -> None:
    import datasets

    datasets.disable_progress_bars()
    splits = {split: datasets.Dataset.from_dict(columns(rows)) for split, rows in ROWS.items()}
    datasets.DatasetDict(splits).save_to_disk(str(home))


def with_named_classes(home: Path) -> None:
    import datasets

    text, label = datasets.Value("string"), datasets.ClassLabel(names=ROW_LABELS)
    for split, rows in ROWS.items():
        numbered = columns([(text, ROW_LABELS.index(label)) for text, label in rows])
        given = datasets.Features({"text": text, "label": label})
        datasets.Dataset.from_dict(numbered, given).to_parquet(str(home / f"{split}.parquet"))


def shards(home: Path) -> None:
    for split, rows in ROWS.items():
        write_jsonl(home / f"{split}-00000-of-00002.jsonl", rows[:3])
        write_jsonl(home / f"{split}-00001-of-00002.jsonl", rows[3:])


FORMATS: dict[str, Callable[[Path], object]] = {
    "csv": each("{}.csv", write_csv),
    "tsv": each("{}.tsv", lambda path, rows: write_csv(path, rows, "\t")),
    "csv with semicolons": each("{}.csv", lambda path, rows: write_csv(path, rows, ";")),
    "csv with a mark": each("{}.csv", write_csv_with_mark),
    "csv.zst": each("{}.csv.zst", write_csv),
    "jsonl": each("{}.jsonl", write_jsonl),
    "jsonl.gz": each("{}.jsonl.gz", write_jsonl),
    "a list in json": each("{}.json", write_list),
    "parquet": each("{}.parquet", write_parquet),
    "the hub's names": each("data/{}-00000-of-00001.parquet", write_parquet),
    "a folder a split": each("{}/rows.csv", write_csv),
    "shards": shards,
    "save_to_disk": save_to_disk,
    "classes named in parquet": with_named_classes,
}  # fmt: skip


def on_disk(path: Path, **settings: Any) -> DataConfig:
    return DataConfig(name=DataName.files, path=str(path), max_len=4, **settings)


def read(path: Path, **settings: Any) -> Corpus:
    return find(on_disk(path, **settings)).read()


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_rows_have_the_same_fingerprint_in_every_format(tmp_path: Path, form: str) -> None:
    FORMATS[form](tmp_path)
    corpus = read(tmp_path)
    assert corpus.classes == tuple(sorted(ROW_LABELS))
    assert corpus.train.texts == ROW_TEXTS
    assert [corpus.classes[i] for i in corpus.test.labels] == [label for _, label in ROWS["test"]]
    (tmp_path / "again").mkdir()
    FORMATS["parquet"](tmp_path / "again")
    fingerprint = encode.load(on_disk(tmp_path / "again")).fingerprint
    shutil.rmtree(tmp_path / "again")
    assert encode.load(on_disk(tmp_path)).fingerprint == fingerprint


TEXTS = st.lists(st.text('ab" \t\n', min_size=1), min_size=4, max_size=6)


@given(texts=TEXTS, quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
def test_a_tsv_of_pandas_is_read_as_it_was(texts: list[str], quoting: Any) -> None:
    frame = pd.DataFrame({"text": texts, "label": [i % 2 for i in range(len(texts))]})
    with TemporaryDirectory() as folder:
        file = Path(folder, "rows.tsv")
        frame.to_csv(file, sep="\t", index=False, quoting=quoting)
        assert read_files([file], None, None).texts == texts


@given(
    texts=TEXTS.map(
        lambda texts: ["plain", '"so" it begins', *map(" ".join, map(str.split, texts))]
    )
)
def test_quotes_of_a_tsv_without_a_csv_writer_are_part_of_the_text(texts: list[str]) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder, "rows.tsv")
        lines = [f"{text}\t{i % 2}" for i, text in enumerate(texts)]
        file.write_text("\n".join(["text\tlabel", *lines, ""]))
        assert read_files([file], None, None).texts == texts


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([0, 1], ("negative", "positive")),
        (["1", "0"], ("negative", "positive")),
        (["neg", "pos"], ("negative", "positive")),
        ([True, False], ("negative", "positive")),
        ([-1, 1], ("-1", "1")),
        ([10, 9, 2], ("2", "9", "10")),
        (["10", "9", "b"], ("10", "9", "b")),
        (["1", "01", "2"], ("01", "1", "2")),
        (["0", "-0", "1"], ("-0", "0", "1")),
        (["1", "١", "2"], ("1", "2", "١")),
    ],
)
def test_labels_are_numbered_in_their_order(
    tmp_path: Path, labels: list[Any], classes: tuple[str, ...]
) -> None:
    given = [(str(i), label) for i, label in enumerate(labels * 5)]
    for write, name in ((write_jsonl, "a.jsonl"), (write_csv, "a.csv")):
        write(tmp_path / name, given)
        corpus = read(tmp_path / name)
        assert corpus.classes == classes
        assert {corpus.train.labels.dtype, corpus.test.labels.dtype} == {np.dtype(np.int8)}


def test_a_thousand_classes_are_read(tmp_path: Path) -> None:
    rows = [(f"text {i}", i % 1000) for i in range(4000)]
    write_jsonl(tmp_path / "a.jsonl", rows)
    corpus = read(tmp_path)
    assert len(corpus.classes) == 1000
    assert corpus.train.labels.max() == 999


# Columns.


@pytest.mark.parametrize(
    ("others", "text", "label", "settings"),
    [
        (["sentence", "topic"], "text", "label", {}),
        ([], "question", "topic", {}),
        (["id"], "Review", "Sentiment", {}),
        ([], "tweet", "label", {}),
        ([], "content", "stance", {}),
        (["text", "label"], "mine", "yours", {"text": "mine", "label": "yours"}),
        ([], "topic", "class", {"text": "topic"}),
        (["id"], "body", "label", {"text": "body"}),
    ],
)
def test_columns_are_found_where_that_is_plain(
    tmp_path: Path, others: list[str], text: str, label: str, settings: dict[str, str]
) -> None:
    rows = [{**dict.fromkeys(others, i), text: f"text {i}", label: "yn"[i % 2]} for i in range(10)]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    corpus = read(tmp_path, **settings)
    assert corpus.classes == ("n", "y")
    assert all(str(review).startswith("text ") for review in corpus.train.texts)


def test_a_row_without_one_of_the_named_classes_is_reported(tmp_path: Path) -> None:
    import datasets

    given = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["no", "yes"])}
    )
    rows = datasets.Dataset.from_dict({"text": ["a", "b", "c"], "label": [0, -1, 1]}, given)
    rows.to_parquet(str(tmp_path / "train.parquet"))
    with pytest.raises(UserError, match="1 are not: None, in row 1"):
        read(tmp_path)


# A test split.


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5, 0.9])
def test_a_drawn_split_is_stratified_and_keeps_equal_texts_together(share: float) -> None:
    random = np.random.default_rng(1)
    labels = random.choice(3, 3000, p=[0.7, 0.2, 0.1])
    texts = [f"text {i}" for i in random.integers(2500, size=3000)]  # many stand there twice
    is_test = draw_test(texts, labels, share)
    assert np.array_equal(draw_test(texts, labels, share), is_test)
    sides = {(text, bool(side)) for text, side in zip(texts, is_test, strict=True)}
    assert len(sides) == len(set(texts))
    for label in range(3):
        assert is_test[labels == label].mean() == pytest.approx(share, abs=0.06)
    assert is_test.mean() == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_some_of_every_class_remains_to_train_on(share: float) -> None:
    texts, labels = [*"aaaaaaabcdd"], np.array([0] * 8 + [1] * 3)
    assert set(labels[~draw_test(texts, labels, share)]) == {0, 1}


def test_a_finished_run_meets_all_rows_of_one_file_and_its_own_classes(tmp_path: Path) -> None:
    write_csv(tmp_path / "mine.csv", [(f"good {i}", "yn"[i % 2]) for i in range(10)])
    mine = on_disk(tmp_path / "mine.csv")
    assert encode.load(mine).source == f"csv file {tmp_path}/mine.csv, 20% drawn as test"
    labels = encode.load_test(mine, ["good"], ["n", "x", "y"]).labels
    assert Counter(labels.tolist()) == {2: 5, 0: 5}
    with pytest.raises(UserError, match=r"labels that the run has not: n, y\. The run has no, yes"):
        encode.load_test(mine, ["good"], ["no", "yes"])


def test_a_finished_run_matches_labels_as_they_are_written(tmp_path: Path) -> None:
    """Also where 0 and 1, alone in a file, would be called negative and positive."""
    write_csv(tmp_path / "mine.csv", [(f"good {i}", i % 2) for i in range(10)])
    mine = on_disk(tmp_path / "mine.csv")
    for classes, labels in (("2 1 0", {2: 5, 1: 5}), ("negative positive", {0: 5, 1: 5})):
        found = encode.load_test(mine, ["good"], classes.split())
        assert Counter(found.labels.tolist()) == labels
    with pytest.raises(UserError, match="labels that the run has not: 0, 1"):
        encode.load_test(mine, ["good"], ["negative", "neutral", "positive"])


def test_files_by_other_names_are_splits_when_asked_for(tmp_path: Path) -> None:
    for name in ("old", "new", "validation"):
        write_csv(tmp_path / f"{name}.csv", [(f"{name} {i}", i % 2) for i in range(4)])
    corpus = read(tmp_path, train_split="old", test_split="new")
    assert corpus.train.texts == [f"old {i}" for i in range(4)]
    assert corpus.test.texts == [f"new {i}" for i in range(4)]


def test_limits_draw_from_every_class_its_share(tmp_path: Path) -> None:
    rows = [(f"text {i}", "abbbcccccc"[i % 10]) for i in range(200)]
    write_csv(tmp_path / "train.csv", rows)
    dataset = encode.load(on_disk(tmp_path, limit_train=50, limit_test=20))
    assert Counter(dataset.train.labels.tolist()) == {0: 5, 1: 15, 2: 30}
    assert Counter(dataset.test.labels.tolist()) == {0: 2, 1: 6, 2: 12}


# What is wrong.

GOOD = "text,label\n" + "".join(f"text {i},{i % 2}\n" for i in range(10))
WRONG: dict[str, tuple[str, str | bytes, list[str]]] = {
    "nothing": ("a.csv", "", ["is empty", "first row"]),
    "a header alone": ("a.csv", "text,label\n", ["holds no texts"]),
    "no label": ("a.csv", "text,a,b\nx,1,2\n", ["plainly the label", "text, a, b", "data.label="]),
    "one column twice": ("a.csv", "text,label,text\nx,1,y\n", ["more than one column text"]),
    "too many columns": ("a.csv", GOOD + "a,b,1\n", ["row 10", "names 2", "has 3: 'a,b,1'"]),
    "too few columns": ("a.csv", GOOD + "a\n\nb\n", ["rows 10, 11", "names 2", "has 1"]),
    "an open quote": ("a.csv", GOOD + '"a,1\n', ["Line 12", "quotes"]),
    "latin-1": ("a.csv", GOOD.encode() + b"na\xefve,1\n", ["Line 12", "not UTF-8"]),
    "fractions": ("a.csv", "text,label\na,0.5\nb,0.25\n", ["names or whole", "'0.25', '0.5'"]),
    "no JSON": ("a.jsonl", '{"text": "a", "label": 1}\n{"text": \n', ["no JSON object", "row 1"]),
    "half a character": ("a.jsonl", '{"text": "\\ud800", "label": 1}', ["no JSON object", "row 0"]),
    "deep JSON": ("a.json", "[" * 100_000, ["damaged"]),
    "a text missing": (
        "a.jsonl", '{"label": 1}\n{"text": "b", "label": 0}\n', ["no text in row 0: None"],
    ),
    "a label missing": (
        "a.jsonl", '{"text": "a"}\n{"text": "b", "label": 0}\n', ["None", "row 0"],
    ),
    "too many classes": (
        "a.csv", "text,label\n" + "".join(f"a,c{i}\n" for i in range(1001)), ["1,001", "1,000"],
    ),
    "copies": ("a.csv", "text,label\n" + "a,0\nb,1\n" * 9, ["too few different", "test_share=0.2"]),
    "one class": ("a.csv", GOOD.replace("1\n", "0\n"), ["every text is labelled 0", "Two"]),
    "gzip cut off": ("a.csv.gz", gzip.compress(GOOD.encode())[:-9], ["damaged"]),
    "no parquet": ("a.parquet", GOOD, ["damaged"]),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, case: str) -> None:
    name, content, parts = WRONG[case]
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(UserError) as caught:
        encode.load(on_disk(path))
    assert all(part in str(caught.value) for part in [str(path), *parts]), caught.value


@pytest.mark.parametrize(
    ("names", "settings", "parts"),
    [
        (["train.csv", "train.tsv"], {}, ["several data sets", "*.csv", "*.tsv"]),
        (["a.csv", "b.csv"], {}, ["no train file", "a.csv, b.csv", "data.train_split="]),
        (["train.csv"], {"test_split": "dev"}, ["no dev file", "data.test_split="]),
        (["train-0-of-2.csv"], {}, ["1 of 2 files train-*"]),
    ],
)
def test_files_that_are_no_splits_are_reported(
    tmp_path: Path, names: list[str], settings: dict[str, str], parts: list[str]
) -> None:
    for name in names:
        (tmp_path / name).write_text(GOOD)
    with pytest.raises(UserError) as caught:
        read(tmp_path, **settings)
    assert all(part in str(caught.value) for part in [str(tmp_path), *parts]), caught.value


@pytest.mark.parametrize(
    "settings", [{"text": "a"}, {"label": "a"}, {"train_split": "a"}, {"test_split": "a"}]
)
def test_what_leaves_nothing_to_choose_is_reported(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    write_folder(tmp_path)
    ((key, _),) = settings.items()
    with pytest.raises(UserError, match=f"data.{key}=a would do nothing: aclImdb folder"):
        read(tmp_path, **settings)


def test_labels_of_test_that_train_has_not_are_reported(tmp_path: Path) -> None:
    write_csv(tmp_path / "train.csv", [("a", "x"), ("b", "y")])
    write_csv(tmp_path / "test.csv", [("a", "x"), ("b", "z")])
    with pytest.raises(UserError, match="no text of train is labelled z"):
        read(tmp_path)


def test_the_command_shows_classes_and_tells_what_is_wrong(
    here: Command, refused: Refused, tmp_path: Path
) -> None:
    (tmp_path / "mine.csv").write_text(GOOD.replace("text,", "question,").replace("1\n", "yes\n"))
    words = ["data", "prepare", "data=files", f"data.path={tmp_path}/mine.csv"]
    done = here(*words)
    assert "2 classes: 0 4 + 1; yes 4 + 1" in done.stdout
    assert "Column question is the text, label the label." in done.stderr
    assert "There is no test split: 20% of train is drawn as one." in done.stderr
    wrong = refused(*words, "data.text=body")
    assert "no column body; its columns are question, label" in wrong
