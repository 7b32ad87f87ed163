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
from attnexp.data.read import Frames, read_splits
from attnexp.data.sources import locate_source, open_source

SPLITS = ("train", "test", "val")
SENTIMENTS = ("negative", "positive")
"""The classes of reviews, and of whatever is labelled by `SYNONYMS`."""
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
NO_LABEL = re.compile(r"|-?\d*\.\d+(e-?\d+)?")
"""A blank label, or a fraction."""

Classes = tuple[str, ...]
"""Names of classes, in the order of their labels."""
FilesRead = dict[str, Any]
"""By split: its files and the number of its texts, as a result keeps them."""
Numbers = NDArray[np.integer]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    """Data set with its classes."""

    rows: pd.DataFrame
    """A row for each text: split (train, then test, then val), text, label (0 to C - 1; int8 where
    C fits), and place (where it stands, for messages); once tokenized also tokens (an array of
    numbers of words) and same (one number for texts of the same tokens)."""
    words: list[str] = field(default_factory=list)  # of which `tokens` are the numbers, from 1
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

    def tokenize(self, config: DataConfig) -> Self:
        """The corpus with its tokens. Raises `UserError` where a split has none."""
        function = text.tokenizer_of(config)
        tracked = progress.track(list(self.rows.text), "encoding")
        tokens, words = text.number_words(tracked, function)
        for split, part in self.parts.items():
            if not any(row.size for row in tokens[part]):
                raise UserError(
                    f"data.tokenizer={config.tokenizer} finds no word in {split} of {self.source}. "
                    f"Give texts of words, or another tokenizer."
                )
        same, _ = pd.factorize(np.array([row.tobytes() for row in tokens], object))
        tokens = pd.Series(tokens, self.rows.index, object)
        return replace(self, rows=self.rows.assign(tokens=tokens, same=same), words=words)

    def redraw(self, seed: int) -> Self:
        """The corpus with train and test drawn anew from their union. Of every class both keep
        their share, as nearly as equal texts allow."""
        rows = self.rows[self.rows.split != "val"]  # which stands behind the others
        was_test = rows.split == "test"
        shares = was_test.groupby(rows.label).mean().to_numpy()
        same, _ = pd.factorize(rows.same)
        return self._move_to_test(choose_test(same, same, rows.label.to_numpy(), shares, seed))

    def draw_test(self, share: float) -> Self:
        """The corpus with a share of train, all that it has but for val, drawn as test."""
        train = self.rows[self.rows.split == "train"]
        written, _ = pd.factorize(train.text)
        shares = np.full(len(self.classes), share)
        is_test = choose_test(
            written, train.same.to_numpy(), train.label.to_numpy(), shares, seed=0
        )
        corpus = self._move_to_test(is_test)
        # Of equally frequent words the first one in train ranks first, as in a corpus read so.
        tokens, words = renumber(list(corpus.rows.tokens), self.words)
        tokens = pd.Series(tokens, corpus.rows.index, object)
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
        num_texts = rows.split.value_counts(sort=False)
        files = {key: {"files": ["generated"], "texts": int(n)} for key, n in num_texts.items()}
        return Corpus(rows=rows, files=files)
    source = locate_source(data)
    path, title = open_source(source)
    splits = read_splits(path, data, is_hub=source.path is None)
    files = {}
    for split, frames in splits.items():
        num_texts = sum(map(len, frames.values()))
        files[split] = {"files": [*frames], "texts": num_texts}
        if not num_texts:
            raise UserError(f"{title}: {join_names(frames)}, the {split} split, holds no texts.")
    parts = [
        f"{split}: {join_names(read['files'])}, {read['texts']:,} texts"
        for split, read in files.items()
    ]
    progress.note(f"Read {'; '.join(parts)}.")
    columns = choose_columns(next(iter(splits["train"].values())), title, data)
    if columns not in ([data.text, data.label], ["text", "label"]):
        progress.note("Column {} is the text, {} the label.".format(*map(join_names, zip(columns))))
    return make_corpus(join_rows(splits, columns), title, files)


def choose_columns(rows: pd.DataFrame, source: str, data: DataConfig) -> list[str]:
    """Columns of texts and of labels: those of the config, or else the one with a common name.
    Raises `UserError` where there is none, or more than one."""
    settings = {"text": data.text, "label": data.label}
    free = [name for name in rows if name not in settings.values()]
    columns = []
    for key, setting in settings.items():
        exact = [name for name in free if name.lower() == key]
        common = [name for name in free if name.lower() in COMMON[key]]
        found = [name for name in rows if name == setting] if setting else exact or common
        if len(found) != 1:
            what = f"named {join_names([setting])}" if setting else f"that is plainly the {key}"
            message = (
                f"{source} has no column {what}; its columns are {join_names(rows)}. Name it: "
                f"data.{key}=COLUMN. If these are no names, but the first row of a csv, count "
                f"columns from 0: data.header=false data.text=NUMBER data.label=NUMBER."
            )
            if key == "label":
                message += " For texts without labels there is `attnexp predict`."
            raise UserError(message)
        columns += found
    return columns


def join_rows(splits: dict[str, Frames], columns: list[str]) -> pd.DataFrame:
    """Rows of all files: split, text, label, and place, for messages. columns: names of those of
    texts and labels. Raises `UserError` where a file lacks one."""
    parts = []
    for split, frames in splits.items():
        for name, frame in frames.items():
            missing = [column for column in columns if column not in frame]
            if missing:
                raise UserError(
                    f"{name} of {split} has no column {join_names(missing)}; its columns are "
                    f"{join_names(frame)}. Rename one, or name another split: "
                    f"data.{split}_split=NAME. Without any test split a share of train is drawn."
                )
            part = frame[columns].astype(object).set_axis(["text", "label"], axis=1)
            place = [f"row {number} of {name}" for number in range(1, len(frame) + 1)]
            parts.append(part.assign(split=split, place=place))
    return pd.concat(parts, ignore_index=True)


def make_corpus(rows: pd.DataFrame, source: str, files: FilesRead) -> Corpus:
    """Corpus of rows as they were read. Raises `UserError` unless each has a text, and a name or
    whole number as its label."""
    labels = [_read_label(value) for value in rows.label]
    is_text = [isinstance(value, str) for value in rows.text]
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
    name = str(value).strip()
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
        texts = pd.unique(text_of_row[shuffled])  # in the order of their first row there
        texts = texts[label_of_text[texts] == label]
        # test ends before the text where the number of its rows is nearest to the share
        *num_before, num_in_all = np.cumsum([0, *num_rows[texts]])
        distances = np.abs(num_before - shares[label] * num_in_all)
        num_texts = distances.argmin()
        is_test[texts[:num_texts]] = True
    return is_test[text_of_row]
