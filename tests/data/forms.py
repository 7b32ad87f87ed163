"""Small data sets in files, and what is read from them."""

import tarfile
from pathlib import Path
from typing import Any

import pandas as pd
from samples import message_of

from attnexp.config.schema import DataConfig, DataName
from attnexp.data.corpus import load_corpus

Rows = list[tuple[Any, Any]]

REVIEWS: dict[str, Rows] = {
    "train": [("dull,  grey\n", 0), ("no", 0), ("naïve fun", 0), ("yes", 1), ("ten", 1), ("10", 1)],
    "test": [("weak", 0), ("mild", 0), ("strong ☕", 1), ("fine", 1)],
}
"""Of IMDB: sorted by label."""
REVIEW_FILES = {
    f"aclImdb/{split}/{('neg', 'pos')[label]}/{8 + i}_{10 - i}.txt": text.encode()
    for split, rows in REVIEWS.items()
    for i, (text, label) in reversed([*enumerate(rows)])
} | {"aclImdb/README": b"no review", "aclImdb/train/unsup/1_0.txt": b"?"}
"""Their files, in another order."""


def frame(rows: Rows) -> Any:
    return pd.DataFrame(rows, columns=["text", "label"])


def write_csv(path: Path, rows: Rows) -> None:
    frame(rows).to_csv(path, index=False)


def write_imdb(home: Path) -> None:
    """The reviews in each form: `home/folder`, `home/archive` and `home/hub`."""
    (home / "hub/plain_text").mkdir(parents=True)
    for split, rows in REVIEWS.items():
        frame(rows).to_parquet(home / f"hub/plain_text/{split}-00000-of-00001.parquet")
    with tarfile.open(home / "archive", "w:gz") as archive:
        for name, content in REVIEW_FILES.items():
            file = home / "folder" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
            archive.add(file, name)


def on_disk(path: Path, name: str = "files", **settings: Any) -> DataConfig:
    return DataConfig(name=DataName(name), path=str(path), **settings)


def rows_of(config: DataConfig) -> dict[str, Rows]:
    """Texts and their labels as they are written, by split."""
    corpus = load_corpus(config)
    labels = corpus.rows.label.map(dict(enumerate(corpus.written)))
    return {
        split: [*zip(corpus.rows.text[part], labels[part], strict=True)]
        for split, part in corpus.parts.items()
    }


def refusal(config: DataConfig) -> str:
    return message_of(load_corpus, config)
