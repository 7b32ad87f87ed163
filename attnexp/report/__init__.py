"""Results for readers."""

from typing import Any, Literal

TableName = Literal["differences", "epochs", "metrics", "classes", "across", "study"]
"""A table that `--table` takes. `tables.make_table` makes all but `study`, which is text."""
Record = dict[str, Any]  # by key: a row, a part of the JSON document, a style
