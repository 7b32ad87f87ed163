"""Tables: numbers for csv and JSON, texts for everything else."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from attnexp.report.cells import NONE

CONTEXT = ("data", "protocol", "at", "n", "data sets")
"""Columns that are left out where they say the same in every row."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table: csv and JSON hold `frame`, all others show `cells`."""

    title: str
    frame: pd.DataFrame  # accuracies as shares
    lines: Sequence[dict[str, Any]]  # texts by heading

    @cached_property
    def cells(self) -> pd.DataFrame:
        """The lines, without columns that say nothing."""
        cells = pd.DataFrame(self.lines).fillna(NONE)
        unused = [name for name in cells if (cells[name] == NONE).all()]
        unused += [name for name in CONTEXT if name in cells and cells[name].nunique() == 1]
        return cells.drop(columns=unused)
