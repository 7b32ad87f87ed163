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

from attnexp.base.errors import UserError
from attnexp.config.schema import DataConfig
from attnexp.data.corpus import some

TABLE = re.compile(r"[^._].*?\.(csv|tsv|jsonl|ndjson|json|parquet)(\.(gz|zst|bz2))?", re.I)
"""The name of a file that holds a table."""
COMMON = {
    "text": ("text", "sentence", "review", "question", "content", "phrase", "tweet"),
    "label": ("label", "labels", "topic", "class", "category", "sentiment", "polarity"),
}
"""Common names of the two columns; a column named like the key wins over the others."""


def kind_of(file: Path) -> str | None:
    """Format of a table by its name: csv for train.csv and train.csv.gz; None for other files."""
    return match[1].lower() if (match := TABLE.fullmatch(file.name)) else None


def read_rows(file: Path) -> pd.DataFrame:
    """Rows of a file, which is read as csv if its name tells no format. Cells of csv and tsv are
    texts as they stand there; a column without a name, such as pandas' index, is left out."""
    kind = kind_of(file) or "csv"
    try:
        if kind == "parquet":
            return from_arrow(parquet.read_table(file, partitioning=None))
        with pa.input_stream(str(file), compression="detect") as stream:
            text = stream.read().decode("utf-8-sig")
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


def from_arrow(table: pa.Table) -> pd.DataFrame:
    """Rows of an Arrow table. Labels that `datasets` stores as numbers get the names of classes."""
    frame = table.to_pandas(types_mapper=pd.ArrowDtype)
    about = json.loads((table.schema.metadata or {}).get(b"huggingface", "{}"))
    for column, feature in about.get("info", {}).get("features", {}).items():
        names = feature.get("names") if isinstance(feature, dict) else None
        if names and set(labels := table[column].to_pylist()) != {-1}:  # -1: hidden
            frame[column] = [names[i] if i in range(len(names)) else None for i in labels]
    return frame


def _read_csv(text: str, kind: str) -> pd.DataFrame:
    # names in quotes may hold delimiters and line breaks
    header = re.sub('"[^"]*"', "", text[:100_000]).partition("\n")[0]
    if header.lower().startswith("sep="):
        raise ValueError(f"remove its first line, {header.strip()!r}, which only Excel reads")
    delimiter = "\t" if kind == "tsv" else max(",;\t|", key=header.count)
    frame = pd.read_csv(
        io.StringIO(text),
        sep=delimiter,
        header=None,
        dtype=str,
        keep_default_na=False,
        quoting=csv.QUOTE_MINIMAL if delimiter != "\t" or _is_quoted(text) else csv.QUOTE_NONE,
    )
    names = frame.iloc[0].str.strip()
    if twice := [*names[names.duplicated() & (names != "")]]:
        raise ValueError(f"it has more than one column {some(twice)}; leave one")
    return frame.set_axis(names, axis=1).iloc[1:]


def _is_quoted(text: str) -> bool:
    """Whether a csv writer set the quotes of tab-separated text: written again, it is the same."""
    csv.field_size_limit(2**31 - 1)
    for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL):
        rows = csv.reader(io.StringIO(text, newline=""), delimiter="\t")
        again = io.StringIO()
        csv.writer(again, delimiter="\t", lineterminator="\n", quoting=quoting).writerows(rows)
        if again.getvalue().rstrip("\n") == text.replace("\r\n", "\n").rstrip("\n"):
            return True
    return False


def _read_json(text: str) -> pd.DataFrame:
    """Rows of JSON: one object a line, or a list of objects."""
    rows: list[Any] = []
    lines = [text] if text.lstrip().startswith("[") else text.split("\n")
    for number, line in enumerate(lines, start=1):
        try:
            found = json.loads(line, object_pairs_hook=_object) if line.strip() else []
            json.dumps(found, ensure_ascii=False).encode()  # fails at half a character
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
        rows += found if isinstance(found, list) else [found]
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError("a line is no object")
    return pd.DataFrame(rows, dtype=object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError(f"a key stands twice in one object, of {some(found)}")
    return found


def choose_columns(names: Sequence[str], source: str, data: DataConfig) -> list[str]:
    """Columns of texts and of labels: those of the config, or else the one with a common name."""
    chosen: list[Any] = []
    for key, given, other in (("text", data.text, data.label), ("label", data.label, data.text)):
        common = [name for name in names if name.lower() in COMMON[key] and name != other]
        plain = [name for name in common if name.lower() == key] or common
        chosen.append(given or (plain[0] if len(plain) == 1 else None))
        if chosen[-1] not in names:
            what = f"named {some([given])}" if given else f"that is plainly the {key}"
            raise UserError(
                f"{source} has no column {what}; its columns are {some(names)}. Name it: "
                f"data.{key}=COLUMN."
            )
    return chosen
