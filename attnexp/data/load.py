"""Load a data set: locate its source, read its splits, and join their rows."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd  # noqa: TID253 - this module is imported where data are read

from attnexp.base import progress
from attnexp.base.errors import UserError, join_names
from attnexp.config.schema import DataConfig, DataName
from attnexp.data import contrast
from attnexp.data.corpus import Corpus, make_corpus
from attnexp.data.files import ReadFile, describe_reading
from attnexp.data.sources import describe_source, locate_source, resolve_path
from attnexp.data.splits import Splits, choose_splits, find_splits
from attnexp.data.tables import choose_columns


class Table(NamedTuple):
    """Rows as a file has them, and the file."""

    file: ReadFile
    rows: pd.DataFrame


def load_corpus(data: DataConfig) -> Corpus:
    """The data set that `data` names; what is on no disk is downloaded from the hub. Raises
    `UserError`, which says what to do, when it is nowhere, damaged, or not of labelled texts."""
    if data.name is DataName.contrast:
        return contrast.generate_corpus(data.order_fraction or 0.0)
    source = locate_source(data)
    path = resolve_path(source)
    title = describe_source(source, path)
    try:
        splits = choose_splits(find_splits(path, data, is_hub=source.path is None), title, data)
        tables = read_tables(splits, path if path.is_dir() else path.parent)
        of_train = [table for table in tables if table.file.split == "train"]
        names = list(dict.fromkeys(itertools.chain(*(table.rows for table in of_train))))
        columns = choose_columns(names, title, data, of_train[0].file.path)
        rows = as_rows(tables, columns)
    except UserError:
        raise
    except Exception as error:  # of pandas, datasets, tarfile and others, with no base in common
        raise UserError(
            f"{path} cannot be read ({' '.join(str(error).split())[:300]}). Where it has several "
            f"configurations, choose one: data.config=NAME. Where it is damaged, fetch it again."
        ) from error
    files = tuple(table.file for table in tables)
    progress.note(describe_reading(files))
    if columns not in ([data.text, data.label], ["text", "label"]):
        text, label = map(join_names, ([column] for column in columns))
        progress.note(f"Column {text} is the text, {label} the label.")
    return make_corpus(rows, title, data, files)


def read_tables(splits: Splits, root: Path) -> list[Table]:
    """Read the files of all splits, in order. root: the folder in which they lie."""
    tables = []
    for key, split in splits.items():
        for name, read in split.readers.items():
            rows = read()
            file = ReadFile(
                split=key,
                name=name,
                path=root / name,
                num_rows=len(rows),
                skipped=split.skipped,
            )
            tables.append(Table(file, rows))
    return tables


def as_rows(tables: Sequence[Table], columns: Sequence[str]) -> pd.DataFrame:
    """Rows of all files: split, text and label, None where a cell is empty or its column is not
    there. columns: names of that of texts and that of labels."""
    parts = []
    for file, rows in tables:
        part = rows.reindex(columns=list(columns)).set_axis(["text", "label"], axis=1)
        parts.append(part.astype(object).assign(split=file.split))
    joined = pd.concat(parts, ignore_index=True)
    return joined.where(joined.notna(), None)
