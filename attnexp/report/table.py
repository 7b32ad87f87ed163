"""Tables: records with their numbers, and how each column of them is printed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from attnexp.report.cells import NONE

CONTEXT = ("data", "protocol", "at", "metric", "n", "data sets")
"""Columns that are left out where they say the same in every row."""


def text_of(key: str) -> Callable[[Any], str]:
    """What prints the value of a record."""
    return lambda record: str(record[key])


@dataclass(frozen=True, kw_only=True)
class Table:
    """Records, and how they are printed: csv and JSON hold `frame`, all others `cells`."""

    title: str
    rows: Sequence[Any]  # differences, or records as dicts
    columns: dict[str, Callable[[Any], str]]  # by heading: the cell of a row
    spread: Callable[[Any], tuple[str, Any]] | None = None
    """Heading and cell of a record that shares its line with others, as means of metrics do."""

    @property
    def frame(self) -> pd.DataFrame:
        """The records, accuracies as shares, without the labels of endpoints."""
        frame = pd.DataFrame([getattr(row, "record", row) for row in self.rows])
        return frame.drop(columns="at", errors="ignore")

    @cached_property
    def cells(self) -> pd.DataFrame:
        """What is printed: texts, and `Mean`s."""
        lines: dict[Any, dict[str, Any]] = {}
        for number, row in enumerate(self.rows):
            line = {heading: show(row) for heading, show in self.columns.items()}
            if self.spread is None:
                lines[number] = line
            else:
                heading, cell = self.spread(row)
                lines.setdefault(tuple(line.values()), line)[heading] = cell
        frame = pd.DataFrame(list(lines.values())).fillna(NONE)
        unused = [name for name in frame if (frame[name] == NONE).all()]
        unused += [name for name in CONTEXT if name in frame and frame[name].nunique() == 1]
        return frame.drop(columns=unused)
