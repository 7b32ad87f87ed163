"""What was read: the files of each split, their numbers of texts, and where a row stands."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnexp.base.errors import join_names
from attnexp.data.tables import find_lines


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadFile:
    """A file as it was read, or what stands for one: reviews in a folder, a split of a library."""

    split: str  # train, test or val
    name: str  # below the source, such as plain_text/train-00000-of-00001.parquet
    path: Path  # leads nowhere where the name is that of no single file
    num_rows: int
    skipped: tuple[str, ...] = ()  # names of files beside it that are not read


def describe_files(files: Sequence[ReadFile]) -> dict[str, dict[str, Any]]:
    """Files and number of texts by split, as a result keeps them."""
    parts: dict[str, dict[str, Any]] = {}
    for file in files:
        part = parts.setdefault(file.split, {"files": [], "texts": 0, "files_not_read": 0})
        part["files"].append(file.name)
        part["texts"] += file.num_rows
        part["files_not_read"] += len(file.skipped)
    return parts


def describe_reading(files: Sequence[ReadFile]) -> str:
    """`Read train: train.csv, 5,452 texts; test: test.csv, 500 texts.`"""
    parts = []
    for split, part in describe_files(files).items():
        parts.append(f"{split}: {join_names(part['files'])}, {part['texts']:,} texts")
    line = f"Read {'; '.join(parts)}."
    skipped = [name for file in files for name in file.skipped]
    if skipped:
        line += f" Not read: {len(skipped):,} files of other names, {join_names(skipped)}."
    return line


def describe_places(files: Sequence[ReadFile], rows: Iterable[int]) -> str:
    """The first three of these rows, each with its split and the line of its file, if it has lines.
    Rows count from 0 in the order of reading, over all files. What is shown counts from 1, as an
    editor does."""
    rows = sorted(rows)
    lines_of: dict[Path, list[int]] = {}  # a file is read once more for them, so once for all rows
    places = [_describe_place(files, row, lines_of) for row in rows[:3]]
    if len(rows) > 3:
        places.append("...")
    return ", ".join(places)


def _describe_place(files: Sequence[ReadFile], row: int, lines_of: dict[Path, list[int]]) -> str:
    begin = 0  # of the file, in rows of all files
    begin_of_split: dict[str, int] = {}
    for file in files:
        begin_of_split.setdefault(file.split, begin)
        if row < begin + file.num_rows:
            break
        begin += file.num_rows
    place = f"row {row - begin_of_split[file.split] + 1} of {file.split}"
    if file.path not in lines_of:
        lines_of[file.path] = find_lines(file.path)
    lines = lines_of[file.path]
    num_headers = len(lines) - file.num_rows
    if num_headers not in (0, 1):  # a file without lines, or read otherwise than its lines say
        return place
    return f"{place} (line {lines[row - begin + num_headers]} of {join_names([file.name])})"
