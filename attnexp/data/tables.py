"""Texts and labels in tables: csv, tsv, JSON lines and parquet, plain or compressed."""

import csv
import io
import json
import re
import reprlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnexp.base.errors import UserError
from attnexp.data.corpus import as_user_error, in_rows

if TYPE_CHECKING:
    import pyarrow as pa

TABLE = re.compile(r"[^._].*?\.(?P<kind>csv|tsv|jsonl|ndjson|json|parquet)(\.(gz|zst|bz2))?", re.I)
"""The name of a file that holds a table."""
ABOUT = re.compile(r"(dataset_.*|state|config)\.json", re.I)
"""Names of files that libraries write beside tables."""
CHUNK, BYTES_OF_A_CELL = 1 << 24, 60
"""Bytes that are uncompressed at once; bytes of memory that a short text in a row takes."""
CODECS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
"""Compression by file ending, as pyarrow names it."""

TSV_CELL = re.compile(r'("(?:[^"]|"")*"|[^"\t\r\n][^\t\r\n]*|)(\t|\r?\n|\Z)')
"""A cell of a tsv, in quotes or without, and what ends it."""

TEXT = ("text", "sentence", "review", "question", "content")
LABEL = ("label", "labels", "topic", "class", "category", "sentiment", "polarity")
"""Common names of the two columns; the first wins over the others."""

QUOTES = (
    "A text that holds a delimiter, a quote or a line break stands in quotes, and its quotes are "
    "doubled. Mend it, or save the table as JSON lines or parquet."
)


@dataclass(frozen=True, slots=True)
class Labelled:
    """Texts and their labels, n each."""

    texts: list[str]
    labels: list[Any]
    columns: tuple[str, str]
    """Names of the two columns."""


def kind_of(file: Path) -> str | None:
    """Format of a table by its name: csv for train.csv and train.csv.gz; None for other files."""
    match = TABLE.fullmatch(file.name)
    return match["kind"].lower() if match and not ABOUT.fullmatch(file.name) else None


def read_files(files: Sequence[Path], text: str | None, label: str | None) -> Labelled:
    """The rows of all files, in their order. text, label: columns; None to find them.

    Raises `UserError` for a file, column or row that is not as it should be.
    """
    parts = []
    for file in files:
        with as_user_error(file):
            parts.append(_read_file(file, text, label))
    texts, labels = (chain(*(getattr(part, of) for part in parts)) for of in ("texts", "labels"))
    return Labelled([*texts], [*labels], parts[0].columns)


def read_rows(file: Path) -> list[dict[str, Any]]:
    """Cells of each row, by column; those of a csv are text. A file whose name tells no format is
    read as a csv.

    Raises `UserError` as `read_files` does, and for two columns of one name.
    """
    with as_user_error(file):
        kind = kind_of(file) or "csv"
        if kind == "parquet":
            found: list[dict[str, Any]] = _read_parquet(file).to_pylist()
            return found
        if kind not in ("csv", "tsv"):
            return _read_json(file)
        header, rows = _read_csv(file, kind)
        if twice := [name for name in header if header.count(name) > 1]:
            raise UserError(f"{file} has more than one column {twice[0]}. Leave one.")
        return [dict(zip(header, row, strict=True)) for row in rows]


def _read_file(file: Path, text: str | None, label: str | None) -> Labelled:
    kind = kind_of(file)
    if kind == "parquet":
        return labelled(_read_parquet(file), str(file), text, label)
    if kind in ("csv", "tsv"):
        header, rows = _read_csv(file, kind)
        return _pick(
            header, lambda name: [row[header.index(name)] for row in rows], str(file), text, label
        )
    objects = _read_json(file)
    names = [*dict.fromkeys(chain.from_iterable(objects))]
    return _pick(names, lambda name: [one.get(name) for one in objects], str(file), text, label)


def labelled(table: "pa.Table", where: str, text: str | None, label: str | None) -> Labelled:
    """Text and label columns of a table. Raises `UserError` if they cannot be found."""
    about = json.loads((table.schema.metadata or {}).get(b"huggingface", b"{}"))

    def values(name: str) -> list[Any]:
        found: list[Any] = table[name].to_pylist()
        try:
            names = about["info"]["features"][name]["names"]  # of classes, by `datasets`
        except (KeyError, TypeError):
            return found
        return [names[i] if i in range(len(names)) else None for i in found]

    return _pick(table.column_names, values, where, text, label)


def _pick(
    names: list[str],
    values: Callable[[str], list[Any]],
    where: str,
    text: str | None,
    label: str | None,
) -> Labelled:
    if not names:
        raise UserError(f"{where} is empty. Its first row names the columns.")
    label = label or _found(LABEL, [name for name in names if name != text])
    text = text or _found(TEXT, [name for name in names if name != label])
    if len(names) == 2 and (text or label):  # the one leaves the other
        label = label or next((name for name in names if name != text), None)
        text = text or next((name for name in names if name != label), None)
    for key, name in (("text", text), ("label", label)):
        if name is None or name not in names:
            what = f"no column {name}" if name else f"no column that is plainly the {key}"
            raise UserError(
                f"{where} has {what}; its columns are {', '.join(names) or 'none'}. Name it: "
                f"data.{key}=COLUMN."
            )
        if names.count(name) > 1:
            raise UserError(f"{where} has more than one column {name}. Leave one.")
    assert text is not None
    assert label is not None
    texts = values(text)
    if wrong := [row for row, one in enumerate(texts) if not isinstance(one, str)]:
        raise UserError(
            f"{where}: column {text} holds no text in {in_rows(wrong)}: {texts[wrong[0]]!r:.40}. "
            f"Remove such rows, save them as text, or name another column: data.text=COLUMN."
        )
    return Labelled(texts, values(label), (text, label))


def _found(common: Sequence[str], names: Iterable[str]) -> str | None:
    """The column with a common name, if that is plain."""
    known = [name for name in names if name.lower() in common]
    first = [name for name in known if name.lower() == common[0]]
    return first[0] if first else known[0] if len(known) == 1 else None


def _content(file: Path) -> bytes:
    """Content of a file, uncompressed. Raises `UserError` if it is not UTF-8."""
    import pyarrow as pa

    packed = pa.py_buffer(file.read_bytes())
    chunks = list[bytes]()
    with pa.input_stream(packed, compression=CODECS.get(file.suffix.lower())) as stream:
        while chunk := stream.read(CHUNK):
            chunks.append(chunk)
    content = b"".join(chunks)
    try:
        content.decode()
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UserError(f"Line {line} of {file} is not UTF-8 text. Save it as UTF-8.") from None
    return content.removeprefix(b"\xef\xbb\xbf")


def _read_parquet(file: Path) -> "pa.Table":
    from pyarrow import parquet

    with parquet.ParquetFile(file) as opened:
        return opened.read()


def _read_csv(file: Path, kind: str) -> tuple[list[str], list[list[str]]]:
    """Header and rows. A csv whose header has semicolons and no commas is separated by them.

    Quotes in a tsv are part of the text unless they are those of a csv writer (`_is_quoted`).
    """
    csv.field_size_limit(2**31 - 1)  # else a long text is refused
    content = _content(file).decode()
    names = content.partition("\n")[0]
    comma = ";" if ";" in names and "," not in names else ","
    delimiter = "\t" if kind == "tsv" else comma
    lines = io.StringIO(content, newline="")
    quoting: Any = csv.QUOTE_MINIMAL if kind == "csv" or _is_quoted(content) else csv.QUOTE_NONE
    reader = csv.reader(lines, delimiter=delimiter, strict=True, quoting=quoting)
    try:
        rows = [row for row in reader if row]
    except csv.Error as error:
        raise UserError(
            f"Line {reader.line_num} of {file} cannot be read: {error}. {QUOTES}"
        ) from None
    header = rows.pop(0) if rows else []
    if wrong := [i for i, row in enumerate(rows) if len(row) != len(header)]:
        first = rows[wrong[0]]
        raise UserError(
            f"{file}: its header names {len(header)} columns, unlike {in_rows(wrong)}; the first "
            f"has {len(first)}: {reprlib.repr(delimiter.join(first))}. {QUOTES}"
        )
    return header, rows


def _is_quoted(content: str) -> bool:
    """Whether the quotes of tab-separated text are those of a csv writer: in every column either
    all cells are quoted, or exactly those with a quote, a tab or a line break in them."""
    if '"' not in content:
        return False
    columns: dict[int, list[str]] = {}
    number = end = 0
    for match in TSV_CELL.finditer(content.rstrip("\r\n")):
        if match.start() != end:
            return False  # text behind a closing quote
        end = match.end()
        columns.setdefault(number, []).append(match[1])
        if not match[2]:
            break
        number = number + 1 if match[2] == "\t" else 0
    for cells in columns.values():
        quoted = [cell.startswith('"') for cell in cells[1:]]  # the header may do without
        inside = [cell[1:-1] if cell.startswith('"') else cell for cell in cells[1:]]
        needed = [not set('"\t\r\n').isdisjoint(cell) for cell in inside]
        if not all(quoted) and quoted != needed:
            return False
    return True


def _read_json(file: Path) -> list[dict[str, Any]]:
    """Objects of a JSON file: one a line, or a list."""
    content = _content(file)
    if content.lstrip().startswith(b"["):
        rows: list[Any] = json.loads(content)
    else:
        rows = [_object(line) for line in content.split(b"\n") if line.strip()]
    if wrong := [row for row, one in enumerate(rows) if not isinstance(one, dict)]:
        raise UserError(
            f'{file}: no JSON object such as {{"column": "cell"}} in {in_rows(wrong)}. Write one a '
            f"line, as UTF-8."
        )
    return rows


def _object(line: bytes) -> Any:
    """Parsed JSON; None if it is invalid, or holds half a character, which UTF-8 cannot."""
    try:
        found = json.loads(line)
        if b"\\u" in line:
            json.dumps(found, ensure_ascii=False).encode()
        return found
    except (ValueError, RecursionError):
        return None
