"""The same rows in any format are the same data; what cannot be read is reported."""

import csv
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import datasets
import pandas as pd
import pyarrow as pa
import pytest
from conftest import Capture
from forms import Rows, frame, on_disk, refusal, rows_of, write_csv, write_file
from hypothesis import given
from hypothesis import strategies as st

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
FRAMES = {split: frame(rows) for split, rows in ROWS.items()}


def write_text(frame: Any, path: Path, **how: Any) -> None:
    with pa.output_stream(str(path), compression="detect") as stream:
        stream.write(frame.to_csv(index=False, **how).encode(how.get("encoding", "utf-8")))


def write_shards(frame: Any, path: Path) -> None:
    for i, part in enumerate((frame[:3], frame[3:])):
        part.to_json(str(path).format(i), **JSON)


def write_classes(frame: Any, path: Path) -> None:
    datasets.Dataset.from_pandas(frame).class_encode_column("label").to_parquet(str(path))


FORMATS: dict[str, tuple[str, Callable[..., None]]] = {
    "csv": ("{}.csv", write_text),
    "tsv": ("{}.tsv", partial(write_text, sep="\t")),
    "csv with bars": ("{}.csv", partial(write_text, sep="|")),
    "csv with a mark": ("{}.csv", partial(write_text, encoding="utf-8-sig")),
    "csv.zst": ("{}.csv.zst", write_text),
    "jsonl.gz": ("{}.jsonl.gz", partial(pd.DataFrame.to_json, **JSON)),
    "a list": ("{}.json", partial(pd.DataFrame.to_json, orient="records", indent=1)),
    "an index": ("{}.parquet", lambda frame, path: frame.set_index("text").to_parquet(path)),
    "the hub's names": ("data/{}-00000-of-00001.parquet", pd.DataFrame.to_parquet),
    "a folder a split": ("{}/rows.csv", write_text),
    "shards": ("{}-0000{{}}-of-00002.jsonl", write_shards),
    "classes named in parquet": ("{}.parquet", write_classes),
}


@pytest.mark.parametrize("form", [*FORMATS, "save_to_disk"])
def test_every_format_reads_alike(tmp_path: Path, form: str) -> None:
    if form == "save_to_disk":
        sets = {split: datasets.Dataset.from_pandas(frame) for split, frame in FRAMES.items()}
        datasets.DatasetDict(sets).save_to_disk(str(tmp_path))
    else:
        name, write = FORMATS[form]
        for split, held in FRAMES.items():
            (tmp_path / name.format(split)).parent.mkdir(exist_ok=True)
            write(held, tmp_path / name.format(split))
    assert rows_of(on_disk(tmp_path)) == ROWS
    assert encode.load_dataset(on_disk(tmp_path)).fingerprint == "b2d744893f769cc5"  # as ever


@given(
    texts=st.lists(st.text('ab,;" \t\n', min_size=1), min_size=4, max_size=6),
    kind=st.sampled_from([("csv", ","), ("csv", ";"), ("tsv", "\t")]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_what_pandas_writes_is_read_as_it_was(texts: list[str], kind: Any, quoting: Any) -> None:
    texts = ["two\nlines", *texts]  # of which neither is a row by itself
    ending, separator = kind
    rows = frame([(text, i) for i, text in enumerate(texts)])
    with TemporaryDirectory() as folder:
        path = Path(folder, f"rows.{ending}")
        rows.to_csv(path, sep=separator, index=False, quoting=quoting)
        assert read_table(path).text.tolist() == texts


GOOD = "text,label\n" + "".join(f"text {i},{i % 2}\n" for i in range(10))
LONE = GOOD.replace("text 3", '"text 3')
WRONG: dict[str, tuple[str, str | bytes, list[str]]] = {
    "nothing": ("a.csv", "", ["it is empty"]),
    "no label": ("a.csv", "text\na\nb\n", ["plainly the label", "data.label=COLUMN"]),
    "one column twice": ("a.csv", "text,label,text\nx,1,y\n", ["several columns are called text"]),
    "too many cells": ("a.csv", GOOD + "a,b,1\n", ["row 11 has 3 cells, the first row 2"]),
    "too few cells": ("a.csv", GOOD + "a\n", ["1 rows have no text", "row 11 of a.csv: 'a', ''"]),
    "an open quote": ("a.csv", GOOD + '"a, b,1\n', ["12: unexpected end of", "quotes doubled"]),
    "two lone quotes": ("a.csv", LONE.replace("text 5", '"text 5'), ["line 7: ',' expected after"]),
    "joined rows": ("a.csv", LONE.replace("text 5", 'text 5"'), ["11 lines are 9 rows, since quo"]),
    "latin-1": ("a.csv", b"text,label\nna\xefve,1", ["line 2: 'utf-8' codec", "iconv -f cp1252"]),
    "a pointer of Git LFS": ("a.parquet", "version https://git-lfs.gith", ["not a parquet file"]),
    "no text": ("a.jsonl", '{"label": "x"}\n{"text": 1, "label": "y"}', ["row 1 of", "nan, 'x'"]),
    "tokens": ("a.jsonl", json.dumps({"text": ["a" * 999], "label": 1}), [f"'{97 * 'a'}, 1. M"]),
    "an object": ("a.json", '{\n "best": 0.9,\n "log": []\n}', ["one a line, or a list of obj"]),
    "columns": ("a.json", frame([("a", 0), ("b", 1)]).to_json(), ["The first is row 1"]),
    "lists": ("a.json", '[["a", 1], ["b", 0]]', ["its files are 0, 1"]),
    "fractions": ("a.jsonl", '{"text": "a", "label": 0.5}', ["whole number", "row 1", "'a', 0.5"]),
    "copies": ("a.csv", "text,label\n" + "a,0\nb,1\n" * 9, ["test of", "has the classes none"]),
    "one class": ("a.csv", GOOD.replace("1\n", "0\n"), ["has the classes 0, and train 0. Each ne"]),
    "a class with an escape": ("a.csv", GOOD.replace("1\n", "\x1b[31m\n"), [r"named '\x1b[31m'"]),
    "another kind": ("a.txt", GOOD, ["in no known format", "a csv, tsv, json, jsonl or parquet f"]),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_reported_with_its_place(tmp_path: Path, case: str) -> None:
    name, content, parts = WRONG[case]
    path = write_file(tmp_path / name, content)
    message = refusal(on_disk(path))
    assert all(part in message for part in [str(path), *parts]), message


@pytest.mark.parametrize("cell", [["a"], {"a": 1}, b"a", None])
def test_cells_of_parquet_that_are_no_texts_are_refused(tmp_path: Path, cell: Any) -> None:
    for row in ((cell, 0), ("a", cell)):
        frame([row, row]).to_parquet(tmp_path / "a.parquet")
        assert "2 rows have no text in column text, or no name" in refusal(on_disk(tmp_path))


def test_a_split_without_the_labels_or_columns_of_train_is_refused(tmp_path: Path) -> None:
    write_csv(tmp_path / "train.csv", [("a", 0), ("b", 1)])
    for content, message in {
        "text,label\n": "test.csv, the test split, holds no texts",
        "text,label\nc,-1\n": "has the classes -1, and train 0, 1. .* data.test_split=NAME .val",
        "text,label\nc,neg\nd,pos\n": "has the classes neg, pos, and train 0, 1. .* train all",
        "words,label\nc,0\nd,1\n": "plainly the text; the columns of all its files are label.",
    }.items():
        write_file(tmp_path / "test.csv", content)
        assert re.search(message, refusal(on_disk(tmp_path)))


def test_columns_are_found_where_that_is_plain(tmp_path: Path, capsys: Capture) -> None:
    rows = [(f"text {i}", "ny"[i % 2], i) for i in range(10)]
    named = {"text": "mine; my; own", "label": "yours"}
    for names, settings, note in (
        (["Review", " Sentiment ", ""], {}, "Column Review is the text, Sentiment the label."),
        (["mine; my; own", "yours", "text"], named, ""),
        (["mine; my; own", "yours", "a, b, c\nd"], named, ""),
        (["text", "label", "review"], {}, ""),
    ):
        table = pd.DataFrame(rows, columns=names)
        table.to_csv(tmp_path / "train.csv", index=False, quoting=csv.QUOTE_ALL)
        read = rows_of(on_disk(tmp_path, **settings))
        assert sorted(read["train"] + read["test"]) == [row[:2] for row in rows]
        _, column, rest = capsys.readouterr().err.partition("Column")
        assert f"{column}{rest}".strip() == note


NUMBERED = {"header": False, "text": "0", "label": "1"}
LINES = [f'"film ""{i}"" was fine"\t{i % 2}' for i in range(10)]
READ: dict[str, tuple[str, str | bytes, dict[str, Any], str]] = {
    "lone quotes": ("a.csv", LONE.replace("text 5", '"text 5'), {"quotes": False}, '"text 3'),
    "R's quotes": ("a.tsv", "\n".join(['"text"\t"label"', *LINES]), {}, 'film "3" was fine'),
    "Windows' line breaks": ("a.csv", GOOD.replace("text 3", '"text\r\n3"'), {}, "text\r\n3"),
    "whole numbers as floats": ("a.csv", re.sub(r"(,\d)", r"\1.0", GOOD), {}, "text 3"),
    "spaces around labels": ("a.csv", GOOD.replace("1\n", " 1 \n"), {}, "text 3"),
    "line breaks of an old Macintosh": ("a.csv", GOOD.replace("\n", "\r"), {}, "text 3"),
    "a long text": ("a.csv", GOOD.replace("text 3", f'"{"a" * 200_000}"'), {}, "a" * 200_000),
    "no header": ("a.tsv", "".join(f"a, {i}\t{i % 2}\n" for i in range(10)), NUMBERED, "a, 3"),
    "a hidden file": (".a.csv", GOOD, {}, "text 3"),
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_what_programs_write_is_read_as_it_was(tmp_path: Path, case: str) -> None:
    name, content, settings, fourth_text = READ[case]
    rows = rows_of(on_disk(write_file(tmp_path / name, content), **settings))
    texts = [text for text, _ in rows["train"] + rows["test"]]
    assert len(texts) == 10
    assert {label for _, label in rows["train"]} == {"0", "1"}
    assert fourth_text in texts


def test_labels_are_numbered_in_their_order(tmp_path: Path) -> None:
    for labels, classes in (
        ([0, 1], ["negative", "positive"]), ([True, False], ["negative", "positive"]),
        ([-1, 1], ["-1", "1"]), ([10, 9, 2], ["2", "9", "10"]),
        (["1", "01", "2"], ["01", "1", "2"]), (["1", "١", "b"], ["1", "b", "١"]),
    ):  # fmt: skip
        rows = frame([(str(i), label) for i, label in enumerate(labels * 5)])
        rows.to_csv(tmp_path / "a.csv", index=False)
        rows.to_json(tmp_path / "a.jsonl", **JSON)
        for name in ("a.csv", "a.jsonl"):
            dataset = encode.load_dataset(on_disk(tmp_path / name))
            assert [*dataset.classes] == classes
            assert dataset.train.labels.dtype == dataset.test.labels.dtype == "int8"
