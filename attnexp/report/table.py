"""Tables: their names, and what they are."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    import pandas as pd

TableName = Literal["differences", "epochs", "metrics", "classes", "within", "across", "study"]
"""A table that `--table` takes, and `tables.make_table` makes."""


class Table(NamedTuple):
    """A table of texts, and the numbers that it shows, one record a number or difference."""

    title: str
    frame: "pd.DataFrame"
    numbers: "pd.DataFrame | None" = None


def drop_constant(frame: "pd.DataFrame", columns: Sequence[str]) -> "pd.DataFrame":
    """The frame without those of the columns that say the same in every row."""
    constant = [name for name in columns if name in frame and frame[name].nunique() == 1]
    return frame.drop(columns=constant)
