"""A table, and how it is printed: words whole, numbers to the right, the verdict coloured."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd
from rich import box
from rich.cells import cell_len
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
        unused = [name for name in cells if (cells[name] == NONE).all()]
        unused += [name for name in self.context if name in cells and cells[name].nunique() == 1]
        return cells.drop(columns=unused)


def print_table(table: Table, console: Console) -> None:
    """Print a table with its title. Cells that are too wide for the terminal fold at blanks."""
    cells = table.cells
    full = {name: max(map(cell_len, [name, *cells[name]])) for name in cells}
    num_gaps = len(full) - 1
    room = console.width - num_gaps  # SIMPLE_HEAD puts one blank into a gap.
    fits_loosely = sum(full.values()) + num_gaps <= room  # with a second blank in each gap
    widths = full if fits_loosely else _choose_widths(cells, full, room)
    padding = (0, 1 if fits_loosely else 0, 0, 0)
    shown = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=padding)
    for name in cells:
        side: JustifyMethod = "left" if name in TEXT_COLUMNS else "right"
        shown.add_column(name, justify=side, overflow="fold", width=widths.get(name))
    for row in cells.to_dict("records"):
        shown.add_row(*[_colour(text, name) for name, text in row.items()])
    console.print(table.title, shown, "", sep="\n")


def _colour(text: str, column: str) -> Text:
    first_word = text.split(" ")[0]
    style = STYLES.get(first_word, "") if column == "verdict" else ""
    return Text(text, style)


def _choose_widths(cells: pd.DataFrame, full: dict[str, int], room: int) -> dict[str, int]:
    """Widths of columns, by name, of `room` in all; full: what they would take on one line. Every
    word is whole, and so is every number with its blanks if that fits. Rich would break words."""
    longest_word = {}
    for name in cells:
        words = " ".join([name, *cells[name]]).split()
        longest_word[name] = max(map(cell_len, words))
    widths = {name: longest_word[name] if name in TEXT_COLUMNS else full[name] for name in cells}
    if sum(widths.values()) > room:
        widths = longest_word
    spare = room - sum(widths.values())
    if spare < 0:  # Words must break: in the last of the widest columns, or else as rich likes.
        column = max(reversed(widths), key=widths.__getitem__)
        widths[column] += spare
        return widths if widths[column] > 0 else {}
    for _ in range(spare):
        most_folded = max(widths, key=lambda name: full[name] / widths[name])
        widths[most_folded] += 1
    return widths
