"""A data set as it is read, and what every form of it must hold."""

import reprlib
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnexp.data.quality import BYTE_ORDER_MARKS, Quality, found
from attnexp.data.text import Ragged
from attnexp.errors import UserError

SPLITS = ("train", "test")
SENTIMENTS = ("negative", "positive")
"""The classes of reviews, and of whatever is labelled 0 and 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """One half of a data set: n reviews and their labels."""

    reviews: list[str] | Ragged
    """Texts; or, from Keras's file, word ranks."""
    labels: NDArray[np.integer]
    """(n,) of 0 to C - 1; int8 where C fits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    """A data set."""

    train: Split
    test: Split
    classes: tuple[str, ...] = SENTIMENTS
    """C names, in the order of their labels."""
    quality: Quality = field(default_factory=dict)
    """What reading found to question."""


def corpus(
    halves: Mapping[str, tuple[list[str] | Ragged, list[Any]]],
    where: Path,
    counts: Mapping[str, int] | None = None,
) -> Corpus:
    """Both splits, checked, from (reviews, labels) by name. Raises `UserError` where they fail.

    counts: what reading found to question, by the names of `quality`.
    """
    marks = sum(_without_marks(reviews) for reviews, _ in halves.values())
    train, test = (_split(*halves[split], where=f"{split} in {where}") for split in SPLITS)
    counts = {**(counts or {}), BYTE_ORDER_MARKS: marks}
    return Corpus(train=train, test=test, quality=found(counts))


def _without_marks(reviews: list[str] | Ragged) -> int:
    """Take byte order marks from the beginning of texts, where they would be part of a word."""
    if isinstance(reviews, Ragged):
        return 0
    marked = [row for row, text in enumerate(reviews) if text.startswith("\ufeff")]
    for row in marked:
        reviews[row] = reviews[row].removeprefix("\ufeff")
    return len(marked)


def _split(reviews: list[str] | Ragged, labels: list[Any], *, where: str) -> Split:
    """What every format must hold; `UserError` if it does not."""
    if not reviews:
        raise UserError(f"{where} holds no reviews. Both train and test are needed, whole.")
    if len(reviews) != len(labels):
        raise UserError(
            f"{where} holds {len(reviews)} reviews but {len(labels)} labels. Fetch it again."
        )
    if strange := {row: label for row, label in enumerate(labels) if label not in (0, 1)}:
        row = next(iter(strange))
        values = ", ".join(sorted({reprlib.repr(label) for label in strange.values()})[:5])
        raise UserError(
            f"{where}: labels must be 0 (negative) or 1 (positive), but {len(strange)} are not: "
            f"{values}, first in row {row}. Recode them, or remove these rows."
        )
    if len(held := set(labels)) < 2:
        raise UserError(
            f"{where}: every review is labelled {held.pop()}. Both 0 (negative) and 1 (positive) "
            f"are needed."
        )
    return Split(reviews=reviews, labels=np.array(labels, np.int8))


@contextmanager
def as_user_error(what: Path | str) -> Iterator[None]:
    """Turn what an unreadable or damaged file raises into a `UserError`."""
    try:
        yield
    except UserError:
        raise
    except (
        OSError,
        ValueError,
        EOFError,
        zlib.error,
        tarfile.TarError,
        zipfile.BadZipFile,
    ) as error:
        if isinstance(error, OSError) and error.errno:
            raise UserError(
                f"{error.filename or what} cannot be read: {error.strerror}. Check that it is "
                f"complete and that you may read it."
            ) from None
        raise UserError(
            f"{what} is damaged or incomplete ({str(error).partition(chr(10))[0]}). Fetch it again."
        ) from None
