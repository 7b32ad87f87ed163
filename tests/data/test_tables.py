"""The same rows in fourteen formats are the same data; what cannot be read is said."""

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import pytest
from data.forms import (
    LABELS,
    ROWS,
    Rows,
    each,
    on_disk,
    refusal,
    rows_of,
    write_csv,
    write_jsonl,
    write_list,
    write_parquet,
)
from hypothesis import given
from hypothesis import strategies as st

from attnexp.data import encode
from attnexp.data.tables import read_rows


def save_to_disk(home: Path) -> None:
    import datasets

    datasets.disable_progress_bars()
    splits = {
        split: datasets.Dataset.from_list([{"text": text, "label": label} for text, label in rows])
        for split, rows in ROWS.items()
    }
    datasets.DatasetDict(splits).save_to_disk(str(home))


def with_named_classes(home: Path) -> None:
    import datasets

    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=LABELS)}
    )
    for split, rows in ROWS.items():
        numbered = [{"text": text, "label": LABELS.index(label)} for text, label in rows]
        made = datasets.Dataset.from_list(numbered, features)
        made.to_parquet(str(home / f"{split}.parquet"))


def shards(home: Path) -> None:
    for split, rows in ROWS.items():
        write_jsonl(home / f"{split}-00000-of-00002.jsonl", rows[:3])
        write_jsonl(home / f"{split}-00001-of-00002.jsonl", rows[3:])


FORMATS: dict[str, Callable[[Path], object]] = {
    "csv": each("{}.csv", write_csv),
    "tsv": each("{}.tsv", write_csv, delimiter="\t"),
    "csv with semicolons": each("{}.csv", write_csv, delimiter=";"),
    "csv with a mark": each("{}.csv", write_csv, mark="\ufeff"),
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
    "csv with tabs": each("{}.csv", write_csv, delimiter="\t"),
}


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_reads_alike(tmp_path: Path, form: str) -> None:
    FORMATS[form](tmp_path)
    config = on_disk(tmp_path, max_len=4)
    assert rows_of(config) == ROWS
    assert encode.load(config).fingerprint == "b2d744893f769cc5"  # as ever


TSV = st.lists(st.text('ab" \t\n', min_size=1), min_size=4, max_size=6)


def read_tsv(write: Callable[[Path], object]) -> list[str]:
    with TemporaryDirectory() as folder:
        write(Path(folder, "rows.tsv"))
        texts: list[str] = read_rows(Path(folder, "rows.tsv")).text.tolist()
        return texts


@given(texts=TSV, quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
def test_a_tsv_of_pandas_is_read_as_it_was(texts: list[str], quoting: Any) -> None:
    frame = pd.DataFrame({"text": texts, "label": range(len(texts))})
    write = {"sep": "\t", "index": False, "quoting": quoting}
    assert read_tsv(lambda path: frame.to_csv(path, **write)) == texts


@given(
    texts=TSV.map(lambda texts: ['"so" it begins', *(" ".join(t.split()) or "." for t in texts)])
)
def test_other_quotes_of_a_tsv_are_part_of_the_text(texts: list[str]) -> None:
    lines = ["text\tlabel", *(f"{text}\t{i}" for i, text in enumerate(texts)), ""]
    assert read_tsv(lambda path: path.write_text("\n".join(lines))) == texts


@pytest.mark.parametrize(
    ("others", "text", "label", "settings"),
    [
        (["sentence", "topic"], "text", "label", {}),
        ([], "question", "topic", {}),
        (["id", ""], "Review", "Sentiment", {}),
        ([""], "phrase", "polarity", {}),
        (["text", "label"], "mine", "yours", {"text": "mine", "label": "yours"}),
        ([], "topic", "class", {"text": "topic"}),
        (["id"], "body", "label", {"text": "body"}),
    ],
)
def test_columns_are_found_where_that_is_plain(
    tmp_path: Path, others: list[str], text: str, label: str, settings: dict[str, str]
) -> None:
    columns = {text: [f"text {i}" for i in range(10)], label: ["n", "y"] * 5}
    frame = pd.DataFrame({**{other: range(10) for other in others}, **columns})
    frame.to_csv(tmp_path / "train.csv", index=False)
    rows = rows_of(on_disk(tmp_path, **settings))
    assert sorted(rows["train"] + rows["test"]) == sorted(zip(*columns.values(), strict=True))


GOOD = "text,label\n" + "".join(f"text {i},{i % 2}\n" for i in range(10))
WRONG: dict[str, tuple[str, str | bytes, list[str]]] = {
    "nothing": ("a.csv", "", ["No columns"]),
    "a header alone": ("a.csv", "text,label\n", ["holds no texts"]),
    "no label": ("a.csv", "text,a,b\nx,1,2\n", ["plainly the label", "text, a, b", "data.label="]),
    "one column twice": ("a.csv", "text,label,text\nx,1,y\n", ["more than one column text"]),
    "Excel's line": ("a.csv", f"sep=,\n{GOOD}", ["remove its first line, 'sep=,'"]),
    "too many cells": ("a.csv", GOOD + "a,b,1\n", ["Expected 2 fields in line 12, saw 3"]),
    "too few cells": ("a.csv", GOOD + "a\n", ["1 rows do not: ''", "row 10 of train"]),
    "an open quote": ("a.csv", GOOD + '"a,1\n', ["EOF inside string", "its quotes doubled"]),
    "latin-1": ("a.csv", GOOD.encode() + b"na\xefve,1\n", ["'utf-8' codec", "Texts are UTF-8"]),
    "fractions": ("a.csv", "text,label\na,0.5\nb,0.25\n", ["whole numbers", "'0.5', '0.25'"]),
    "no JSON": ("a.jsonl", '{"text": "a", "label": 1}\n{"text": \n', ["line 2: Expecting value"]),
    "no object": ("a.jsonl", '{"text": "a", "label": 1}\n3\n', ["a line is no object"]),
    "half a character": ("a.jsonl", '{"text": "\\ud800", "label": 1}', ["line 1", "surrogates"]),
    "a key twice": ("a.jsonl", '{"text": "a", "label": 1, "label": 0}', ["a key stands twice"]),
    "deep JSON": ("a.json", "[" * 100_000, ["recursion"]),
    "a text missing": (
        "a.jsonl", '{"label": 1}\n{"text": "b", "label": 0}\n', ["column text", "None, in row 0"],
    ),
    "a label missing": (
        "a.jsonl", '{"text": "a"}\n{"text": "b", "label": 0}\n', ["column label", "None, in row 0"],
    ),
    "too many classes": (
        "a.csv", "text,label\n" + "".join(f"a,c{i}\n" for i in range(1001)), ["1,001", "1,000"],
    ),
    "copies": ("a.csv", "text,label\n" + "a,0\nb,1\n" * 9, ["20% drawn as test", "two or more"]),
    "one class": ("a.csv", GOOD.replace("1\n", "0\n"), ["has the classes 0", "two or more"]),
    "a class with an escape": ("a.csv", GOOD.replace("1\n", "\x1b[31m\n"), [r"named '\x1b[31m'"]),
    "gzip cut off": ("a.csv.gz", gzip.compress(GOOD.encode())[:-9], ["a.csv.gz cannot be read"]),
    "no parquet": ("a.parquet", GOOD, ["a.parquet cannot be read"]),
    "no known kind": ("a.txt", GOOD, ["in no known format", "a csv, tsv, jsonl or parquet file"]),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, case: str) -> None:
    name, content, parts = WRONG[case]
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    message = refusal(on_disk(path))
    assert all(part in message for part in [str(path), *parts]), message


def test_a_hidden_split_is_named_with_what_to_do(tmp_path: Path) -> None:
    rows: Rows = [("a", 0), ("b", 1)]
    write_csv(tmp_path / "train.csv", rows)
    write_csv(tmp_path / "test.csv", [("c", -1), ("d", -1)])
    assert "data.test_split=validation" in refusal(on_disk(tmp_path))


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
    rows: Rows = [(str(i), label) for i, label in enumerate(labels * 5)]
    for write, name in ((write_jsonl, "a.jsonl"), (write_csv, "a.csv")):
        write(tmp_path / name, rows)
        dataset = encode.load(on_disk(tmp_path / name))
        assert dataset.classes == classes
        assert dataset.train.labels.dtype == dataset.test.labels.dtype == "int8"


def test_a_missing_class_of_datasets_is_no_class(tmp_path: Path) -> None:
    import datasets

    names = datasets.ClassLabel(names=["no", "yes"])
    given = datasets.Features({"text": datasets.Value("string"), "label": names})
    rows = datasets.Dataset.from_dict({"text": ["a", "b", "c"], "label": [0, -1, 1]}, given)
    rows.to_parquet(str(tmp_path / "train.parquet"))
    assert "1 rows do not: None, in row 1 of train" in refusal(on_disk(tmp_path))


def test_rows_of_other_files_keep_their_cells(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"seed": 1, "accuracy": 0.5}) + "\n")
    assert read_rows(tmp_path / "a.jsonl").to_dict("records") == [{"seed": 1, "accuracy": 0.5}]
    (tmp_path / "log").write_text("seed,accuracy\n1,0.50\n")
    assert read_rows(tmp_path / "log").to_dict("records") == [{"seed": "1", "accuracy": "0.50"}]
