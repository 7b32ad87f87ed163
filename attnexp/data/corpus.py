"""Corpus: a data set as it is read, the checks it must pass, and questions about it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pandas as pd  # noqa: TID253 - this module is imported where data are read
from numpy.typing import NDArray

from attnexp.base.errors import UserError, check_name, join_names
from attnexp.data.files import ReadFile, describe_places

SPLITS = ("train", "test", "val")
SENTIMENTS = ("negative", "positive")
"""The classes of reviews, and of whatever is labelled by `SYNONYMS`."""
SYNONYMS = (("0", "1"), ("neg", "pos"), ("False", "True"), ("false", "true"))
MAX_CLASSES = 1000
WHOLE = re.compile(r"0|-?[1-9][0-9]*")
NO_LABEL = re.compile(r"\s*|-?\d*\.\d+(e-?\d+)?")
"""A blank label, or a fraction."""
MISSING = re.compile(r"\s*(None|(?i:nan|null|n/a|#n/a|<na>))\s*")
"""A label that programs write where there is none; a class may be called so all the same."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    """Data set with its classes."""

    rows: pd.DataFrame
    """A row for each text: split (train, then test, then val), text (of Keras's file an array of
    word ranks), label (0 to C - 1; int8 where C fits)."""
    classes: tuple[str, ...] = SENTIMENTS  # C names, in the order of their labels
    written: tuple[str, ...] = SENTIMENTS  # the labels as the files write them, such as 0 and 1
    source: str = "generated"  # for people and result.json, as "parquet files in /data/imdb"
    is_drawn: bool = False  # whether test was drawn from train, since there was none
    files: tuple[ReadFile, ...]  # what was read; the index of a row counts through all of it

    @property
    def parts(self) -> dict[str, slice]:
        """Where each split lies in the rows."""
        ends = self.rows.split.value_counts(sort=False).cumsum()
        begins = [0, *ends[:-1]]
        return {
            split: slice(begin, end)
            for split, begin, end in zip(ends.index, begins, ends, strict=True)
        }

    def reorder(self, order: NDArray[np.intp]) -> Self:
        """The corpus with its rows in another order, (n,), while the splits lie where they did."""
        split = self.rows.split.to_numpy()
        return replace(self, rows=self.rows.iloc[order].assign(split=split))


def make_corpus(
    rows: pd.DataFrame, source: str, test_share: float, files: tuple[ReadFile, ...]
) -> Corpus:
    """Corpus of rows as they were read; of train, `test_share` is drawn as test if there is none.
    Raises `UserError` where that is no set of labelled texts."""
    _check_rows(rows, source, files)
    written = rows.label.map(str)
    names = _order_labels(set(written), source)
    number = {name: label for label, name in enumerate(names)}
    label_type = np.min_scalar_type(-len(names))
    rows = rows.assign(label=written.map(number).astype(label_type))
    is_drawn = "test" not in set(rows.split)
    if is_drawn:
        rows = _move_to_test(rows, test_share)
        source = f"{source}, {test_share:.0%} drawn as test"
    _check_classes(rows, names, source)
    classes = SENTIMENTS if names in SYNONYMS else names
    return Corpus(
        rows=rows,
        classes=classes,
        written=names,
        source=source,
        is_drawn=is_drawn,
        files=files,
    )


def _check_rows(rows: pd.DataFrame, source: str, files: Sequence[ReadFile]) -> None:
    """Raise `UserError` unless each row has a text, and a name or whole number as its label."""
    if rows.empty:
        raise UserError(f"{source} holds no texts.")
    is_text = [isinstance(text, str | np.ndarray) for text in rows.text]
    is_label = [_is_label(label) for label in rows.label]
    for column, kind, is_right in (
        ("text", "texts", is_text),
        ("label", "names or whole numbers", is_label),
    ):
        wrong = rows[np.invert(is_right)]
        if len(wrong):
            values = join_names(map(repr, wrong[column]))
            raise UserError(
                f"{source}: column {column} must hold {kind}, but {len(wrong)} rows do not: "
                f"{values}, in {describe_places(files, wrong.index)}. "
                f"Mend or remove them, or name another column: data.{column}=COLUMN."
            )


def _is_label(value: object) -> bool:
    return isinstance(value, int | str) and not NO_LABEL.fullmatch(str(value))


def _order_labels(values: set[str], source: str) -> tuple[str, ...]:
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


def _move_to_test(rows: pd.DataFrame, share: float) -> pd.DataFrame:
    """The rows with a share of train drawn as test, in the order of splits."""
    train = rows[rows.split == "train"]
    is_test = draw_test(train.text, train.label.to_numpy(), share)
    rows.loc[train.index[is_test], "split"] = "test"
    return rows.sort_values("split", kind="stable", key=lambda split: split.map(SPLITS.index))


def _check_classes(rows: pd.DataFrame, names: Sequence[str], source: str) -> None:
    """Raise `UserError` unless every split has two classes or more, and train all of them."""
    labels_of: dict[str, set[int]] = {"test": set()}  # of too few texts none may be drawn
    for split, labels in rows.groupby("split").label:
        labels_of[str(split)] = set(labels)
    names_of = {
        split: join_names(names[label] for label in sorted(labels))
        for split, labels in labels_of.items()
    }
    for split, labels in labels_of.items():
        if len(labels) < 2 or labels - labels_of["train"]:
            raise UserError(
                f"{split} of {source} has the classes {names_of[split]}, train "
                f"{names_of['train']}. Each needs two or more, and train all. "
                f"Where -1 alone hides them, take another split: data.{split}_split=validation."
            )


def draw_test(texts: Sequence[str], labels: NDArray[np.integer], share: float) -> NDArray[np.bool_]:
    """Mask of the rows drawn for test, (n,); the same every time.

    The draw is stratified by class as closely as possible: equal texts stay on one side (that of
    the first one's label), and every class keeps rows in train. labels: (n,) of 0 to C - 1.
    """
    text_of_row, distinct = pd.factorize(np.asarray(texts, object))
    _, first_rows, num_rows = np.unique(text_of_row, return_index=True, return_counts=True)
    label_of_text = labels[first_rows]
    random = np.random.default_rng(0)
    is_test = np.zeros(len(distinct), bool)
    for label in np.unique(label_of_text):
        drawn = random.permutation(np.flatnonzero(label_of_text == label))
        rows_before = np.cumsum([0, *num_rows[drawn]])  # of each text, in the order of the draw
        distance = np.abs(rows_before[:-1] - share * rows_before[-1])
        is_test[drawn[: distance.argmin()]] = True
    return is_test[np.asarray(text_of_row, np.intp)]


def find_problems(
    corpus: Corpus, num_words: NDArray[np.integer], text_numbers: NDArray[np.integer]
) -> dict[str, int]:
    """What is questionable in texts, with how often; nothing that does not occur.

    num_words, text_numbers: of each row, (n,). Texts of one number are the same to a model.
    """
    rows = corpus.rows.assign(number=text_numbers, num_words=num_words)
    counts = _count_repeated(rows[rows.num_words > 0])
    counts |= _count_missing(corpus, rows)

    is_long = rows.text.str.len() > 10 * rows.num_words.clip(1)
    num_unsplit = ((rows.num_words < 3) & is_long).sum()
    if 10 * num_unsplit > len(rows):
        counts["long texts have two tokens at most (is data.tokenizer right?)"] = num_unsplit

    for names in _similar_names(corpus.classes):
        listed = ", ".join(map(repr, names))
        counts[f"names of classes differ in space or case alone ({listed})"] = len(names)
    return {problem: int(count) for problem, count in counts.items() if count}


def _count_repeated(rows: pd.DataFrame) -> dict[str, int]:
    """Texts that one split shares with another, and texts with several labels."""
    numbers = {str(split): part.number for split, part in rows.groupby("split")}
    counts = {}
    for split, other in (("test", "train"), ("val", "train"), ("val", "test")):
        if split in numbers and other in numbers:
            is_repeated = numbers[split].isin(numbers[other])
            counts[f"{split} texts also occur in {other}"] = is_repeated.sum()
    num_labels = rows.groupby("number").label.nunique()
    counts["texts have both labels"] = (num_labels > 1).sum()
    return counts


def _count_missing(corpus: Corpus, rows: pd.DataFrame) -> dict[str, int]:
    """Texts without a word, and labels as programs write missing ones, with their places."""
    counts = {}
    without_words = rows[rows.num_words == 0]
    if len(without_words):
        places = describe_places(corpus.files, without_words.index)
        counts[f"texts hold no word: {places}"] = len(without_words)
    for label, name in enumerate(corpus.written):
        if MISSING.fullmatch(name):
            labelled = rows[rows.label == label]
            places = describe_places(corpus.files, labelled.index)
            counts[f"labels are {name}, as where one is missing: {places}"] = len(labelled)
    return counts


def _similar_names(classes: Sequence[str]) -> list[list[str]]:
    """Groups of two or more names that are the same without their space and case."""
    similar: dict[str, list[str]] = {}
    for name in classes:
        key = "".join(name.split()).casefold()
        similar.setdefault(key, []).append(name)
    return [names for names in similar.values() if len(names) > 1]
