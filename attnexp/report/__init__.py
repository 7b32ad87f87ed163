"""Results for readers."""

from typing import Literal

TableName = Literal["differences", "epochs", "metrics", "classes", "across", "study"]
"""A table that `--table` takes. `tables.make_table` makes all but `study`, which is text."""
