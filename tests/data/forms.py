"""Small data sets in files, and what is read from them."""

from pathlib import Path
from typing import Any

import pandas as pd
from samples import message_of

from attnexp.config.schema import DataConfig, DataName
from attnexp.data.encode import load_corpus

Rows = list[tuple[Any, Any]]


def frame(rows: Rows) -> Any:
    return pd.DataFrame(rows, columns=["text", "label"])


def write_csv(path: Path, rows: Rows) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    frame(rows).to_csv(path, index=False)


def write_file(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def on_disk(path: Path, name: str = "files", **settings: Any) -> DataConfig:
    return DataConfig(name=DataName(name), path=str(path), **settings)


def rows_of(config: DataConfig) -> dict[str, Rows]:
    """Texts and their labels as they are written, by split."""
    corpus = load_corpus(config)
    found: dict[str, Rows] = {}
    for row in corpus.rows.itertuples():
        found.setdefault(row.split, []).append((row.text, corpus.written[row.label]))
    return found


def refusal(config: DataConfig) -> str:
    return message_of(load_corpus, config)
