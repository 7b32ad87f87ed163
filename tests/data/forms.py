"""Small data sets in every form that is read."""

import csv
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from attnexp.base.errors import UserError
from attnexp.config.schema import DataConfig, DataName
from attnexp.data.load import load_corpus

Rows = list[tuple[Any, Any]]

TEXTS = ["plain", 'a "quoted", text', "two\nlines", "tab\there", "NA", "null", "10", "2020-01-01",
         "☕ naïve", "a\u2028b", " space ", "", "true", "1.5", "'", "[1]"]  # fmt: skip
LABELS = ["LOC", "DESC, long", "HUM", "NA"]
ROWS: dict[str, Rows] = {
    "train": [(text, LABELS[i % 4]) for i, text in enumerate(TEXTS)],
    "test": [(f"test {i}", LABELS[i % 3]) for i in range(6)],
}
REVIEWS: dict[str, Rows] = {
    "train": [("dull,  grey\n", 0), ("no", 0), ("naïve fun", 0), ("yes", 1), ("ten", 1), ("10", 1)],
    "test": [("weak", 0), ("mild", 0), ("strong ☕", 1), ("fine", 1)],
}
"""Of IMDB: sorted by label."""


def write_csv(path: Path, rows: Rows, delimiter: str = ",", mark: str = "") -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        file.write(mark)
        csv.writer(file, delimiter=delimiter).writerows([("text", "label"), *rows])


def write_jsonl(path: Path, rows: Rows) -> None:
    lines = [json.dumps({"text": text, "label": label}) for text, label in rows]
    path.write_text("\n".join(lines) + "\n")


def write_list(path: Path, rows: Rows) -> None:
    path.write_text(json.dumps([{"label": label, "text": text, "n": 1} for text, label in rows]))


def write_parquet(path: Path, rows: Rows) -> None:
    texts, labels = zip(*rows, strict=True)
    parquet.write_table(pa.table({"text": texts, "label": labels}), path)


def each(
    name: str, write: Callable[..., None], rows: dict[str, Rows] = ROWS, **more: str
) -> Callable[[Path], None]:
    """A writer of splits into a folder, named by a pattern such as data/{}.csv.gz."""

    def write_all(home: Path) -> None:
        for split, held in rows.items():
            path = home / name.format(split)
            path.parent.mkdir(exist_ok=True, parents=True)
            write(path, held, **more)
            if path.suffix in (".gz", ".zst"):
                plain = path.read_bytes()
                with pa.output_stream(str(path), compression="detect") as stream:
                    stream.write(plain)

    return write_all


def review_files() -> dict[str, bytes]:
    """Contents of aclImdb's files by name, in an order unlike the corpus's."""
    files = {}
    for split, rows in REVIEWS.items():
        for i, (text, label) in enumerate(rows):
            files[f"{split}/{'pos' if label else 'neg'}/{8 + i}_{10 - i}.txt"] = text.encode()
    return dict(reversed([("README", b"no review"), ("train/unsup/1_0.txt", b"?"), *files.items()]))


def write_folder(home: Path) -> None:
    for name, content in review_files().items():
        (home / "aclImdb" / name).parent.mkdir(parents=True, exist_ok=True)
        (home / "aclImdb" / name).write_bytes(content)


def write_archive(path: Path) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in review_files().items():
            member = tarfile.TarInfo(f"aclImdb/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def on_disk(path: Path, name: str = "files", **settings: Any) -> DataConfig:
    return DataConfig(name=DataName(name), path=str(path), **settings)


def rows_of(config: DataConfig) -> dict[str, Rows]:
    """Texts and names of their classes by split, as they are read."""
    corpus = load_corpus(config)
    names = [corpus.written[label] for label in corpus.rows.label]
    rows = corpus.rows.assign(name=names)
    return {
        split: [*zip(rows.text[part], rows.name[part], strict=True)]
        for split, part in corpus.parts.items()
    }


def refusal(config: DataConfig) -> str:
    """The message of the `UserError` that reading must raise."""
    with pytest.raises(UserError) as caught:
        load_corpus(config)
    return str(caught.value)
