"""Names of the tables that `--table` takes, which `tables.make_table` makes."""

from enum import StrEnum


class TableName(StrEnum):
    """A table of an answer."""

    differences = "differences"
    epochs = "epochs"
    metrics = "metrics"
    classes = "classes"
    within = "within"
    across = "across"
