"""A table, and how it is printed: words whole, numbers to the right, the verdict coloured."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd
from rich import box
from rich.console import Console, JustifyMethod
from rich.table import Table as RichTable
from rich.text import Text

from attnexp.base.errors import escape_name
from attnexp.report import Record
from attnexp.report.cells import NONE

CONTEXT_COLUMNS = ("data", "protocol", "at", "n", "data sets")  # which a title can say for all
STYLES = {"helps": "green", "hurts": "red", "equivalent": "cyan"}  # by the verdict's first word
TEXT_COLUMNS = {*CONTEXT_COLUMNS, *"variant difference verdict class run state settings".split()}


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table: csv and JSON hold the numbers of `frame`, all others show the texts of `cells`."""

    title: str
    frame: pd.DataFrame  # accuracies as shares
    lines: Sequence[Record]  # texts by heading
    context: Sequence[str] = CONTEXT_COLUMNS  # columns that are left out where all lines agree

    @cached_property
    def cells(self) -> pd.DataFrame:
        """The lines, without columns that say nothing, or nothing but what the title says."""
        cells = pd.DataFrame(self.lines).fillna(NONE).map(escape_name).rename(columns=escape_name)
        is_empty = (cells == NONE).all()
        is_context = cells.columns.isin(self.context)
        is_in_title = is_context & (cells.nunique() == 1)
        return cells.loc[:, ~(is_empty | is_in_title)]


def print_table(table: Table, console: Console) -> None:
    """Print a table with its title. Texts that are too wide for the terminal fold at blanks."""
    shown = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for name in table.cells:
        is_text = name in TEXT_COLUMNS
        side: JustifyMethod = "left" if is_text else "right"
        shown.add_column(name, justify=side, no_wrap=not is_text, overflow="fold")
    texts = table.cells.map(Text)
    for verdict in texts.get("verdict", []):
        first_word, *_ = verdict.plain.split(" ")
        verdict.stylize(STYLES.get(first_word, ""))
    for row in texts.to_numpy():
        shown.add_row(*row)
    console.print(table.title, shown, "", sep="\n")
