"""Small data sets in files, and what is read from them."""

from pathlib import Path
from typing import Any

import pandas as pd
from samples import message_of, write_file

from attnexp.config.schema import DataConfig, DataName
from attnexp.data.encode import read_tokenized

Rows = list[tuple[Any, Any]]


def frame(rows: Rows) -> Any:
    return pd.DataFrame(rows, columns=["text", "label"])


def write_csv(path: Path, rows: Rows) -> None:
    write_file(path, frame(rows).to_csv(index=False))


def on_disk(path: Path, name: str = "files", **settings: Any) -> DataConfig:
    return DataConfig(name=DataName(name), path=str(path), **settings)


def rows_of(config: DataConfig) -> dict[str, Rows]:
    """Texts and their labels as they are written, by split."""
    corpus = read_tokenized(config)
    found: dict[str, Rows] = {}
    for row in corpus.rows.itertuples():
        found.setdefault(row.split, []).append((row.text, corpus.written[row.label]))
    return found


def refusal(config: DataConfig) -> str:
    return message_of(read_tokenized, config)
