"""A table, and how it is printed: no word is broken that fits, numbers to the right, the verdict
coloured. csv and JSON hold its numbers, everything else shows its texts."""

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
"""Columns that are left out where they say the same in every row."""
STYLES = {"helps": "green", "hurts": "red", "equivalent": "cyan"}  # by the verdict's first word
TEXTS = {*CONTEXT, "variant", "difference", "verdict", "class", "run", "state", "settings"}


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


def print_table(table: Table, console: Console) -> None:
    """Print a table with its title. Cells that are too wide for the terminal fold at blanks."""
    cells = table.cells.map(escape_name).rename(columns=escape_name)
    widest = {name: _longest([name, *cells[name]]) for name in cells}
    gaps = 2 * len(widest) - 2
    has_room = sum(widest.values()) + gaps <= console.width
    widths = widest if has_room else _choose_widths(cells, widest, console.width)
    shown = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    shown.padding = (0, 1, 0, 0) if has_room else 0  # a second blank, beside the box's
    for name in cells:
        shown.add_column(
            name,
            justify="left" if name in TEXTS else "right",
            overflow="fold",
            width=widths.get(name),
        )
    for row in cells.to_numpy():
        shown.add_row(*map(_colour, row))
    console.print(table.title, shown, "", sep="\n")


def _colour(text: str) -> Text:
    """A cell, coloured where it is a verdict that is decided."""
    first_word = text.split(" ")[0]
    return Text(text, STYLES.get(first_word, ""))


def _choose_widths(cells: pd.DataFrame, widest: dict[str, int], total: int) -> dict[str, int]:
    """Widths of columns, by name, in which every word is whole, and every number in one line if
    that fits. Where words are too wide, the widest column gets what is left, and rich breaks it;
    none if nothing is left. Left to itself, rich breaks words in other columns, too."""
    words = {}
    for name in cells:
        text = " ".join([name, *cells[name]])
        words[name] = _longest(text.split())
    room = total - len(words) + 1  # one blank between columns
    widths = words | {name: widest[name] for name in {*cells} - TEXTS}
    if sum(widths.values()) > room:
        widths = words
    spare = room - sum(widths.values())
    if spare < 0:
        widest_words = max(reversed(widths), key=widths.__getitem__)  # settings rather than ids
        widths[widest_words] += spare
        return widths if widths[widest_words] > 0 else {}
    for _ in range(spare):  # to the column that folds into the most lines
        tightest = max(widths, key=lambda name: widest[name] / widths[name])
        widths[tightest] += 1
    return widths


def _longest(texts: list[str]) -> int:
    return max(map(cell_len, texts))
