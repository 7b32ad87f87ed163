"""Corpus: a data set as it is read, and the checks that every source must pass."""

import re
import reprlib
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnexp.base.errors import UserError
from attnexp.data.cache import DAMAGED
from attnexp.data.text import Ragged

SPLITS = ("train", "test")
SENTIMENTS = ("negative", "positive")
"""The classes of reviews, and of whatever is labelled by `SYNONYMS`."""
SYNONYMS = (("0", "1"), ("neg", "pos"), ("False", "True"), ("false", "true"))
MAX_CLASSES = 1000
WHOLE, FRACTION = re.compile(r"0|-?[1-9][0-9]*"), re.compile(r"-?\d*\.\d+(e-?\d+)?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """One half of a data set: n texts and their labels."""

    texts: list[str] | Ragged
    """Texts; or, from Keras's file, word ranks."""
    labels: NDArray[np.integer]
    """(n,) of 0 to C - 1; int8 where C fits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    """Data set with two splits."""

    train: Split
    test: Split
    classes: tuple[str, ...] = SENTIMENTS
    """C names, in the order of their labels."""
    written: tuple[str, ...] = SENTIMENTS
    """The C labels as the files write them, such as 0 and 1."""
    is_drawn: bool = False
    """Whether test was drawn from train, since the source has no test split."""


def corpus(
    halves: Mapping[str, tuple[list[str] | Ragged, list[Any]]],
    where: Path,
    test_share: float | None = None,
) -> Corpus:
    """Corpus from (texts, labels) of each split, checked. Raises `UserError` if it is not usable.

    test_share: share of train that is drawn as test if `halves` has no test.
    """
    for split, (texts, labels) in halves.items():
        _check(texts, labels, f"{split} in {where}")
    written, splits = _classes(halves, where)
    classes = SENTIMENTS if written in SYNONYMS else written
    if is_drawn := "test" not in splits:
        train = splits["train"]
        assert test_share is not None
        assert isinstance(train.texts, list)
        is_test = draw_test(train.texts, train.labels, test_share)
        splits = {
            name: Split(texts=[*compress(train.texts, rows)], labels=train.labels[rows])
            for name, rows in zip(SPLITS, (~is_test, is_test), strict=True)
        }
    for split in SPLITS:
        if len(held := np.unique(splits[split].labels)) < 2:
            if is_drawn and split == "test":  # copies of a text stay together
                raise UserError(
                    f"{where} has too few different texts of its classes for a test set of "
                    f"data.test_share={test_share:g}. Give more texts, a larger share, or a test "
                    f"split."
                )
            all_of_it = f"every text is labelled {classes[held[0]]}" if len(held) else "it is empty"
            raise UserError(f"{split} in {where}: {all_of_it}. Two classes or more are needed.")
    if alone := set(np.unique(splits["test"].labels)) - set(np.unique(splits["train"].labels)):
        raise UserError(
            f"{where}: no text of train is labelled {_some(classes[i] for i in sorted(alone))}, "
            f"as some of test are. Both need the same labels."
        )
    return Corpus(
        train=splits["train"],
        test=splits["test"],
        classes=classes,
        written=written,
        is_drawn=is_drawn,
    )


def _check(texts: list[str] | Ragged, labels: list[Any], where: str) -> None:
    """Raise `UserError` unless there are texts, and a name or whole number as label of each."""
    if not texts:
        raise UserError(f"{where} holds no texts.")
    if len(texts) != len(labels):
        raise UserError(
            f"{where} holds {len(texts)} texts but {len(labels)} labels. Fetch it again."
        )
    wrong = [
        row
        for row, one in enumerate(labels)
        if not isinstance(one, int | str) or one == "" or FRACTION.fullmatch(str(one))
    ]
    if wrong:
        values = _some(sorted({reprlib.repr(labels[row]) for row in wrong}))
        raise UserError(
            f"{where}: labels must be names or whole numbers, but {len(wrong)} are not: {values}, "
            f"in {in_rows(wrong)}. Recode them, remove these rows, or name another column: "
            f"data.label=COLUMN."
        )


def _classes(
    halves: Mapping[str, tuple[list[str] | Ragged, list[int | str]]], where: Path
) -> tuple[tuple[str, ...], dict[str, Split]]:
    """Distinct labels in order, and the splits with labels as indices into them.

    Labels are ordered as numbers if all are whole numbers as Python writes them, else as names.
    """
    written = {split: [*map(str, labels)] for split, (_, labels) in halves.items()}
    values = set(chain(*written.values()))
    order = sorted(values, key=int if all(map(WHOLE.fullmatch, values)) else str)
    if len(order) > MAX_CLASSES:
        raise UserError(
            f"{where}: {len(order):,} labels differ, such as {_some(order)}; at most "
            f"{MAX_CLASSES:,} may. Name the column of classes: data.label=COLUMN."
        )
    label_of = {value: label for label, value in enumerate(order)}
    dtype = np.min_scalar_type(-len(order))
    return tuple(order), {
        split: Split(texts=texts, labels=np.array([*map(label_of.get, written[split])], dtype))
        for split, (texts, _) in halves.items()
    }


def draw_test(texts: Sequence[str], labels: NDArray[np.integer], share: float) -> NDArray[np.bool_]:
    """Mask of the rows drawn for test, (n,); the same every time.

    The draw is stratified by class as closely as possible: equal texts stay on one side (that of
    the first one's label), and every class keeps rows in train. labels: (n,) of 0 to C - 1.
    """
    number: dict[str, int] = {}
    text_of = np.array([number.setdefault(text, len(number)) for text in texts])
    _, first, sizes = np.unique(text_of, return_index=True, return_counts=True)
    random = np.random.default_rng(0)
    is_test = np.zeros(len(number), bool)
    for label in np.unique(labels):
        drawn = random.permutation(np.flatnonzero(labels[first] == label))
        ends = np.cumsum([0, *sizes[drawn]])
        if len(drawn):
            is_test[drawn[: np.abs(ends[:-1] - share * ends[-1]).argmin()]] = True
    rows: NDArray[np.bool_] = is_test[text_of]
    return rows


def _some(values: Iterable[object]) -> str:
    """First five values, as text."""
    shown = [*map(str, values)]
    return ", ".join(shown[:5]) + (", ..." if shown[5:] else "")


def in_rows(rows: Sequence[int]) -> str:
    """`row 3`, or `rows 3, 4, 5 and 2 more`; the first row of a table is row 0."""
    shown = ", ".join(map(str, rows[:5])) + (f" and {len(rows) - 5:,} more" if rows[5:] else "")
    return f"row{'s' if rows[1:] else ''} {shown}"


@contextmanager
def as_user_error(what: Path | str) -> Iterator[None]:
    """Turn exceptions of reading an unreadable or damaged file into a `UserError`."""
    try:
        yield
    except UserError:
        raise
    except (*DAMAGED, RecursionError, zlib.error, tarfile.TarError) as error:
        if isinstance(error, OSError) and error.errno:
            raise UserError(
                f"{error.filename or what} cannot be read: {error.strerror}. Check that it is "
                f"complete and that you may read it."
            ) from None
        raise UserError(
            f"{what} is damaged or incomplete ({str(error).partition(chr(10))[0]}). Fetch or make "
            f"it again."
        ) from None
