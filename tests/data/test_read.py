"""The same rows in any format are the same data; what cannot be read is reported."""

import csv
import re
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import datasets
import pandas as pd
import pyarrow as pa
import pytest
from forms import Rows, frame, on_disk, refusal, rows_of, write_csv
from hypothesis import given
from hypothesis import strategies as st
from samples import write_file

from attnexp.data import encode
from attnexp.data.read import read_table

TEXTS = ["plain", 'a "quoted", text', "two\nlines", "tab\there", "NA", "null", "10", "2020-01-01",
         "☕ naïve", "a\u2028b", " space ", "", "true", "1.5", "'", "[1]"]  # fmt: skip
LABELS = ["LOC", "DESC, long", "HUM", "NA"]
ROWS: dict[str, Rows] = {
    "train": [(text, LABELS[i % 4]) for i, text in enumerate(TEXTS)],
    "test": [(f"test {i}", LABELS[i % 3]) for i in range(6)],
}
JSON: dict[str, Any] = {"orient": "records", "lines": True}


def write_text(frame: Any, path: Path, **how: Any) -> None:
    content = frame.to_csv(index=False, **how)
    with pa.output_stream(str(path), compression="detect") as stream:
        stream.write(content.encode(how.get("encoding", "utf-8")))


def write_shards(frame: Any, path: Path) -> None:
    for number, part in enumerate((frame[:3], frame[3:])):
        part.to_json(str(path).format(number), **JSON)


def write_classes(frame: Any, path: Path) -> None:
    table = datasets.Dataset.from_pandas(frame)
    table.class_encode_column("label").to_parquet(str(path))


FORMATS: dict[str, Any] = {
    "csv": ("{}.csv", write_text),
    "tsv": ("{}.tsv", partial(write_text, sep="\t")),
    "csv with bars": ("{}.csv", partial(write_text, sep="|")),
    "csv with a mark": ("{}.csv", partial(write_text, encoding="utf-8-sig")),
    "csv.zst": ("{}.csv.zst", write_text),
    "jsonl.gz": ("{}.jsonl.gz", partial(pd.DataFrame.to_json, **JSON)),
    "a list": ("{}.json", partial(pd.DataFrame.to_json, orient="records", indent=1)),
    "an index": ("{}.parquet", lambda rows, path: rows.set_index("text").to_parquet(path)),
    "the hub's names": ("data/{}-00000-of-00001.parquet", pd.DataFrame.to_parquet),
    "a folder a split": ("{}/rows.csv", write_text),
    "shards": ("{}-0000{{}}-of-00002.jsonl", write_shards),
    "classes named in parquet": ("{}.parquet", write_classes),
}


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_reads_alike(tmp_path: Path, form: str) -> None:
    name, write = FORMATS[form]
    for split, rows in ROWS.items():
        file = tmp_path / name.format(split)
        file.parent.mkdir(exist_ok=True)
        write(frame(rows), file)
    assert rows_of(on_disk(tmp_path)) == ROWS


def test_what_datasets_saves_reads_alike(tmp_path: Path) -> None:
    saved = datasets.DatasetDict()
    for split, rows in ROWS.items():
        saved[split] = datasets.Dataset.from_pandas(frame(rows))
    saved.save_to_disk(str(tmp_path))
    assert rows_of(on_disk(tmp_path)) == ROWS


@given(
    texts=st.lists(st.text('ab,;" \t\r\n', min_size=1), min_size=4, max_size=6),
    separator=st.sampled_from(",;\t"),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_what_pandas_writes_is_read_as_it_was(
    texts: list[str], separator: str, quoting: Any
) -> None:
    texts = ["two\nlines", *texts]  # of which neither is a row by itself
    rows = frame([(text, i) for i, text in enumerate(texts)])
    with TemporaryDirectory() as folder:
        path = Path(folder, "rows.csv")
        rows.to_csv(path, sep=separator, index=False, quoting=quoting, lineterminator="\r\n")
        assert read_table(path).text.tolist() == texts


GOOD = "text,label\n" + "".join(f"text {i},{i % 2}\n" for i in range(10))
LONE = GOOD.replace("text 3", '"text 3')
LATIN_1 = frame([("na?ve", 1)]).to_parquet(compression=None).replace(b"a?v", b"a\xefv")
WRONG: dict[str, Any] = {
    "nothing": ("a.csv", "", "it is empty"),
    "no label": ("a.csv", "text\na\nb\n", "plainly the label"),
    "an index": ("a.csv", ",words,label\n0,a,0\n1,b,1\n", "plainly the text"),
    "one column twice": ("a.csv", "text,label,text\nx,1,y\n", "several columns are called text"),
    "too many cells": ("a.csv", GOOD + "a,b,1\n", "row 11 has 3 cells, the first line 2"),
    "no header": ("a.csv", "a,1\nb,c,1\n", "row 2 has 3 cells", {"header": False}),
    "too few cells": ("a.csv", GOOD + "a\n", "1 rows have no text"),
    "a row cut before its text": ("a.csv", "label,text\n1,a\n0,b\n1\n", "row 3 of a.csv: None"),
    "a lone quote": ("a.csv", LONE, "unexpected end of data; data.quotes=false"),
    "joined rows": ("a.csv", LONE.replace("text 5", 'text 5"'), "11 lines are 9 rows, since"),
    "latin-1": ("a.csv", b"text,label\nna\xefve,1", "line 2: 'utf-8' codec"),
    "latin-1 in parquet": ("a.parquet", LATIN_1, "Invalid UTF8 sequence"),
    "a pointer of Git LFS": ("a.parquet", "version https://git-lfs.gith", "not a parquet file"),
    "columns": ("a.json", frame([("a", 0), ("b", 1)]).to_json(), "all of it is one object"),
    "lists": ("a.json", '[["a", 1], ["b", 0]]', "its files are 0, 1"),
    "tokens": ("a.jsonl", '{"text": ["a"], "label": 1}', "row 1 of a.jsonl: ['a'], 1"),
    "no name": ("a.jsonl", '{"text": "a", "label": null}', "row 1 of a.jsonl: 'a', "),
    "fractions": ("a.jsonl", '{"text": "a", "label": 0.5}', "row 1 of a.jsonl: 'a', 0.5"),
    "fractions in a csv": ("a.csv", GOOD.replace("1\n", "0.5\n"), "'text 1', '0.5'"),
    "copies": ("a.csv", "text,label\n" + "a,0\nb,1\n" * 9, "has the classes none"),
    "one class": ("a.csv", GOOD.replace("1\n", "0\n"), "has the classes 0, and train 0"),
    "another kind": ("a.txt", GOOD, "in no known format"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_reported_with_its_place(tmp_path: Path, case: str) -> None:
    name, content, message, *settings = WRONG[case]
    path = write_file(tmp_path / name, content)
    reported = refusal(on_disk(path, **dict(*settings)))
    assert str(path) in reported
    assert message in reported


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text,label\n", "test.csv, the test split, holds no texts"),
        ("text,label\nc,-1\n", "has the classes -1, and train 0, 1."),
        ("words,label\nc,0\nd,1\n", "plainly the text; the columns of all its files are label."),
    ],
)
def test_a_split_without_the_labels_or_columns_of_train_is_refused(
    tmp_path: Path, content: str, message: str
) -> None:
    write_csv(tmp_path / "train.csv", [("a", 0), ("b", 1)])
    write_file(tmp_path / "test.csv", content)
    assert message in refusal(on_disk(tmp_path))


NAMED = {"text": "a; b; text", "label": "y"}
NUMBERED = {"header": False, "text": "0", "label": "1"}
READ: dict[str, Any] = {
    "a lone quote": (LONE, {"quotes": False}, '"text 3'),
    "a blank line first": ("\n" + GOOD.replace(",", ";"), {}, "text 3"),
    "a column review first": (GOOD.replace("text", "review,text"), {}, "text 3"),
    "a column review second": (GOOD.replace(",", ",review,"), {}, "text 3"),
    "whole numbers as floats": (re.sub(r"(,\d)", r"\1.0", GOOD), {}, "text 3"),
    "spaces around labels": (GOOD.replace("1\n", " 1 \n"), {}, "text 3"),
    "a long text": (GOOD.replace("text 3", "a" * 200_000), {}, "a" * 200_000),
    "common names": (GOOD.replace("text,label", "Review, Sentiment "), {}, "text 3"),
    "names of one's own": (GOOD.replace("text,label", '"a; b; text",y'), NAMED, "text 3"),
    "no header": (GOOD.removeprefix("text,label\n"), NUMBERED, "text 0"),
}


@pytest.mark.parametrize("case", READ)
def test_what_programs_write_is_read_as_it_was(tmp_path: Path, case: str) -> None:
    content, settings, expected = READ[case]
    config = on_disk(write_file(tmp_path / "a.csv", content), **settings)
    assert config.title == "a.csv"
    rows = rows_of(config)
    texts = [text for text, _ in rows["train"] + rows["test"]]
    assert len(texts) == 10
    assert expected in texts
    assert {label for _, label in rows["train"]} == {"0", "1"}


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([0, 1], ["negative", "positive"]),
        ([True, False], ["negative", "positive"]),
        ([-1, 1], ["-1", "1"]),
        ([10, 9, 2], ["2", "9", "10"]),
        (["1", "01", "2"], ["01", "1", "2"]),
    ],
)
def test_labels_are_numbered_in_their_order(
    tmp_path: Path, labels: list[Any], classes: list[str]
) -> None:
    rows = [(str(i), label) for i, label in enumerate(labels * 5)]
    frame(rows).to_json(tmp_path / "a.jsonl", **JSON)
    dataset = encode.load_dataset(on_disk(tmp_path))
    assert [*dataset.classes] == classes
    assert dataset.train.labels.dtype == "int8"
