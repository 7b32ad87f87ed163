"""Tables: records with their numbers, and how each column of them is printed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from attnexp.report.cells import NONE

CONTEXT = ("data", "protocol", "at", "metric", "n")
"""Columns that are left out where they say the same in every row."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Records, and how they are printed: csv and JSON hold `frame`, all others `cells`."""

    title: str
    rows: Sequence[Any]  # differences, or tuples of a frame
    columns: dict[str, Callable[[Any], str]]  # by heading: a cell of a record
    across: Callable[[Any], tuple[str, Any]] | None = None
    """Heading and cell of a record that shares its row with others, as means of metrics do."""

    @property
    def frame(self) -> pd.DataFrame:
        """The records, accuracies as shares."""
        return pd.DataFrame([getattr(row, "record", row) for row in self.rows])

    @property
    def cells(self) -> pd.DataFrame:
        """What is printed: texts, and `Mean`s."""
        printed: dict[Any, dict[str, Any]] = {}
        for number, row in enumerate(self.rows):
            about = {heading: show(row) for heading, show in self.columns.items()}
            if self.across is None:
                printed[number] = about
            else:
                heading, cell = self.across(row)
                printed.setdefault(tuple(about.values()), about)[heading] = cell
        frame = pd.DataFrame(list(printed.values())).fillna(NONE)
        unused = [name for name in frame if (frame[name] == NONE).all()]
        unused += [name for name in CONTEXT if name in frame and frame[name].nunique() == 1]
        return frame.drop(columns=unused)
