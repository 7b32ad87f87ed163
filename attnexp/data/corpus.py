"""Corpus: a data set as it is read, the checks it must pass, and its draws."""

import re
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import pandas as pd  # noqa: TID253 - this module is imported where data are read

from attnexp.base import progress
from attnexp.base.errors import UserError, check_name, join_names
from attnexp.config.schema import DataConfig, DataName
from attnexp.data import contrast, text
from attnexp.data.read import Tables, read_splits
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
WHOLE = re.compile(r"0|-?[1-9][0-9]*")
WHOLE_FLOAT = re.compile(r"(-?\d+)\.0+")
"""A whole number as pandas writes it in a column with missing values."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    """Data set with its classes."""

    rows: pd.DataFrame
    """A row for each text: split (train, then test, then val), text, label (0 to C - 1; int8 where
    C fits), and place (where it stands, for messages). A tokenized corpus also has tokens (an array
    of numbers of words; after `encode.rank_words` of ranks, 0 for a word that train lacks) and same
    (a number that texts of the same tokens share)."""
    words: list[str] = field(default_factory=list)
    """Word of each number in `tokens`, from 1."""
    written: tuple[str, ...]
    """Classes as the files write them, such as 0 and 1, in the order of their labels."""
    source: str
    """Path, variable or name on the hub, for people and result.json."""
    files: dict[str, Any]
    """Names of files and number of texts of each split, as a result keeps them."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Classes as results call them: those of `SYNONYMS` are sentiments."""
        return SENTIMENTS if self.written in SYNONYMS else self.written

    def redraw(self, seed: int) -> Self:
        """The corpus with train and test drawn anew from their union. Of every class both keep
        their share, as nearly as equal texts allow."""
        rows = self.rows[self.rows.split != "val"]
        was_test = rows.split == "test"
        shares = was_test.groupby(rows.label).mean()
        return replace(self, rows=draw_test(self.rows, "same", shares, seed))

    def add_test(self, share: float) -> Self:
        """The corpus, which has no test split, with a share of train drawn as test, and its words
        numbered anew by their first appearance."""
        shares = pd.Series(share, range(len(self.written)))
        rows = draw_test(self.rows, "text", shares, seed=0)
        tokens = list(rows.tokens)
        # Of equally frequent words the lower number ranks first: the first to appear in train.
        numbers, old_numbers = pd.factorize(np.concatenate(tokens))
        ends = np.cumsum([len(row) for row in tokens])
        renumbered = np.split(numbers.astype(np.int32) + 1, ends[:-1])
        return replace(
            self,
            rows=rows.assign(tokens=renumbered),
            words=[self.words[number - 1] for number in old_numbers],
            source=f"{self.source}, {share:.0%} drawn as test",
        )


def draw_test(rows: pd.DataFrame, unit: str, shares: "pd.Series[float]", seed: int) -> pd.DataFrame:
    """Rows with train and test drawn anew, the same for one seed, in the order of the splits.

    Texts of the same tokens stay on one side, that of the first one's label. Of every class the
    number of rows is as near to its share as that allows, and some are left. unit: text or same,
    the column whose equal rows are shuffled as one. `add_test` keeps text, which earlier versions
    shuffled, so that their splits stay what they were.
    """
    is_val = rows.split == "val"
    others = rows[~is_val]
    label_of_group = others.groupby("same").label.first()
    rows_in_group = others.same.value_counts()
    distinct = others.drop_duplicates(unit)
    random = np.random.default_rng(seed)
    drawn = []
    for label in np.unique(label_of_group):
        shuffled = random.permutation(distinct.same[distinct.label == label])
        groups = pd.unique(shuffled)  # This keeps the shuffled order.
        groups = groups[label_of_group[groups] == label]
        # As many groups as bring the number of rows nearest to the share, but not all of them.
        num_up_to = np.cumsum([0, *rows_in_group[groups]])
        wanted = shares[label] * num_up_to[-1]
        num_drawn = np.abs(num_up_to[:-1] - wanted).argmin()
        drawn += list(groups[:num_drawn])
    split = np.select([is_val, rows.same.isin(drawn)], ["val", "test"], "train")
    order = pd.Categorical(split, SPLITS).argsort(kind="stable")
    return rows.assign(split=split).iloc[order]


def load_corpus(config: DataConfig) -> Corpus:
    """The data set that a config names, tokenized: where it has no test split, a share of train is
    drawn. Raises `UserError` as `read_corpus` does, or for too few classes."""
    corpus = read_corpus(config)
    texts = progress.track(list(corpus.rows.text), "encoding")
    tokens, words = text.number_words(texts, text.tokenizer_of(config))
    contents = np.array([row.tobytes() for row in tokens], object)
    same, _ = pd.factorize(contents)
    corpus = replace(corpus, rows=corpus.rows.assign(tokens=tokens, same=same), words=words)
    if "test" not in corpus.files:
        corpus = corpus.add_test(config.test_share)
    check_classes(corpus)
    return corpus


def read_corpus(data: DataConfig) -> Corpus:
    """The splits of a data set as they are; what is on no disk is downloaded from the hub. Raises
    `UserError`, which says what to do, when it is nowhere, damaged, or not of labelled texts."""
    if data.name is DataName.contrast:
        title = "generated"
        rows = contrast.generate_rows(data.order_fraction or 0.0)
        tables = {str(split): {title: part} for split, part in rows.groupby("split", sort=False)}
    else:
        source = locate_source(data)
        path, title = open_source(source)
        tables = read_splits(path, data, is_hub=source.path is None)
    files = list_files(tables, title)
    columns = choose_columns(tables, title, data)
    rows = join_rows(tables, columns)
    return make_corpus(rows, columns, title, files)


def list_files(tables: Tables, source: str) -> dict[str, Any]:
    """Names of files and number of texts of each split, which are noted. Raises `UserError` for a
    split without texts."""
    files = {}
    descriptions = []
    for split, rows_of in tables.items():
        names = join_names(rows_of)
        num_texts = sum(map(len, rows_of.values()))
        if num_texts == 0:
            raise UserError(f"{source}: {names}, the {split} split, holds no texts.")
        descriptions.append(f"{split}: {names}, {num_texts:,} texts")
        files[split] = {"files": list(rows_of), "texts": num_texts}
    progress.note(f"Read {'; '.join(descriptions)}.")
    return files


def choose_columns(tables: Tables, source: str, data: DataConfig) -> list[str]:
    """Columns of texts and of labels, which all files have: those of the config, or else the one
    with a common name; a note says which. Raises `UserError` where there is none, or several."""
    frames = [rows for rows_of in tables.values() for rows in rows_of.values()]
    names = list(frames[0])
    for rows in frames[1:]:
        names = [name for name in names if name in rows]
    columns = []
    for key, setting in (("text", data.text), ("label", data.label)):
        column = setting or _find_common(key, names)
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


def _find_common(key: str, names: list[str]) -> str:
    """The column that is called like the key, or else the one with a common name for it; empty if
    there is none, or more than one."""
    candidates = [name for name in names if name.lower() == key]
    if not candidates:
        candidates = [name for name in names if name.lower() in COMMON[key]]
    return candidates[0] if len(candidates) == 1 else ""


def join_rows(tables: Tables, columns: list[str]) -> pd.DataFrame:
    """Rows of all files: split, text and label as they stand there, and place, for messages.
    columns: names of those of texts and labels."""
    parts = []
    for split, rows_of in tables.items():
        for name, rows in rows_of.items():
            part = rows[columns].astype(object).set_axis(["text", "label"], axis=1)
            places = [f"row {number} of {name}" for number in range(1, len(part) + 1)]
            parts.append(part.assign(split=split, place=places))
    return pd.concat(parts, ignore_index=True)


def make_corpus(rows: pd.DataFrame, columns: list[str], source: str, files: Any) -> Corpus:
    """Corpus of rows as they were read. Raises `UserError` unless each has a text, and a name or
    whole number as its label. columns: names of those of texts and labels, for messages."""
    labels = rows.label.map(_read_label)
    is_text = rows.text.map(lambda cell: isinstance(cell, str))
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
    names = sorted(set(labels), key=int if are_numbers else str)
    for name in names:
        check_name(name, f"A class of {source}")
    numbers = pd.Categorical(labels, names).codes
    return Corpus(rows=rows.assign(label=numbers), written=tuple(names), source=source, files=files)


def _read_label(cell: Any) -> str | None:
    """Name of a label, which is 1 for 1.0; None for a blank, a fraction, and what is no label."""
    name = str(cell).strip()
    whole = WHOLE_FLOAT.fullmatch(name)
    if whole:
        return whole[1]
    return name if name and isinstance(cell, int | str) else None


def check_classes(corpus: Corpus) -> None:
    """Raise `UserError` unless every split has two classes or more, and train all of them."""
    labels_of = {"test": set[int]()}  # A draw may have left no test.
    labels_of |= dict(corpus.rows.groupby("split").label.agg(set))
    names_of = {}
    for split, labels in labels_of.items():
        names_of[split] = join_names(corpus.written[label] for label in sorted(labels)) or "none"
    for split, labels in labels_of.items():
        if len(labels) < 2 or labels - labels_of["train"]:
            raise UserError(
                f"{split} of {corpus.source} has the classes {names_of[split]}, and train "
                f"{names_of['train']}. Each needs two or more, and train all. Add or relabel "
                f"texts, or name another file, column or split: data.path=FILE data.label=COLUMN "
                f"data.{split}_split=NAME (validation, where the labels of a contest's test split "
                f"are hidden as -1)."
            )
