"""Corpus: a data set as it is read, the checks it must pass, and questions about it."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd  # noqa: TID253 - this module is imported where data are read
from numpy.typing import NDArray

from attnexp.base.errors import UserError, check_name
from attnexp.data.text import Ragged

SPLITS = ("train", "test", "val")
SENTIMENTS = ("negative", "positive")
"""The classes of reviews, and of whatever is labelled by `SYNONYMS`."""
SYNONYMS = (("0", "1"), ("neg", "pos"), ("False", "True"), ("false", "true"))
MAX_CLASSES = 1000
WHOLE, NO_LABEL = re.compile(r"0|-?[1-9][0-9]*"), re.compile(r"\s*|-?\d*\.\d+(e-?\d+)?")


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

    @property
    def parts(self) -> dict[str, slice]:
        """Where each split lies in the rows."""
        ends = self.rows.split.value_counts(sort=False).cumsum()
        bounds = pairwise([0, *ends])
        return {split: slice(*part) for split, part in zip(ends.index, bounds, strict=True)}


def make_corpus(rows: pd.DataFrame, source: str, test_share: float) -> Corpus:
    """Corpus of rows as they were read; of train, `test_share` is drawn as test if there is none.
    Raises `UserError` where that is no set of labelled texts."""
    _check(rows, source)
    written = rows.label.map(str)
    values = {*written}
    names = tuple(sorted(values, key=int if all(map(WHOLE.fullmatch, values)) else str))
    if len(names) > MAX_CLASSES:
        raise UserError(
            f"{source}: {len(names):,} labels differ, such as {some(names)}; at most "
            f"{MAX_CLASSES:,} may. Name the column of classes: data.label=COLUMN."
        )
    number = {check_name(name, f"A class of {source}"): label for label, name in enumerate(names)}
    rows = rows.assign(label=written.map(number).astype(np.min_scalar_type(-len(names))))
    if is_drawn := "test" not in {*rows.split}:
        train = rows[rows.split == "train"]
        is_test = draw_test(train.text, train.label.to_numpy(), test_share)
        rows.loc[train.index[is_test], "split"] = "test"
        rows = rows.sort_values("split", kind="stable", key=lambda split: split.map(SPLITS.index))
        source = f"{source}, {test_share:.0%} drawn as test"
    held = rows.groupby("split").label.unique()
    for split, labels in {"test": (), **held}.items():  # of too few texts none may be drawn
        if len(labels) < 2 or {*labels} - {*held["train"]}:
            raise UserError(
                f"{split} of {source} has the classes {some(names[i] for i in labels)}, train "
                f"{some(names[i] for i in held['train'])}. Each needs two or more, and train all. "
                f"Where -1 alone hides them, take another split: data.{split}_split=validation."
            )
    classes = SENTIMENTS if names in SYNONYMS else names
    return Corpus(rows=rows, classes=classes, written=names, source=source, is_drawn=is_drawn)


def _check(rows: pd.DataFrame, source: str) -> None:
    """Raise `UserError` unless each row has a text, and a name or whole number as its label."""
    if rows.empty:
        raise UserError(f"{source} holds no texts.")
    is_text = [isinstance(text, str | np.ndarray) for text in rows.text]
    is_label = [isinstance(x, int | str) and not NO_LABEL.fullmatch(str(x)) for x in rows.label]
    wanted = {"text": ("texts", is_text), "label": ("names or whole numbers", is_label)}
    for column, (kind, is_right) in wanted.items():
        wrong = rows.assign(row=rows.groupby("split").cumcount())[np.invert(is_right)]
        if len(wrong):
            raise UserError(
                f"{source}: column {column} must hold {kind}, but {len(wrong)} rows do not: "
                f"{some(map(repr, wrong[column]))}, in row {some(wrong.row)} of "
                f"{some(wrong.split.unique())}. Mend or remove them, or name another column: "
                f"data.{column}=COLUMN."
            )


def draw_test(texts: Sequence[str], labels: NDArray[np.integer], share: float) -> NDArray[np.bool_]:
    """Mask of the rows drawn for test, (n,); the same every time.

    The draw is stratified by class as closely as possible: equal texts stay on one side (that of
    the first one's label), and every class keeps rows in train. labels: (n,) of 0 to C - 1.
    """
    text_of, distinct = pd.factorize(np.asarray(texts, object))
    _, first, sizes = np.unique(text_of, return_index=True, return_counts=True)
    random = np.random.default_rng(0)
    is_test = np.zeros(len(distinct), bool)
    for label in np.unique(labels[first]):
        drawn = random.permutation(np.flatnonzero(labels[first] == label))
        ends = np.cumsum([0, *sizes[drawn]])
        is_test[drawn[: np.abs(ends[:-1] - share * ends[-1]).argmin()]] = True
    return is_test[np.asarray(text_of, np.intp)]


def find_problems(corpus: Corpus, ranks: Ragged) -> dict[str, int]:
    """What is questionable in texts of these ranks, with how often; nothing that is not found."""
    rows, num_words, n = corpus.rows, np.diff(ranks.offsets), len(corpus.rows)
    known = rows[num_words > 0]
    in_train = {*known.text[known.split == "train"]}
    few = ((num_words < 3) & (rows.text.str.len() > 10 * num_words.clip(1))).sum()
    counts = {
        "test texts also occur in train": known.text[known.split == "test"].isin(in_train).sum(),
        "texts have both labels": (known.groupby("text").label.nunique() > 1).sum(),
        "texts hold no word": n - len(known),
        "long texts have two tokens at most (is data.tokenizer right?)": few * (10 * few > n),
    }
    alike = defaultdict[str, list[str]](list)
    for name in corpus.classes:
        alike["".join(name.split()).casefold()].append(repr(name))
    what = "names of classes differ in space or case alone"
    counts |= {f"{what} ({', '.join(own)})": len(own) for own in alike.values() if len(own) > 1}
    return {what: int(count) for what, count in counts.items() if count}


def some(names: Iterable[object]) -> str:
    """First five names, of a length that can be read, with what a terminal cannot show escaped."""
    shown = [name if name.isprintable() else ascii(name)[1:-1] for name in map(str, names)]
    return ", ".join(name[:99] for name in shown[:5]) + (", ..." if shown[5:] else "")
