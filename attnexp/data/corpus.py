"""Corpus: where a data set lies, and its labelled texts as they are read."""

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd  # noqa: TID253 - this module is imported where data are read

from attnexp.base import progress
from attnexp.base.errors import UserError, join_names, on_one_line
from attnexp.config.schema import DataConfig, DataName
from attnexp.data import contrast
from attnexp.data.read import FORMATS, Tables, read_splits

SPLITS = ("train", "test", "val")
SENTIMENTS = ("negative", "positive")
"""Classes of reviews, and of all data that are labelled by `SYNONYMS`."""
SYNONYMS = (("0", "1"), ("neg", "pos"), ("False", "True"), ("false", "true"))
SENTIMENT_OF = {
    name: sentiment for pair in SYNONYMS for name, sentiment in zip(pair, SENTIMENTS, strict=True)
}
COMMON = {
    "text": ("text", "sentence", "review", "question", "content", "phrase", "tweet"),
    "label": ("label", "labels", "topic", "class", "category", "sentiment", "polarity"),
}
"""Common names of the two columns; a column named like the key wins over the others."""
WHOLE = re.compile(r"0|-?[1-9][0-9]*")
WHOLE_FLOAT = re.compile(r"^(-?\d+)\.0+$")  # how pandas writes 1 in a column with missing values
FRACTION_OR_BLANK = re.compile(r"(-?\d*\.\d+)?")
HUB = "hub"
EMBEDDED = "attnexp"


class Source(NamedTuple):
    """Place of a data set."""

    origin: str  # `HUB`, `EMBEDDED`, or what gives the path: data.path, $ATTNEXP_DATA/cr
    place: str  # name on the hub, "generated", or path of a file or folder

    def __str__(self) -> str:
        return f"{self.origin}: {self.place}"


def locate_source(data: DataConfig) -> Source:
    """Where a data set lies: `data.path`, `$ATTNEXP_IMDB`, in `$ATTNEXP_DATA`, or else the hub."""
    if data.name is DataName.contrast:
        return Source(EMBEDDED, "generated")
    if data.name is DataName.hub:
        return Source(HUB, data.path or "")
    if data.path is not None:
        return Source("data.path", data.path)
    imdb = os.environ.get("ATTNEXP_IMDB")
    if imdb and data.name is DataName.imdb:
        return Source("$ATTNEXP_IMDB", imdb)
    home = os.environ.get("ATTNEXP_DATA")
    if home:
        folder = Path(home, data.name).expanduser()
        if folder.exists():
            return Source(f"$ATTNEXP_DATA/{data.name}", str(folder))
    if data.name is DataName.imdb:
        return Source(HUB, "stanfordnlp/imdb")
    return Source(HUB, data.hub or "")  # The config has refused data=files without a path.


def stamp_files(data: DataConfig) -> tuple[tuple[str, int], ...]:
    """Path and time of change of every file that may be read; none of the hub, or generated."""
    origin, place = locate_source(data)
    if origin in (HUB, EMBEDDED):
        return ()
    path = Path(place).expanduser()
    files = [path]
    for pattern in ("*", "*/*", "*/*/*.txt", "aclImdb/*/*/*.txt"):  # all that `read_splits` opens
        files += path.glob(pattern)
    return tuple((str(file), file.stat().st_mtime_ns) for file in files if file.exists())


def download_snapshot(name: str) -> Path:
    """Folder, named by its commit, of a data set of the hub: from its cache, else downloaded."""
    from huggingface_hub import HfApi, constants, snapshot_download

    with suppress(Exception):  # It is not in the cache, or no name that the hub could have.
        return Path(snapshot_download(name, repo_type="dataset", local_files_only=True))
    try:
        HfApi().dataset_info(name, timeout=5.0)  # The library's own retries take minutes.
        return Path(snapshot_download(name, repo_type="dataset"))
    except Exception as error:  # The errors of the hub's libraries have no base in common.
        raise UserError(
            f"Data set {name} is not in the Hugging Face cache and cannot be fetched from "
            f"{constants.ENDPOINT} ({on_one_line(error)[:300]}). Check its name, and try "
            f"again when online (HF_ENDPOINT names a mirror). Or give data.path=PATH, "
            f"$ATTNEXP_IMDB or $ATTNEXP_DATA/NAME: {FORMATS}. Or do without: data=contrast."
        ) from error


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Data set with its classes."""

    rows: pd.DataFrame
    """A row for each text. Its columns are split (train, then test, then val), text, label (0 to
    C - 1; int8 where C fits) and place (where it stands, for messages)."""
    written: tuple[str, ...]  # classes as the files write them, such as 0 and 1, by label
    classes: tuple[str, ...]  # classes as results call them: those of `SYNONYMS` are sentiments
    source: str  # path, variable or name on the hub, for people and result.json
    files: dict[str, Any]  # names of files and number of texts of each split, for result.json

    def check_classes(self, how: str = "") -> None:
        """Raise `UserError` unless every split has two classes or more, and train all of them.
        how: words for its message on how the splits came about."""
        classes_of: dict[Any, list[str]] = {"test": []}  # A draw may have left no test.
        for split, labels in self.rows.groupby("split").label:
            classes_of[split] = [self.written[label] for label in np.unique(labels)]
        in_train = classes_of["train"]
        for split, classes in classes_of.items():
            if len(classes) < 2 or not set(classes).issubset(in_train):
                raise UserError(
                    f"{split} of {self.source}{how} has the classes {join_names(classes) or 'none'}"
                    f", and train {join_names(in_train)}. Each needs two or more, and train all. "
                    f"Add or relabel texts, or name another file, column or split: data.path=FILE "
                    f"data.label=COLUMN data.{split}_split=NAME (validation, where the labels of a "
                    f"contest's test split are hidden as -1)."
                )


def read_corpus(data: DataConfig) -> Corpus:
    """The splits of a data set as they are; what is on no disk is downloaded from the hub. Raises
    `UserError`, which says what to do, when it is nowhere, damaged, or not of labelled texts."""
    origin, place = locate_source(data)
    if origin == EMBEDDED:
        source = place
        # `order_fraction` is None only without conf/data/contrast.yaml.
        rows = contrast.generate_rows(data.order_fraction or 0.0)
        tables = {split: {source: part} for split, part in rows.groupby("split", sort=False)}
    elif origin == HUB:
        folder = download_snapshot(place)
        source = f"hub: {place}@{folder.name[:12]}"  # its commit
        tables = read_splits(folder, data, is_hub=True)
    else:
        path = Path(place).expanduser().absolute()
        if not path.exists():
            raise UserError(f"{origin}={place} does not exist. Give {FORMATS}.")
        source = origin if origin.startswith("$") else str(path)  # $NAME is the same anywhere.
        tables = read_splits(path, data, is_hub=False)
    files = {}
    notes = []
    for split, frames in tables.items():
        names = join_names(frames)
        num_texts = sum(map(len, frames.values()))
        if num_texts == 0:
            raise UserError(f"{source}: {names}, the {split} split, holds no texts.")
        files[split] = {"files": list(frames), "texts": num_texts}
        notes.append(f"{split}: {names}, {num_texts:,} texts")
    progress.note(f"Read {'; '.join(notes)}.")
    columns = choose_columns(tables, source, data)
    rows, written = label_rows(tables, columns, source)
    classes = SENTIMENTS if written in SYNONYMS else written
    return Corpus(rows=rows, written=written, classes=classes, source=source, files=files)


def choose_columns(tables: Tables, source: str, data: DataConfig) -> list[str]:
    """Columns of texts and of labels in all files: those of the config, or else of a common name,
    which is noted but for text and label. Raises `UserError` where there is none, or several."""
    first, *others = chain(*(frames.values() for frames in tables.values()))
    in_all = set(first).intersection(*others)
    names: list[str] = [name for name in first if name in in_all]
    columns = []
    for key, setting in (("text", data.text), ("label", data.label)):
        accepted = [key] if key in map(str.lower, names) else COMMON[key]
        candidates = [name for name in names if name.lower() in accepted]
        column = setting or (candidates[0] if len(candidates) == 1 else None)
        if column not in names:
            raise UserError(
                f"{source} has no column {column or f'that is plainly the {key}'}; the columns of "
                f"all its files are {join_names(names)}. Name it: data.{key}=COLUMN. If these are "
                f"no names, but the first row of a csv, count columns from 0: data.header=false "
                f"data.text=NUMBER data.label=NUMBER. Texts without labels are for `attnexp "
                f"predict`."
            )
        columns.append(column)
    if columns not in ([data.text, data.label], ["text", "label"]):
        progress.note(f"Column {columns[0]} is the text, {columns[1]} the label.")
    return columns


def label_rows(
    tables: Tables, columns: list[str], source: str
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """`rows` and `written` of a `Corpus`. columns: of texts and labels. Raises `UserError` unless
    each row has a text, and a name or whole number as its label."""
    parts = []
    for split, frames in tables.items():
        for name, frame in frames.items():
            part = frame[columns].astype(object).set_axis(["text", "label"], axis=1)
            places = [f"row {number} of {name}" for number in range(1, len(part) + 1)]
            parts.append(part.assign(split=split, place=places))
    rows = pd.concat(parts, ignore_index=True)
    is_text = rows.text.map(lambda cell: isinstance(cell, str))
    cells = rows.label.map(str).str.strip()
    labels = cells.str.replace(WHOLE_FLOAT, r"\1", regex=True)  # 1 for 1.0
    is_name_or_int = rows.label.map(lambda cell: isinstance(cell, int | str))  # no list, no None
    is_name_or_whole = is_name_or_int | (labels != cells)
    is_fraction_or_blank = labels.str.fullmatch(FRACTION_OR_BLANK)
    labels = labels.where(is_name_or_whole & ~is_fraction_or_blank)
    wrong = rows[~is_text | labels.isna()]
    if len(wrong):
        first = wrong.iloc[0]
        raise UserError(
            f"{source}: {len(wrong):,} rows have no text in column {columns[0]}, or no name or "
            f"whole number in column {columns[1]}. The first is {first.place}: "
            f"{join_names([repr(first.text), repr(first.label)])}. Mend or remove them, or name "
            f"other columns: data.text=COLUMN data.label=COLUMN."
        )
    are_numbers = all(map(WHOLE.fullmatch, labels))
    written = sorted(set(labels), key=int if are_numbers else str)
    codes = pd.Categorical(labels, written).codes
    texts = rows.text.str.replace("\r\n", "\n", regex=False)  # line breaks as Windows writes them
    return rows.assign(text=texts, label=codes), tuple(written)
