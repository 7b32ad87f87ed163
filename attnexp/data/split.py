"""A test split for a data set that has none."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def draw_test(texts: Sequence[str], labels: NDArray[np.integer], share: float) -> NDArray[np.bool_]:
    """Which rows are test, the same every time: (n,).

    Of every class its share, as nearly as can be where rows of one text stay on one side (the side
    of its first label) and some of every class remain to train on. labels: (n,) of 0 to C - 1.
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
