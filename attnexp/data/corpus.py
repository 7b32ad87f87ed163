"""Corpus: a data set as it is read, the checks it must pass, and its draws."""

import re
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import pandas as pd  # noqa: TID253 - this module is imported where data are read
from numpy.typing import NDArray

from attnexp.base import progress
from attnexp.base.errors import UserError, check_name, join_names
from attnexp.config.schema import DataConfig, DataName
from attnexp.data import contrast, text
from attnexp.data.read import Table, read_splits
from attnexp.data.sources import locate_source, open_source

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
MAX_CLASSES = 1000
WHOLE = re.compile(r"0|-?[1-9][0-9]*")
WHOLE_FLOAT = re.compile(r"(-?\d+)\.0+")
"""A whole number as pandas writes it in a column with missing values."""
FRACTION = re.compile(r"-?\d*\.\d+(e-?\d+)?")

Classes = tuple[str, ...]
"""Names of classes, in the order of their labels."""
FilesRead = dict[str, Any]
"""Names of files and number of texts of each split, as a result keeps them."""
Numbers = NDArray[np.integer]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    """Data set with its classes."""

    rows: pd.DataFrame
    """A row for each text: split (train, then test, then val), text, label (0 to C - 1; int8 where
    C fits), and place (where it stands, for messages). A tokenized corpus also has tokens (an array
    of numbers of words) and same (a number that texts of the same tokens share)."""
    words: list[str] = field(default_factory=list)
    """Word of each number in `tokens`, from 1."""
    written: Classes = SENTIMENTS
    """Classes as the files write them, such as 0 and 1."""
    source: str = "generated"
    """Path, variable or name on the hub, for people and result.json."""
    files: FilesRead

    @property
    def classes(self) -> Classes:
        """Classes as results call them: those of `SYNONYMS` are sentiments."""
        return SENTIMENTS if self.written in SYNONYMS else self.written

    @property
    def parts(self) -> dict[str, slice]:
        """Slice of the rows of each split."""
        parts = {}
        begin = 0
        for split, num_rows in self.rows.split.value_counts(sort=False).items():
            end = begin + num_rows
            parts[str(split)] = slice(begin, end)
            begin = end
        return parts

    def tokenize(self, config: DataConfig) -> Self:
        """The corpus with its tokens."""
        texts = progress.track(list(self.rows.text), "encoding")
        tokens, words = text.number_words(texts, text.tokenizer_of(config))
        contents = np.array([row.tobytes() for row in tokens], object)
        same, _ = pd.factorize(contents)
        return replace(self, rows=self.rows.assign(tokens=tokens, same=same), words=words)

    def redraw(self, seed: int) -> Self:
        """The corpus with train and test drawn anew from their union. Of every class both keep
        their share, as nearly as equal texts allow."""
        rows = self.rows[self.rows.split != "val"]  # These rows stand before those of val.
        was_test = rows.split == "test"
        shares = was_test.groupby(rows.label).mean().to_numpy()
        same, _ = pd.factorize(rows.same)
        is_test = choose_test(same, same, rows.label.to_numpy(), shares, seed)
        return self._move_to_test(is_test)

    def draw_test(self, share: float) -> Self:
        """The corpus, which has no test split, with a share of train drawn as test."""
        train = self.rows[self.rows.split == "train"]
        written, _ = pd.factorize(train.text)
        labels = train.label.to_numpy()
        shares = np.full(len(self.classes), share)
        is_test = choose_test(written, train.same.to_numpy(), labels, shares, seed=0)
        corpus = self._move_to_test(is_test)
        tokens, words = renumber(list(corpus.rows.tokens), self.words)
        return replace(
            corpus,
            rows=corpus.rows.assign(tokens=tokens),
            words=words,
            source=f"{self.source}, {share:.0%} drawn as test",
        )

    def _move_to_test(self, is_test: Mask) -> Self:
        """The corpus with these rows and no others in test. is_test: for all rows but those of val,
        which stand behind them."""
        split = self.rows.split.to_numpy(copy=True)
        split[: len(is_test)] = np.where(is_test, "test", "train")
        order = pd.Categorical(split, SPLITS).argsort(kind="stable")
        return replace(self, rows=self.rows.assign(split=split).iloc[order])


def load_corpus(config: DataConfig) -> Corpus:
    """The data set that a config names, to train on and to test with, tokenized: where it has no
    test split, a share of train is drawn. Raises `UserError` as `read_corpus` does, or for too few
    classes."""
    corpus = read_corpus(config).tokenize(config)
    if "test" not in corpus.parts:
        corpus = corpus.draw_test(config.test_share)
    check_classes(corpus)
    return corpus


def read_corpus(data: DataConfig) -> Corpus:
    """The splits of a data set as they are; what is on no disk is downloaded from the hub. Raises
    `UserError`, which says what to do, when it is nowhere, damaged, or not of labelled texts."""
    if data.name is DataName.contrast:
        rows = contrast.generate_rows(data.order_fraction or 0.0)
        parts = rows.groupby("split", sort=False)
        tables = [Table(str(split), "generated", part) for split, part in parts]
        return Corpus(rows=rows, files=list_files(tables))
    source = locate_source(data)
    path, title = open_source(source)
    tables = read_splits(path, data, is_hub=source.path is None)
    files = list_files(tables)
    descriptions = []
    for split, read in files.items():
        names = join_names(read["files"])
        if not read["texts"]:
            raise UserError(f"{title}: {names}, the {split} split, holds no texts.")
        descriptions.append(f"{split}: {names}, {read['texts']:,} texts")
    progress.note(f"Read {'; '.join(descriptions)}.")
    columns = choose_columns(tables, title, data)
    rows = join_rows(tables, columns)
    return make_corpus(rows, columns, title, files)


def list_files(tables: list[Table]) -> FilesRead:
    """Names of files and number of texts of each split."""
    files: FilesRead = {}
    for table in tables:
        read = files.setdefault(table.split, {"files": [], "texts": 0})
        read["files"].append(table.name)
        read["texts"] += len(table.rows)
    return files


def choose_columns(tables: list[Table], source: str, data: DataConfig) -> list[str]:
    """Columns of texts and of labels, which all files have: those of the config, or else the one
    with a common name; a note says which. Raises `UserError` where there is none, or several."""
    names = list(tables[0].rows)
    for table in tables:
        names = [name for name in names if name in table.rows]
    columns: list[str] = []
    for key, setting in (("text", data.text), ("label", data.label)):
        free = [name for name in names if name not in (data.text, data.label)]
        column = setting or _find_common(key, free)
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
        progress.note("Column {} is the text, {} the label.".format(*columns))
    return columns


def _find_common(key: str, names: list[str]) -> str:
    """The column that is called like the key, or else the one with a common name for it; empty if
    there is none, or more than one."""
    exact = [name for name in names if name.lower() == key]
    common = [name for name in names if name.lower() in COMMON[key]]
    candidates = exact or common
    return candidates[0] if len(candidates) == 1 else ""


def join_rows(tables: list[Table], columns: list[str]) -> pd.DataFrame:
    """Rows of all files: split, text and label as they stand there, and place, for messages.
    columns: names of those of texts and labels."""
    parts = []
    for table in tables:
        part = table.rows[columns].astype(object)
        part.columns = ["text", "label"]
        part["split"] = table.split
        part["place"] = [f"row {number} of {table.name}" for number in range(1, len(part) + 1)]
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def make_corpus(rows: pd.DataFrame, columns: list[str], source: str, files: FilesRead) -> Corpus:
    """Corpus of rows as they were read. Raises `UserError` unless each has a text, and a name or
    whole number as its label. columns: names of those of texts and labels, for messages."""
    labels = [_read_label(cell) for cell in rows.label]
    has_text = rows.text.map(lambda cell: isinstance(cell, str))
    wrong = rows[~has_text | pd.isna(labels)]
    if len(wrong):
        first = wrong.iloc[0]
        raise UserError(
            f"{source}: {len(wrong):,} rows have no text in column {columns[0]}, or no name or "
            f"whole number in column {columns[1]}. The first is {first.place}: "
            f"{join_names([repr(first.text), repr(first.label)])}. Mend or remove them, or name "
            f"other columns: data.text=COLUMN data.label=COLUMN."
        )
    names = _order_labels(set(labels), source)
    label_type = np.min_scalar_type(-len(names))  # Labels are signed: int8 for up to 128 classes.
    numbers = pd.Categorical(labels, names).codes.astype(label_type)
    return Corpus(rows=rows.assign(label=numbers), written=names, source=source, files=files)


def _read_label(cell: Any) -> Any:
    """Name of a label, which is 1 for 1.0; None for a blank, a fraction, and what is no label."""
    name = str(cell).strip()
    whole = WHOLE_FLOAT.fullmatch(name)
    if whole:
        return whole[1]
    if not isinstance(cell, int | str) or FRACTION.fullmatch(name):
        return None
    return name or None


def _order_labels(values: set[str], source: str) -> Classes:
    """Labels by number where all are whole numbers, else by name. Raises `UserError` for more of
    them than classes can be, and for one that cannot be printed."""
    are_numbers = all(WHOLE.fullmatch(value) for value in values)
    names = tuple(sorted(values, key=int if are_numbers else str))
    if len(names) > MAX_CLASSES:
        raise UserError(
            f"{source}: {len(names):,} labels differ, such as {join_names(names)}; at most "
            f"{MAX_CLASSES:,} may. Name the column of classes: data.label=COLUMN."
        )
    for name in names:
        check_name(name, f"A class of {source}")
    return names


def check_classes(corpus: Corpus) -> None:
    """Raise `UserError` unless every split has two classes or more, and train all of them."""
    names = corpus.written
    labels_of = corpus.rows.groupby("split", sort=False).label.agg(set)
    if "test" not in labels_of:
        raise UserError(
            f"{corpus.source}: of {len(names)} classes too few texts differ, so that none is in "
            f"test. Give more texts, a larger data.test_share, or another data.label=COLUMN."
        )
    listed = labels_of.map(lambda labels: join_names(names[label] for label in sorted(labels)))
    for split, labels in labels_of.items():
        if len(labels) < 2 or labels - labels_of["train"]:
            raise UserError(
                f"{split} of {corpus.source} has the classes {listed[split]}, and train "
                f"{listed['train']}. Each needs two or more, and train all. Add or relabel texts, "
                f"or name another column or split: data.label=COLUMN data.{split}_split=NAME "
                f"(validation, where the labels of a contest's test split are hidden as -1)."
            )


def renumber(rows: text.Texts, words: list[str]) -> text.TextsAndWords:
    """Texts given as numbers, where i + 1 stands for `words[i]`, with numbers from 1 in the order
    of their first appearance, and the words in this order."""
    numbers, old_numbers = pd.factorize(np.concatenate(rows))
    ends = np.cumsum([len(row) for row in rows])
    renumbered = np.split(numbers.astype(np.int32) + 1, ends[:-1])
    return renumbered, [words[number - 1] for number in old_numbers]


def choose_test(
    written: Numbers, numbers: Numbers, labels: Numbers, shares: NDArray[np.floating], seed: int
) -> Mask:
    """Mask of the rows drawn for test, (n,); the same for one seed.

    Texts of one number, which are the same to a model, stay on one side, that of the first one's
    label. Of every class the number of rows is as near to its share as that allows, and some are
    left. written: the same for texts that are written alike; these are shuffled, so that a split
    moves only where texts of one number lay on both sides. All are (n,), but for shares, (C,).
    """
    _, written_rows = np.unique(written, return_index=True)
    _, first_rows, text_of_row, num_rows = np.unique(
        numbers, return_index=True, return_inverse=True, return_counts=True
    )
    label_of_text = labels[first_rows]
    is_test = np.zeros(len(first_rows), bool)
    random = np.random.default_rng(seed)
    for label in np.unique(label_of_text):
        rows_of_label = written_rows[labels[written_rows] == label]
        shuffled = random.permutation(rows_of_label)
        texts = pd.unique(text_of_row[shuffled])  # This keeps the shuffled order.
        texts = texts[label_of_text[texts] == label]
        # Test ends before the text where the number of its rows is nearest to the share.
        *num_before, num_in_all = np.cumsum([0, *num_rows[texts]])
        distances = np.abs(num_before - shares[label] * num_in_all)
        num_texts = distances.argmin()
        is_test[texts[:num_texts]] = True
    return is_test[text_of_row]
