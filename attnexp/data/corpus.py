"""Corpus: a data set as it is read, the checks it must pass, and questions about it."""

import re
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Self

import numpy as np
import pandas as pd  # noqa: TID253 - this module is imported where data are read
from numpy.typing import NDArray

from attnexp.base.errors import UserError, check_name, find_twins, join_names
from attnexp.config.schema import DataConfig
from attnexp.data import text

SPLITS = ("train", "test", "val")
SENTIMENTS = ("negative", "positive")
"""The classes of reviews, and of whatever is labelled by `SYNONYMS`."""
SYNONYMS = (("0", "1"), ("neg", "pos"), ("False", "True"), ("false", "true"))
SENTIMENT_OF = {
    name: sentiment for pair in SYNONYMS for name, sentiment in zip(pair, SENTIMENTS, strict=True)
}
MAX_CLASSES = 1000
WHOLE = re.compile(r"0|-?[1-9][0-9]*")
WHOLE_FLOAT = re.compile(r"(-?\d+)\.0+")
"""A whole number as pandas writes it in a column with missing values."""
NO_LABEL = re.compile(r"\s*|-?\d*\.\d+(e-?\d+)?")
"""A blank label, or a fraction."""
MISSING = re.compile(r"\s*(None|NONE|\\N|(?i:-?nan|nat|null|nil|n/?a|#n/a|<na>))\s*")
"""A label that programs write where there is none; a class may be called so all the same."""
NUMBER = re.compile(r"[-+]?\.?\d")
"""The beginning of a number."""

Classes = tuple[str, ...]
"""Names of classes, in the order of their labels."""
FilesRead = dict[str, Any]
"""By split: files, texts and files_not_read, as a result keeps them."""
Numbers = NDArray[np.integer]
Order = NDArray[np.intp]  # (n,), row by row the place that it had before
Mask = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    """Data set with its classes."""

    rows: pd.DataFrame
    """A row for each text: split (train, then test, then val), text (of Keras's file an array of
    word ranks), label (0 to C - 1; int8 where C fits), place (where it stands, for messages)."""
    classes: Classes = SENTIMENTS
    written: Classes = SENTIMENTS  # as the files write them, such as 0 and 1
    source: str = "generated"  # for people and result.json, as "parquet files in /data/imdb"
    files: FilesRead

    @property
    def parts(self) -> dict[str, slice]:
        """Where each split lies in the rows."""
        parts = {}
        begin = 0
        for split, num_rows in self.rows.split.value_counts(sort=False).items():
            end = begin + num_rows
            parts[str(split)] = slice(begin, end)
            begin = end
        return parts

    def redraw(self, numbers: Numbers, seed: int) -> tuple[Self, Order]:
        """The corpus with train and test drawn anew from their union, and the old place of each of
        its rows. Of every class both keep their share, as nearly as equal texts allow. numbers: of
        each row, as `number_texts` gives them."""
        rows = self.rows[self.rows.split != "val"]  # which stands behind the others
        was_test = rows.split == "test"
        shares = was_test.groupby(rows.label).mean().to_numpy()
        labels = rows.label.to_numpy()
        numbers = numbers[: len(rows)]
        is_test = choose_test(numbers, numbers, labels, shares, seed)
        return self._move_to_test(is_test)

    def draw_test(self, data: DataConfig) -> Self:
        """The corpus with a share of train, all that it has but for val, drawn as test."""
        train = self.rows[self.rows.split == "train"]
        tokenized, _ = text.number_words(train.text, text.tokenizer_of(data))
        written, _ = pd.factorize(train.text)
        numbers = number_texts(tokenized)
        labels = train.label.to_numpy()
        shares = np.full(len(self.classes), data.test_share)
        is_test = choose_test(written, numbers, labels, shares, seed=0)
        corpus, _ = self._move_to_test(is_test)
        return replace(corpus, source=f"{self.source}, {data.test_share:.0%} drawn as test")

    def _move_to_test(self, is_test: Mask) -> tuple[Self, Order]:
        """The corpus with these rows and no others in test, and the old place of each of its rows.
        is_test: for all rows but those of val, which stand behind them."""
        split = self.rows.split.to_numpy(copy=True)
        split[: len(is_test)] = np.where(is_test, "test", "train")
        order = pd.Categorical(split, SPLITS).argsort(kind="stable")
        rows = self.rows.assign(split=split)
        return replace(self, rows=rows.iloc[order]), order


def make_corpus(rows: pd.DataFrame, source: str, files: FilesRead) -> Corpus:
    """Corpus of rows as they were read. Raises `UserError` unless each has a text, and a name or
    whole number as its label."""
    labels = [_read_label(value) for value in rows.label]
    is_text = [isinstance(value, str | np.ndarray) for value in rows.text]
    is_label = pd.notna(labels)
    for column, kind, is_right in (
        ("text", "texts", is_text),
        ("label", "names or whole numbers", is_label),
    ):
        wrong = rows[np.invert(is_right)]
        if len(wrong):
            values = join_names(map(repr, wrong[column]))
            raise UserError(
                f"{source}: column {column} must hold {kind}, but {len(wrong)} rows do not: "
                f"{values}, in {join_names(wrong.place)}. Mend or remove them, or name another "
                f"column: data.{column}=COLUMN."
            )
    names = _order_labels(set(labels), source)
    numbers = pd.Categorical(labels, names).codes
    label_type = np.min_scalar_type(-len(names))  # a signed one
    rows = rows.assign(label=numbers.astype(label_type))
    classes = SENTIMENTS if names in SYNONYMS else names
    return Corpus(rows=rows, classes=classes, written=names, source=source, files=files)


def _read_label(value: Any) -> Any:
    """Name of a label, 1 for 1.0; None for what is none."""
    name = str(value)
    whole = WHOLE_FLOAT.fullmatch(name)
    if whole:
        return whole[1]
    is_label = isinstance(value, int | str) and not NO_LABEL.fullmatch(name)
    return name if is_label else None


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
    if len(names) == 1:
        raise UserError(
            f"{corpus.source}: all {len(corpus.rows):,} texts have the label {join_names(names)}; "
            f"two classes are needed. Name the column of classes: data.label=COLUMN."
        )
    labels_of = corpus.rows.groupby("split", sort=False).label.agg(set)
    train_labels = labels_of.get("train", set())
    if "test" not in labels_of:
        raise UserError(
            f"{corpus.source}: of {len(names)} classes too few texts differ, so that none is in "
            f"test. Give more texts, a larger data.test_share, or another data.label=COLUMN."
        )
    advice = "add or relabel texts, or name other splits: data.train_split, data.test_split."
    for split, labels in labels_of.items():
        if len(labels) < 2 or labels - train_labels:
            if "-1" in names:  # as where the labels of a contest's test split are kept back
                advice = f"where -1 hides them, take another split: data.{split}_split=validation."
            listed = join_names(names[label] for label in sorted(labels))
            listed_of_train = join_names(names[label] for label in sorted(train_labels))
            raise UserError(
                f"{split} of {corpus.source} has the classes {listed}, train {listed_of_train}. "
                f"Each needs two or more, and train all: {advice}"
            )


def number_texts(rows: text.Texts) -> Numbers:
    """A number for each text, (n,), from 0 in the order of their first appearance, the same for
    texts of the same tokens, which no model can tell apart."""
    tokens = np.array([row.tobytes() for row in rows], object)
    numbers: Numbers = pd.factorize(tokens)[0]
    return numbers


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
        texts = pd.unique(text_of_row[shuffled])  # in the order of their first row there
        texts = texts[label_of_text[texts] == label]
        # test ends before the text where the number of its rows is nearest to the share
        *num_before, num_in_all = np.cumsum([0, *num_rows[texts]])
        distances = np.abs(num_before - shares[label] * num_in_all)
        num_texts = distances.argmin()
        is_test[texts[:num_texts]] = True
    return is_test[text_of_row]


def find_problems(corpus: Corpus, num_words: Numbers, numbers: Numbers) -> dict[str, int]:
    """What is questionable in texts, with how often; nothing that does not occur. num_words,
    numbers: of each row, (n,). Texts of one number read alike."""
    rows = corpus.rows.assign(number=numbers)
    with_words = rows[num_words > 0]
    counts = {}
    for other, split in combinations(SPLITS, 2):
        texts = with_words.number[with_words.split == split]
        other_texts = with_words.number[with_words.split == other]
        is_shared = texts.isin(other_texts)
        counts[f"{split} texts also occur in {other}"] = is_shared.sum()
    is_repeated = with_words.duplicated(["split", "number"])
    counts["texts repeat another of their split"] = is_repeated.sum()
    has_several = with_words.groupby("number").label.nunique() > 1
    counts["texts have both labels"] = has_several.sum()

    places = rows.place[num_words == 0]
    counts[f"texts hold no word: {join_names(places)}"] = len(places)
    missing = _find_missing(corpus.written)
    for label, name in enumerate(corpus.written):
        if name in missing:
            places = rows.place[rows.label == label]
            problem = f"labels are {name}, as where one is missing: {join_names(places)}"
            counts[problem] = len(places)

    classes = pd.Series(corpus.classes)
    num_texts = pd.crosstab(rows.label, rows.split)  # (C, splits)
    for split, most, amount in (("train", 1, "one text"), ("test", 0, "no text")):
        few = classes[num_texts[split] <= most]
        problem = f"of {len(classes)} classes with {amount} in {split}: {join_names(few)}"
        counts[problem] = len(few)

    # as where Chinese, which has no spaces, is split at spaces
    num_characters = rows.text.str.len()
    is_long = num_characters > 10 * num_words.clip(1)
    is_unsplit = is_long & (num_words < 3)
    if is_unsplit.mean() > 0.1:
        problem = "long texts have two tokens at most (is data.tokenizer right?)"
        counts[problem] = is_unsplit.sum()
    for names in find_twins(corpus.classes):
        listed = ", ".join(map(repr, names))
        problem = f"names of classes differ in space, case, zeros, quotes or encoding ({listed})"
        counts[problem] = len(names)
    return {problem: int(count) for problem, count in counts.items() if count}


def _find_missing(names: Classes) -> set[str]:
    """Names of classes that may stand for no label: by what programs write, and by the others."""
    missing = set(filter(MISSING.fullmatch, names))
    numbers = [int(name) for name in names if WHOLE.fullmatch(name)]
    if 2 * len(numbers) > len(names):
        missing.update(name for name in names if not NUMBER.match(name))
        if min(numbers) == -1 and max(numbers) > 1:  # -1, 0, 1 may be a scale
            missing.add("-1")
    return missing
