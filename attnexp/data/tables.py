"""Rows of a file: csv, tsv, JSON lines and parquet, plain or compressed, and their two columns."""

import codecs
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd  # noqa: TID253 - this module is imported where data are read
import pyarrow as pa  # noqa: TID253
from pyarrow import parquet  # noqa: TID253

from attnexp.base.errors import UserError, join_names
from attnexp.config.schema import DataConfig
from attnexp.data.records import parse_csv, parse_json, split_records

TABLE = re.compile(r"[^._].*?\.(csv|tsv|jsonl|ndjson|json|parquet)(\.(gz|zst|bz2))?", re.I)
"""The name of a file that holds a table."""
COMMON = {
    "text": ("text", "sentence", "review", "question", "content", "phrase", "tweet"),
    "label": ("label", "labels", "topic", "class", "category", "sentiment", "polarity"),
}
"""Common names of the two columns; a column named like the key wins over the others."""
HIDDEN = -1
"""Label in place of those that a data set of the hub keeps to itself."""


def kind_of(file: Path) -> str | None:
    """Format of a table by its name: csv for train.csv and train.csv.gz; None for other files."""
    match = TABLE.fullmatch(file.name)
    return match[1].lower() if match else None


def read_rows(file: Path, *, has_header: bool = True) -> pd.DataFrame:
    """Rows of a file, which is read as csv if its name tells no format. Cells of csv and tsv are
    texts as they stand there; a column without a name, such as pandas' index, is left out.

    has_header: whether the first row of a csv or tsv names its columns; else they are numbered.
    """
    kind = kind_of(file) or "csv"
    try:
        if not has_header and kind not in ("csv", "tsv"):
            raise ValueError(f"data.header=false is for csv and tsv, and this is {kind}")
        if kind == "parquet":
            return convert_arrow(parquet.read_table(file, partitioning=None))
        text = _read_text(file)
        if kind in ("csv", "tsv"):
            frame = parse_csv(text, kind, has_header=has_header)
        else:
            frame = parse_json(text)
    except FileNotFoundError:
        raise UserError(f"There is no file {file}.") from None
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
    return frame.loc[:, frame.columns != ""]


def find_lines(file: Path) -> list[int]:
    """Line at which each record of a csv, tsv or jsonl file begins, from 1, as an editor counts
    them; none for other files, nor where a line of JSON holds several rows."""
    kind = kind_of(file)
    if kind in (None, "parquet") or not file.is_file():
        return []
    text = _read_text(file)
    if kind in ("csv", "tsv"):
        return split_records(text, kind).lines
    lines = text.split("\n")
    numbers = [number for number, line in enumerate(lines, start=1) if line.strip()]
    is_lines = all(lines[number - 1].lstrip().startswith("{") for number in numbers)
    return numbers if is_lines else []


def _read_text(file: Path) -> str:
    """Text of a file: UTF-8, or UTF-16 as its first two bytes say. Raises `ValueError`."""
    if file.is_file():
        with pa.input_stream(str(file), compression="detect") as stream:
            content: bytes = stream.read()
    else:  # a pipe, in which nothing can be sought
        content = file.read_bytes()
    is_utf_16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return content.decode("utf-16" if is_utf_16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line}: {error}") from None


def convert_arrow(table: pa.Table) -> pd.DataFrame:
    """Rows of an Arrow table. Labels that `datasets` stores as numbers get the names of classes."""
    frame = table.to_pandas(types_mapper=pd.ArrowDtype)
    metadata = table.schema.metadata or {}
    features = json.loads(metadata.get(b"huggingface", "{}")).get("info", {}).get("features", {})
    for column, feature in features.items():
        names = feature.get("names") if isinstance(feature, dict) else None
        if not names:
            continue
        labels = table[column].to_pylist()
        if set(labels) != {HIDDEN}:
            in_range = range(len(names))
            frame[column] = [names[label] if label in in_range else None for label in labels]
    return frame


def choose_columns(names: Sequence[str], source: str, data: DataConfig, file: Path) -> list[str]:
    """Columns of texts and of labels: those of the config, or else the one with a common name.
    file: the first of train. Raises `UserError` where there is none, or more than one."""
    columns = []
    for key, setting, taken in (("text", data.text, data.label), ("label", data.label, data.text)):
        column = setting or _find_common(key, names, taken)
        if column not in names:
            what = f"named {join_names([setting])}" if setting else f"that is plainly the {key}"
            raise UserError(
                f"{source} has no column {what}; its columns are {join_names(names)}. Name it: "
                f"data.{key}=COLUMN.{_explain_names(file, has_header=data.header)}"
            )
        columns.append(column)
    return columns


def _find_common(key: str, names: Sequence[str], taken: str | None) -> str:
    """The one column with a common name for `key`, other than the one that is taken; else ""."""
    common = [name for name in names if name.lower() in COMMON[key] and name != taken]
    same_name = [name for name in common if name.lower() == key]
    candidates = same_name or common
    return candidates[0] if len(candidates) == 1 else ""


def _explain_names(file: Path, *, has_header: bool) -> str:
    """Where the names of a csv's columns are from, and the words that read it without a header:
    the longest column as text, of the others that with the fewest values as label."""
    if kind_of(file) not in ("csv", "tsv") or not file.is_file():
        return ""
    rows = read_rows(file, has_header=False)
    lengths = rows.apply(lambda column: column.str.len().mean())
    text = lengths.idxmax()
    num_values = rows.drop(columns=text).nunique()
    num_values = num_values[num_values > 1]
    words = "data.header=false data.text=NUMBER data.label=NUMBER"
    if len(num_values):
        words = f"data.header=false data.text={text} data.label={num_values.idxmin()}"
    first_row = join_names(rows.iloc[0])
    if not has_header:
        return f" They are numbered from 0; the first row is {first_row}. Perhaps {words}."
    return (
        f" The first row of {file.name} is taken for names: {first_row}. If it is a text like the "
        f"others, write {words}."
    )
