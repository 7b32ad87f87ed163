"""The same rows in any format are the same data; what cannot be read is said."""

import csv
import gzip
import json
import re
from collections.abc import Callable
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

from attnexp.data import encode
from attnexp.data.read import read_table as read_rows

TEXTS = ["plain", 'a "quoted", text', "two\nlines", "tab\there", "NA", "null", "10", "2020-01-01",
         "☕ naïve", "a\u2028b", " space ", "", "true", "1.5", "'", "[1]"]  # fmt: skip
LABELS = ["LOC", "DESC, long", "HUM", "NA"]
ROWS: dict[str, Rows] = {
    "train": [(text, LABELS[i % 4]) for i, text in enumerate(TEXTS)],
    "test": [(f"test {i}", LABELS[i % 3]) for i in range(6)],
}
JSON: dict[str, Any] = {"orient": "records", "lines": True}
TSV = st.lists(st.text('ab" \t\n', min_size=1), min_size=4, max_size=6)
FRAMES = {split: frame(rows) for split, rows in ROWS.items()}


def text_of(frame: Any, path: Path, **how: Any) -> None:
    with pa.output_stream(str(path), compression="detect") as stream:
        stream.write(frame.to_csv(index=False, **how).encode(how.get("encoding", "utf-8")))


def shards_of(frame: Any, path: Path) -> None:
    for i, part in enumerate((frame[:3], frame[3:])):
        part.to_json(str(path).format(i), **JSON)


def classes_of(frame: Any, path: Path) -> None:
    datasets.Dataset.from_pandas(frame).class_encode_column("label").to_parquet(str(path))


FORMATS: dict[str, tuple[str, Callable[..., None], dict[str, Any]]] = {
    "csv": ("{}.csv", text_of, {}),
    "tsv": ("{}.tsv", text_of, {"sep": "\t"}),
    "csv with semicolons": ("{}.csv", text_of, {"sep": ";"}),
    "csv with bars": ("{}.csv", text_of, {"sep": "|"}),
    "csv with tabs": ("{}.csv", text_of, {"sep": "\t"}),
    "csv with a mark": ("{}.csv", text_of, {"encoding": "utf-8-sig"}),
    "csv.zst": ("{}.csv.zst", text_of, {}),
    "jsonl": ("{}.jsonl", pd.DataFrame.to_json, JSON),
    "a list in json": ("{}.json", pd.DataFrame.to_json, {"orient": "records"}),
    "an index in parquet": (
        "{}.parquet",
        lambda frame, path: frame.set_index("text").to_parquet(path),
        {},
    ),
    "the hub's names": ("data/{}-00000-of-00001.parquet", pd.DataFrame.to_parquet, {}),
    "a folder a split": ("{}/rows.csv", text_of, {}),
    "shards": ("{}-0000{{}}-of-00002.jsonl", shards_of, {}),
    "classes named in parquet": ("{}.parquet", classes_of, {}),
}


@pytest.mark.parametrize("form", [*FORMATS, "save_to_disk"])
def test_every_format_reads_alike(tmp_path: Path, form: str) -> None:
    if form == "save_to_disk":
        sets = {split: datasets.Dataset.from_pandas(frame) for split, frame in FRAMES.items()}
        datasets.DatasetDict(sets).save_to_disk(str(tmp_path))
    else:
        name, write, how = FORMATS[form]
        for split, held in FRAMES.items():
            (tmp_path / name.format(split)).parent.mkdir(exist_ok=True)
            write(held, tmp_path / name.format(split), **how)
    config = on_disk(tmp_path, max_len=4)
    assert rows_of(config) == ROWS
    assert encode.load_dataset(config).fingerprint == "b2d744893f769cc5"  # as ever


def read_tsv(content: str) -> Any:
    with TemporaryDirectory() as folder:
        Path(folder, "rows.tsv").write_text(content)
        return read_rows(Path(folder, "rows.tsv")).text.tolist()


@given(texts=TSV, quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
def test_a_tsv_of_pandas_is_read_as_it_was(texts: list[str], quoting: Any) -> None:
    texts = ["two\nlines", *texts]  # of which neither is a row by itself
    rows = frame([(text, i) for i, text in enumerate(texts)])
    assert read_tsv(rows.to_csv(sep="\t", index=False, quoting=quoting)) == texts


@given(texts=TSV.map(lambda ts: ['"so" it begins', *(" ".join(t.split()) or "." for t in ts)]))
def test_other_quotes_of_a_tsv_are_part_of_the_text(texts: list[str]) -> None:
    lines = ["text\tlabel", *(f"{text}\t{i}" for i, text in enumerate(texts)), ""]
    assert read_tsv("\n".join(lines)) == texts


def test_columns_are_found_where_that_is_plain(tmp_path: Path) -> None:
    rows = [(f"text {i}", "ny"[i % 2], i) for i in range(10)]
    named = {"text": "mine; my; own", "label": "yours"}
    for names, settings in (
        (["Review", " Sentiment ", ""], {}),
        (["mine; my; own", "yours", "text"], named),
        (["mine; my; own", "yours", "a, b, c\nd"], named),
    ):
        frame = pd.DataFrame(rows, columns=names)
        frame.to_csv(tmp_path / "train.csv", index=False, quoting=csv.QUOTE_ALL)
        read = rows_of(on_disk(tmp_path, **settings))
        assert sorted(read["train"] + read["test"]) == [row[:2] for row in rows]


GOOD = "text,label\n" + "".join(f"text {i},{i % 2}\n" for i in range(10))
WRONG: dict[str, tuple[str, str | bytes, list[str]]] = {
    "nothing": ("a.csv", "", ["no columns: it is empty"]),
    "no column": ("a.csv", "text,a,b\nx,1,2\n", ["plainly the label", "text, a, b", "data.label="]),
    "one column twice": ("a.csv", "text,label,text\nx,1,y\n", ["more than one column text"]),
    "Excel's line": ("a.csv", f"sep=,\n{GOOD}", ["remove its first line, 'sep=,'"]),
    "too many cells": ("a.csv", GOOD + "a,b,1\n", ["line 12 has 3 cells, and there are 2 names"]),
    "too few cells": ("a.csv", GOOD + "a\n", ["1 rows do not: ''", "row 11 of a.csv (line 12)"]),
    "an open quote": ("a.csv", GOOD + '"a, b,1\n', ["line 12: a quote opens", "quotes doubled"]),
    "either quote": ("a.csv", GOOD + '"a,1\nb",0\n', ["line 12: its quote is", "12 records"]),
    "latin-1": ("a.csv", b"text,label\nna\xefve,1", ["line 2: 'utf-8' codec", "iconv -f cp1252"]),
    "a spreadsheet": ("a.csv", b"PK\3\4\0\xce", ["line 1: 'utf-8' codec", "a spreadsheet or"]),
    "UTF-16 without its mark": ("a.csv", GOOD.encode("utf-16-le"), ["line 1: a NUL character"]),
    "a pointer of Git LFS": ("a.parquet", "version https://git-lfs.gith", ["git lfs pull"]),
    "a zip archive": ("a.csv.zip", b"PK\3\4", ["Unpack it if it is a zip archive"]),
    "a label after line breaks": (
        "a.csv", 'text,label\r\n\r\n \r\n"a\r\nb\nc",1\r\nd,\r\n', ["row 2 of a.csv (line 7)"]
    ),
    "a row of jsonl": ("a.jsonl", '\n{"text": "a", "label": 1}\n\n{"text": 1}', ["2 of", "line 4"]),
    "a label in tsv": ("a.tsv", 'text\tlabel\n"so" it\t1\n"open\t\nend\t0', ["row 2 of", "line 3"]),
    "long cells": ("a.jsonl", json.dumps({"text": ["a" * 999], "label": 1}), [f"{97 * 'a'}, in"]),
    "one object": (
        "a.json", '{\n "best": 0.9,\n "log": [{"text": "a"}]\n}',
        ["it is one object with the keys best, log", "a list of objects"],
    ),
    "columns of two lengths": ("a.json", '{"text": ["a"], "label": []}', ["keys text, label;"]),
    "a list of lists": ("a.json", '[["a", 1], ["b", 0]]', ["are not objects"]),
    "fractions": ("a.csv", "text,label\na,0.5\nb,0.25\n", ["whole numbers", "'0.5', '0.25'"]),
    "no JSON": ("a.jsonl", '{"text": "a", "label": 1}\n{"text": \n', ["line 2: Expecting value"]),
    "half a character": ("a.jsonl", '{"text": "\\ud800", "label": 1}', ["line 1", "surrogates"]),
    "a key twice": ("a.jsonl", '{"text": "a", "label": 1, "label": 0}', ["a key stands twice"]),
    "no label": ("a.jsonl", '{"text": "a"}\n{"text": "b", "label": 0}\n', ["None, in row 1"]),
    "too many classes": (
        "a.csv", "text,label\n" + "".join(f"a,c{i}\n" for i in range(1001)), ["1,001", "1,000"]
    ),
    "copies": ("a.csv", "text,label\n" + "a,0\nb,1\n" * 9, ["too few texts differ"]),
    "one class": ("a.csv", GOOD.replace("1\n", "0\n"), ["all 10 texts have the label 0; two cl"]),
    "a class with an escape": ("a.csv", GOOD.replace("1\n", "\x1b[31m\n"), [r"named '\x1b[31m'"]),
    "another kind": ("a.txt", GOOD, ["in no known format", "a csv, tsv, jsonl or parquet file"]),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, case: str) -> None:
    name, content, parts = WRONG[case]
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    message = refusal(on_disk(path))
    assert all(part in message for part in [str(path), *parts]), message


def test_a_split_that_lacks_labels_or_columns_is_named_with_what_to_do(tmp_path: Path) -> None:
    write_csv(tmp_path / "train.csv", [("a", 0), ("b", 1)])
    write_csv(tmp_path / "test.csv", [])
    assert "test.csv, the test split, holds no texts" in refusal(on_disk(tmp_path))
    write_csv(tmp_path / "test.csv", [("c", -1), ("d", -1)])
    message = "has the classes -1, train 0, 1. .* data.test_split=validation"
    assert re.search(message, refusal(on_disk(tmp_path)))
    write_csv(tmp_path / "test.csv", [("c", "neg"), ("d", "pos")])
    message = "has the classes neg, pos, train 0, 1. .* train all: add or relabel texts"
    assert re.search(message, refusal(on_disk(tmp_path)))
    (tmp_path / "test.csv").write_text("words,label\nc,0\nd,1\n")
    message = "test.csv of test has no column text; its columns are words, label. Rename one, or"
    assert re.search(message, refusal(on_disk(tmp_path)))


FILMS: Rows = [(f"film {i}, so fine", "ny"[i % 2]) for i in range(10)]
NUMBERED = {"header": "false", "text": "0", "label": "1"}
LINES = [f'"film ""{i}"" was fine"\t{i % 2}' for i in range(10)]
READ: dict[str, tuple[str, str | bytes, dict[str, str], str]] = {
    "lone quotes": ("a.csv", GOOD.replace("text 3", '"text 3').replace("text 5", '"text 5'), {},
                    '"text 3'),
    "R's quotes": ("a.tsv", "\n".join(['"text"\t"label"', *LINES]), {}, 'film "3" was fine'),
    "R's row names": ("a.tsv", "\n1\t".join(["text\tlabel", *LINES]), {}, 'film "3" was fine'),
    "Windows' line breaks in quotes": (
        "a.tsv", GOOD.replace(",", "\t").replace("text 3", '"text\r\n3"'), {}, "text\r\n3"
    ),
    "quotes after \\": ("a.csv", GOOD.replace("text 3", '"text, \\"3\\""'), {}, 'text, "3"'),
    "whole numbers as floats": ("a.csv", re.sub(r"(,\d)", r"\1.0", GOOD), {}, "text 3"),
    "line breaks of an old Macintosh": ("a.csv", GOOD.replace("\n", "\r"), {}, "text 3"),
    "spaces": ("a.csv", re.sub(r"(.*),(\d)", r'"\1, fine",  "\2"', GOOD), {}, "text 3, fine"),
    "gzip under another name": ("a.csv", gzip.compress(GOOD.encode()), {}, "text 3"),
    "gzip by its name alone": ("a.csv.gz", GOOD, {}, "text 3"),
    "one line": ("a.json", frame(FILMS).to_json(**JSON).replace("\n", ""), {}, FILMS[3][0]),
    "UTF-16": ("a.tsv", GOOD.replace(",", "\t").encode("utf-16"), {}, "text 3"),
    "no header": ("a.csv", GOOD.partition("\n")[2], NUMBERED, "text 3"),
    **{
        orient: ("a.json", frame(FILMS).to_json(orient=orient, indent=1), {}, FILMS[3][0])
        for orient in ("columns", "index", "split", "table", "records")
    },
    "a name": ("a.json", json.dumps({"rows": frame(FILMS).to_dict("records")}), {}, FILMS[3][0]),
    "a hidden file": (".a.csv", GOOD, {}, "text 3"),
    "columns as lists": ("a.json", json.dumps(frame(FILMS).to_dict("list")), {}, FILMS[3][0]),
}  # fmt: skip


NO_NAMES = {
    "Sentiment140": '"{label}","14678103{i}","NO_QUERY","u{i}","film {i}, so fine"\n',
    "AG News": '"{label}","Film {i}","film {i}, so fine"\n',
    "a number of each row but the first": '{row},"{label}","film {i}, so fine"\n',
    "AG News with a title twice": '"{label}","{label}","film {i}, so fine"\n',
    "a text and a label": "film {i} so fine\t{label}\n",
}


@pytest.mark.parametrize("kind", NO_NAMES)
def test_the_cure_for_a_file_without_names_works_when_typed(tmp_path: Path, kind: str) -> None:
    lines = [NO_NAMES[kind].format(i=i, label=i % 2 * 4, row=i or "") for i in range(10)]
    path = tmp_path / ("a.tsv" if "\t" in lines[0] else "a.csv")
    path.write_text("".join(lines))
    message = refusal(on_disk(path))
    cure = dict(re.findall(r"data\.(header|text|label)=(\w+)", message))
    rows = rows_of(on_disk(path, **cure))
    texts = [text.replace(",", "") for text, _ in rows["train"] + rows["test"]]
    assert sorted(texts) == [f"film {i} so fine" for i in range(10)]
    assert {label for _, label in rows["train"]} == {"0", "4"}


@pytest.mark.parametrize("case", READ)
def test_what_programs_write_is_read_as_it_was(tmp_path: Path, case: str) -> None:
    name, content, settings, fourth_text = READ[case]
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    rows = rows_of(on_disk(path, **settings))
    texts = [text for text, _ in rows["train"] + rows["test"]]
    assert len(texts) == 10
    assert {label for _, label in rows["train"]} in ({"0", "1"}, {"n", "y"})
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
