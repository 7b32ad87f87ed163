"""A table, and how it is printed: words whole, numbers to the right, the verdict coloured."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from attnexp.base.errors import escape_name
from attnexp.report.cells import NONE

CONTEXT = ("data", "protocol", "at", "n", "data sets")
"""Columns that are left out where they say the same in every row: a title says it."""
STYLES = {"helps": "green", "hurts": "red", "equivalent": "cyan"}  # by the verdict's first word
TEXTS = {*CONTEXT, "variant", "difference", "verdict", "class", "run", "state", "settings"}


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table: csv and JSON hold the numbers of `frame`, all others show the texts of `cells`."""

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


def print_table(table: Table, console: Console) -> None:
    """Print a table with its title. Cells that are too wide for the terminal fold at blanks."""
    cells = table.cells.map(escape_name).rename(columns=escape_name)
    widest = {name: _longest([name, *cells[name]]) for name in cells}
    blanks = 2 * (len(widest) - 1)
    has_room = sum(widest.values()) + blanks <= console.width
    widths = widest if has_room else _choose_widths(cells, widest, console.width)
    # SIMPLE_HEAD puts one blank between columns; where there is room for two, padding adds one.
    padding = (0, 1 if has_room else 0, 0, 0)
    shown = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=padding)
    for name in cells:
        shown.add_column(
            name,
            justify="left" if name in TEXTS else "right",
            overflow="fold",
            width=widths.get(name),
        )
    for row in cells.to_dict("records"):
        shown.add_row(*[_colour(text, name) for name, text in row.items()])
    console.print(table.title, shown, "", sep="\n")


def _colour(text: str, column: str) -> Text:
    """A cell, coloured where it is a verdict that is decided."""
    first_word = text.split(" ")[0]
    style = STYLES.get(first_word, "") if column == "verdict" else ""
    return Text(text, style)


def _choose_widths(cells: pd.DataFrame, widest: dict[str, int], total: int) -> dict[str, int]:
    """Widths of columns, by name, in which every word is whole, and every number in one line if
    that fits. Where words are too wide, the last of the widest columns gets what is left, and rich
    breaks it; none if nothing is left. Left to itself, rich breaks words in other columns, too."""
    narrowest = {}
    for name in cells:
        text = " ".join([name, *cells[name]])
        narrowest[name] = _longest(text.split())
    room = total - len(narrowest) + 1  # one blank between columns
    with_whole_numbers = narrowest | {name: widest[name] for name in {*cells} - TEXTS}
    fits = sum(with_whole_numbers.values()) <= room
    widths = with_whole_numbers if fits else narrowest
    spare = room - sum(widths.values())
    if spare < 0:
        column = max(reversed(widths), key=widths.__getitem__)
        widths[column] += spare
        return widths if widths[column] > 0 else {}
    for _ in range(spare):
        most_folded = max(widths, key=lambda name: widest[name] / widths[name])
        widths[most_folded] += 1
    return widths


def _longest(texts: list[str]) -> int:
    return max(map(cell_len, texts))
