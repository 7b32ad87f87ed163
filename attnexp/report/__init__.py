"""Results for readers."""

from typing import Literal

TableName = Literal["differences", "epochs", "metrics", "classes", "within", "across", "study"]
"""A table that `--table` takes, and `tables.make_table` makes."""
