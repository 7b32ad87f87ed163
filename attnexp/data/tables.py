"""Rows of a file: csv, tsv, JSON lines and parquet, plain or compressed, and their two columns."""

import codecs
import json
import re
from collections.abc import Mapping
from pathlib import Path

import pandas as pd  # noqa: TID253 - this module is imported where data are read
import pyarrow as pa  # noqa: TID253
from pyarrow import parquet  # noqa: TID253

from attnexp.base.errors import UserError, join_names
from attnexp.config.schema import DataConfig
from attnexp.data.records import guess_columns, parse_csv, parse_json

TABLE = re.compile(r".+?\.(csv|tsv|jsonl|ndjson|json|parquet)(\.(gz|zst|bz2))?", re.I)
"""The name of a file that holds a table."""
COMPRESSIONS = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd"}
"""By the first bytes of a file: its name may be that of what it holds."""
NO_TEXT = "a NUL character, as in UTF-16 without its mark, or in a spreadsheet or an archive"
COMMON = {
    "text": ("text", "sentence", "review", "question", "content", "phrase", "tweet"),
    "label": ("label", "labels", "topic", "class", "category", "sentiment", "polarity"),
}
"""Common names of the two columns; a column named like the key wins over the others."""


def kind_of(file: Path) -> str | None:
    """Format of a table by its name: csv for train.csv and train.csv.gz; None for other files."""
    match = TABLE.fullmatch(file.name)
    return match[1].lower() if match else None


def read_rows(file: Path, *, has_header: bool = True) -> pd.DataFrame:
    """Rows of a file, which is read as csv if its name tells no format. Cells of csv and tsv are
    texts as they stand there; a column without a name, such as pandas' index, is called "".
    has_header: whether the first row of a csv or tsv names its columns; else they are numbered."""
    kind = kind_of(file) or "csv"
    try:
        if not has_header and kind not in ("csv", "tsv"):
            raise ValueError(f"data.header=false is for csv and tsv, and this is {kind}")
        content = _read_content(file)
        if kind == "parquet":
            table = parquet.read_table(pa.BufferReader(content))
            return convert_arrow(table)
        text = _decode(content)
        if kind in ("csv", "tsv"):
            frame = parse_csv(text, kind, has_header=has_header)
        else:
            frame = parse_json(text)
    except (FileNotFoundError, IsADirectoryError):
        raise UserError(f"There is no file {file}. Check the path; no folder is one.") from None
    except (OSError, ValueError, RecursionError) as error:
        if file.suffix and kind_of(file) is None:
            raise UserError(
                f"{file} is of no known format: csv, tsv, json, jsonl and parquet files are read. "
                f"Save it as one of these."
            ) from error
        raise UserError(
            f"{file} cannot be read: {str(error).strip()}. Texts are UTF-8; in a csv, one with a "
            f"delimiter, a quote or a line break stands in quotes, its quotes doubled; a line of "
            f'JSON is {{"text": "good", "label": 1}}.'
        ) from error
    return frame


def _read_content(file: Path) -> bytes:
    """What a file or pipe holds, unpacked. Raises `ValueError` for what stands for a file."""
    content = file.read_bytes()
    for mark, compression in COMPRESSIONS.items():
        if content.startswith(mark):
            content = pa.input_stream(pa.py_buffer(content), compression=compression).read()
    if content.startswith(b"version https://git-lfs"):
        raise ValueError("it is a pointer of Git LFS; fetch the file itself: git lfs pull")
    return content


def _decode(content: bytes) -> str:
    """Text of UTF-8, or of UTF-16 as its first two bytes say. Raises `ValueError`, with the line,
    where it is neither."""
    is_utf_16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = content.decode("utf-16" if is_utf_16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        cure = "a file of Windows becomes UTF-8 by: iconv -f cp1252 -t utf-8 OLD > NEW"
        if b"\0" in content:
            cure = f"it holds {NO_TEXT}"
        raise ValueError(f"line {line}: {error}; {cure}") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise ValueError(f"line {line}: {NO_TEXT}")
    return text


def convert_arrow(table: pa.Table) -> pd.DataFrame:
    """Rows of an Arrow table. Labels that `datasets` stores as numbers get the names of classes."""
    # without pandas' metadata a named index is a column
    frame = table.to_pandas(types_mapper=pd.ArrowDtype, ignore_metadata=True)
    frame = frame.rename(columns={"__index_level_0__": ""})
    metadata = table.schema.metadata or {}
    about = json.loads(metadata.get(b"huggingface", "{}"))
    features = about.get("info", {}).get("features", {})
    for column in frame.columns.intersection(list(features)):
        feature = features[column]
        names = feature.get("names") if isinstance(feature, dict) else None
        numbers = frame[column]
        if names and (numbers != -1).any():  # else the hub does not show its labels
            name_of = dict(enumerate(names))
            frame[column] = numbers.astype(object).map(name_of)
    return frame


def choose_columns(tables: Mapping[str, pd.DataFrame], source: str, data: DataConfig) -> list[str]:
    """Columns of texts and of labels: those of the config, or else the one with a common name.
    tables: the rows of train by file. Raises `UserError` where there is none, or more than one."""
    names = list(dict.fromkeys(name for rows in tables.values() for name in rows if name))
    columns = []
    settings = {"text": data.text, "label": data.label}
    free = [name for name in names if name not in settings.values()]
    for key, setting in settings.items():
        column = setting or _find_common(key, free)
        if column not in names:
            what = f"that is plainly the {key}"
            if setting:
                what = f"named {join_names([setting])}"
            file, rows = next(iter(tables.items()))
            cure = f"Name it: data.{key}=COLUMN."
            if kind_of(Path(file)) in ("csv", "tsv"):
                cure += (
                    f" If these are no names, but the first row of {join_names([file])} is a text "
                    f"like the others, count columns from 0: {guess_columns(rows)}"
                )
            raise UserError(
                f"{source} has no column {what}; its columns are {join_names(names)}. {cure}"
            )
        columns.append(column)
    return columns


def _find_common(key: str, names: list[str]) -> str:
    """The one column with a common name for `key`; empty if there is none, or more than one."""
    exact = [name for name in names if name.lower() == key]
    common = [name for name in names if name.lower() in COMMON[key]]
    candidates = exact or common
    if len(candidates) == 1:
        return candidates[0]
    return ""
