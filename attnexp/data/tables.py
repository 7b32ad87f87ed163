"""Rows of a file: csv, tsv, JSON lines and parquet, plain or compressed, and their two columns."""

import csv
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd  # noqa: TID253 - this module is imported where data are read
import pyarrow as pa  # noqa: TID253
from pyarrow import parquet  # noqa: TID253

from attnexp.base.errors import UserError, join_names
from attnexp.config.schema import DataConfig

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


def read_rows(file: Path) -> pd.DataFrame:
    """Rows of a file, which is read as csv if its name tells no format. Cells of csv and tsv are
    texts as they stand there; a column without a name, such as pandas' index, is left out."""
    kind = kind_of(file) or "csv"
    try:
        if kind == "parquet":
            return convert_arrow(parquet.read_table(file, partitioning=None))
        text = _read_text(file)
        frame = _read_csv(text, kind) if kind in ("csv", "tsv") else _read_json(text)
    except FileNotFoundError:
        raise UserError(f"There is no file {file}.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(
            f"{file} cannot be read: {str(error).strip()}. Texts are UTF-8; in a csv, one with a "
            f"delimiter, a quote or a line break stands in quotes, its quotes doubled; a line of "
            f'JSON is {{"text": "good", "label": 1}}.'
        ) from error
    return frame.loc[:, frame.columns != ""]


def find_lines(file: Path) -> list[int]:
    """Line at which each row of a csv, tsv or jsonl file begins, from 1, as an editor counts them;
    none for other files, nor where a line of JSON holds several rows."""
    kind = kind_of(file)
    if kind in (None, "parquet") or not file.is_file():
        return []
    text = _read_text(file)
    if kind in ("csv", "tsv"):
        return _find_csv_lines(text, kind)
    lines = text.split("\n")
    numbers = [number for number, line in enumerate(lines, start=1) if line.strip()]
    is_lines = all(lines[number - 1].lstrip().startswith("{") for number in numbers)
    return numbers if is_lines else []


def _read_text(file: Path) -> str:
    with pa.input_stream(str(file), compression="detect") as stream:
        text: str = stream.read().decode("utf-8-sig")
    return text


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


def _read_csv(text: str, kind: str) -> pd.DataFrame:
    delimiter, has_quotes = _detect_dialect(text, kind)
    frame = pd.read_csv(
        io.StringIO(text),
        sep=delimiter,
        header=None,
        dtype=str,
        keep_default_na=False,
        quoting=csv.QUOTE_MINIMAL if has_quotes else csv.QUOTE_NONE,
    )
    names = frame.iloc[0].str.strip()
    repeated = names[names.duplicated() & (names != "")]
    if len(repeated):
        raise ValueError(f"it has more than one column {join_names(repeated)}; leave one")
    return frame.set_axis(names, axis=1).iloc[1:]


def _detect_dialect(text: str, kind: str) -> tuple[str, bool]:
    """Delimiter of a csv or tsv, and whether its quotes are those of a csv writer."""
    # names in quotes may hold delimiters and line breaks
    header = re.sub('"[^"]*"', "", text[:100_000]).partition("\n")[0]
    if header.lower().startswith("sep="):
        raise ValueError(f"remove its first line, {header.strip()!r}, which only Excel reads")
    delimiter = "\t" if kind == "tsv" else max(",;\t|", key=header.count)
    return delimiter, delimiter != "\t" or _is_quoted(text)


def _find_csv_lines(text: str, kind: str) -> list[int]:
    csv.field_size_limit(2**31 - 1)
    delimiter, has_quotes = _detect_dialect(text, kind)
    records = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=delimiter,
        quoting=csv.QUOTE_MINIMAL if has_quotes else csv.QUOTE_NONE,
    )
    lines = []
    begin = 1
    for record in records:
        if any(cell.strip(" \t") for cell in record) or len(record) > 1:  # pandas skips blank lines
            lines.append(begin)
        begin = records.line_num + 1
    return lines[1:]  # the first one names the columns


def _is_quoted(text: str) -> bool:
    """Whether a csv writer set the quotes of tab-separated text: written again, it is the same."""
    csv.field_size_limit(2**31 - 1)
    original = text.replace("\r\n", "\n").rstrip("\n")
    for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL):
        rows = csv.reader(io.StringIO(text, newline=""), delimiter="\t")
        copy = io.StringIO()
        writer = csv.writer(copy, delimiter="\t", lineterminator="\n", quoting=quoting)
        writer.writerows(rows)
        if copy.getvalue().rstrip("\n") == original:
            return True
    return False


def _read_json(text: str) -> pd.DataFrame:
    """Rows of JSON: one object a line, or a list of objects."""
    is_list = text.lstrip().startswith("[")
    lines = [text] if is_list else text.split("\n")
    rows: list[Any] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line, object_pairs_hook=_make_object)
            json.dumps(value, ensure_ascii=False).encode()  # fails at half a character
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
        if isinstance(value, list):
            rows.extend(value)
        else:
            rows.append(value)
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError("a line is no object")
    return pd.DataFrame(rows, dtype=object)


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Object of JSON. Raises `ValueError` for a key that occurs twice: Python would take one."""
    cells = dict(pairs)
    if len(cells) < len(pairs):
        raise ValueError(f"a key stands twice in one object, of {join_names(cells)}")
    return cells


def choose_columns(names: Sequence[str], source: str, data: DataConfig) -> list[str]:
    """Columns of texts and of labels: those of the config, or else the one with a common name."""
    return [
        _choose_column("text", data.text, names, data.label, source),
        _choose_column("label", data.label, names, data.text, source),
    ]


def _choose_column(
    key: str, setting: str | None, names: Sequence[str], taken: str | None, source: str
) -> str:
    """The column that the setting of this key names, else the one with a common name; that of the
    other key is `taken`. Raises `UserError` where there is none, or more than one."""
    if setting:
        column: str | None = setting
    else:
        common = [name for name in names if name.lower() in COMMON[key] and name != taken]
        same_name = [name for name in common if name.lower() == key]
        candidates = same_name or common
        column = candidates[0] if len(candidates) == 1 else None
    if column is None or column not in names:
        what = f"named {join_names([setting])}" if setting else f"that is plainly the {key}"
        raise UserError(
            f"{source} has no column {what}; its columns are {join_names(names)}. Name it: "
            f"data.{key}=COLUMN."
        )
    return column
