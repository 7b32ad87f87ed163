"""Load a data set: locate its source, read its splits, and join their rows."""

from pathlib import Path

import pandas as pd  # noqa: TID253 - this module is imported where data are read

from attnexp.base import progress
from attnexp.base.errors import UserError, join_names, on_one_line
from attnexp.config.schema import DataConfig, DataName
from attnexp.data import contrast
from attnexp.data.corpus import Corpus, FilesRead, check_classes, make_corpus
from attnexp.data.records import LINE
from attnexp.data.sources import locate_source, open_source
from attnexp.data.splits import Splits, choose_splits, find_splits
from attnexp.data.tables import choose_columns, read_rows

Frames = dict[str, pd.DataFrame]
"""Rows of each file, by its name."""


def load_corpus(data: DataConfig) -> Corpus:
    """The data set that `data` names, to train on and to test with: where it has no test split, a
    share of train is drawn. Raises `UserError` as `read_corpus` does, or for too few classes."""
    corpus = read_corpus(data)
    if "test" not in corpus.parts:
        corpus = corpus.draw_test(data)
    check_classes(corpus)
    return corpus


def read_corpus(data: DataConfig) -> Corpus:
    """The splits of a data set as they are; what is on no disk is downloaded from the hub. Raises
    `UserError`, which says what to do, when it is nowhere, damaged, or not of labelled texts."""
    if data.name is DataName.contrast:
        return contrast.generate_corpus(data.order_fraction or 0.0)
    source = locate_source(data)
    path, title = open_source(source)
    try:
        splits = find_splits(path, data, is_hub=source.path is None)
        splits = choose_splits(splits, title, data)
        tables, files = read_splits(splits, has_header=data.header)
        columns = choose_columns(tables["train"], title, data)
        rows = join_tables(tables, columns)
    except UserError:
        raise
    except Exception as error:  # of pandas, datasets, tarfile and others, with no base in common
        raise UserError(
            f"{path} cannot be read ({on_one_line(error)[:300]}). Where it has several "
            f"configurations, choose one: data.config=NAME. Where it is damaged, fetch it again."
        ) from error
    if columns not in ([data.text, data.label], ["text", "label"]):
        text, label = (join_names([column]) for column in columns)
        progress.note(f"Column {text} is the text, {label} the label.")
    return make_corpus(rows, title, files)


def read_splits(splits: Splits, *, has_header: bool) -> tuple[dict[str, Frames], FilesRead]:
    """Rows of all files, by split, and what is read; a note says it."""
    tables = {}
    files = {}
    parts = []
    skipped: list[str] = []
    for key, split in splits.items():
        frames: Frames = {}
        for name, file in split.files.items():
            if isinstance(file, Path):
                file = read_rows(file, has_header=has_header)
            frames[name] = file
        tables[key] = frames
        num_texts = sum(map(len, frames.values()))
        files[key] = {
            "files": list(frames),
            "texts": num_texts,
            "files_not_read": len(split.skipped),
        }
        parts.append(f"{key}: {join_names(frames)}, {num_texts:,} texts")
        skipped += split.skipped
    progress.note(f"Read {'; '.join(parts)}.")
    if skipped:
        progress.note(f"Not read: {len(skipped):,} files of other names, {join_names(skipped)}.")
    return tables, files


def join_tables(tables: dict[str, Frames], columns: list[str]) -> pd.DataFrame:
    """Rows of all files: split, text and label, None where a cell is empty or its column is not
    there, and place, for messages. columns: names of that of texts and that of labels."""
    parts = []
    for split, files in tables.items():
        for name, rows in files.items():
            named = rows.drop(columns="", errors="ignore")  # several may have no name
            part = named.reindex(columns=columns).astype(object)
            part.columns = ["text", "label"]
            part["split"] = split
            numbers = range(1, len(rows) + 1)
            part["place"] = [f"row {number} of {name}" for number in numbers]
            if rows.index.name == LINE:
                part["place"] += [f" (line {line})" for line in rows.index]
            parts.append(part)
    joined = pd.concat(parts, ignore_index=True)
    return joined.where(joined.notna(), None)
