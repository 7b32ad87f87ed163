"""Tables in a terminal: how columns share its width, and what gives way where they do not fit.

Nothing breaks within a word while a heading could take a column's place or a cell could wrap
between its words.
"""

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Literal

import pandas as pd
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from attnexp.base.errors import escape_name
from attnexp.report.difference_tables import CONTEXT
from attnexp.report.table import Table

VERDICT_STYLES = {"helps": "green", "hurts": "red", "equivalent": "cyan"}

TEXTS = {*CONTEXT, "variant", "difference", "verdict", "class", "run", "state", "settings"}
TEXTS |= {"data set", "intervention"}
"""Columns that stand to the left; all others are numbers."""

VERDICT_WIDTH = 12  # down to which a verdict wraps before anything else does

INDENT = "  "  # of rows below a heading

Section = tuple[str, pd.DataFrame]  # a heading, or nothing, and its rows
Widths = dict[str, int]  # characters of each column


def print_table(table: Table, console: Console) -> None:
    """Print a table of texts: numbers to the right, the verdict coloured."""
    frame = table.frame.map(escape_name).rename(columns=escape_name)
    sections, widths = choose_layout(frame, console.width)
    has_room = _width_of_table(widths, gap=2) <= console.width
    gap = 2 if has_room else 1
    console.print(table.title)
    console.print(_render(frame.iloc[:0], widths, gap, has_header=True))
    for heading, rows in sections:
        if heading:
            console.print(heading)
        console.print(_render(rows, widths, gap, has_header=False))
    console.print()


def choose_layout(frame: pd.DataFrame, width: int) -> tuple[list[Section], Widths]:
    """The first layout that fits: all columns; headings in place of the columns `CONTEXT`, with
    cells that wrap between words; names as headings, too."""
    whole = [("", frame)]
    widths = {name: _width_of_cells(whole, name) for name in frame}
    if _width_of_table(widths) <= width:
        return whole, widths
    by_context = list(_sections_by_context(frame, width))
    widths = _choose_widths(by_context, width)
    if _width_of_table(widths) <= width:
        return by_context, widths
    below_names = []
    for heading, rows in by_context:
        first = rows.columns[0]
        for name, named_rows in rows.groupby(first, sort=False):
            words = [heading, name.strip()]
            name_heading = ", ".join(filter(None, words))
            below_names.append((name_heading, named_rows.drop(columns=first)))
    widths = _choose_widths(below_names, width)
    excess = _width_of_table(widths) - width
    for _ in range(excess):  # within words, where nothing else helps
        widest = max(widths, key=widths.__getitem__)
        widths[widest] = max(widths[widest] - 1, 1)
    return below_names, widths


def _width_of_table(widths: Widths, gap: int = 1) -> int:
    return sum(widths.values()) + gap * (len(widths) - 1)


def _sections_by_context(frame: pd.DataFrame, width: int) -> Iterator[Section]:
    """Rows below headings that say what they are about; a row alone has it before its name."""
    context = [name for name in CONTEXT if name in frame]
    if not context:
        yield "", frame
        return
    whole: list[Section] = [("", frame)]
    room = width
    first, *numbers = frame.columns.drop(context)
    for name in numbers:
        room -= _width_of_cells(whole, name) + 1
    for words, rows in frame.groupby(context, sort=False):
        heading = ", ".join(filter(None, words))
        names = rows[first]
        joined = f"{heading}, {names.iloc[0]}"
        if len(rows) == 1 and cell_len(joined) <= room:
            heading = ""
            names = joined
        else:
            names = INDENT + names
        below = rows.drop(columns=context)
        below[first] = names
        yield heading, below


def _width_of_cells(sections: Sequence[Section], name: str) -> int:
    """Characters of the widest cell of a column, its name among them."""
    widths = [cell_len(name)]
    for _, rows in sections:
        widths += map(cell_len, rows[name])
    return max(widths)


def _width_of_words(sections: Sequence[Section], name: str) -> int:
    """Characters of the longest word of a column, with its indent."""
    words = name.split(" ")
    for _, rows in sections:
        for text in rows[name]:
            indent = INDENT if text.startswith(INDENT) else ""
            parts = text.removeprefix(INDENT).split(" ")  # not at a no-break space
            words += [indent + part for part in parts]
    return max(map(cell_len, words))


def _choose_widths(sections: list[Section], width: int) -> Widths:
    """Widths of columns that give way, down to their longest word, where the table is too wide: the
    verdict first, then names, then numbers."""
    _, first_rows = sections[0]
    widths = {name: _width_of_cells(sections, name) for name in first_rows}
    order = sorted(widths, key=lambda name: (name != "verdict", name not in TEXTS))
    for name in order:
        fewest = _width_of_words(sections, name)
        if name == "verdict":
            fewest = max(fewest, VERDICT_WIDTH)
        excess = _width_of_table(widths) - width
        narrowed = max(widths[name] - excess, fewest)
        widths[name] = min(widths[name], narrowed)
    return widths


def _render(rows: pd.DataFrame, widths: Widths, gap: int, *, has_header: bool) -> RichTable:
    table = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, show_header=has_header)
    table.padding = (0, gap - 1, 0, 0)
    for name, width in widths.items():
        side: Literal["left", "right"] = "left" if name in TEXTS else "right"
        table.add_column(Text(name), justify=side, width=width, overflow="fold")
    for row in rows.to_dict("records"):
        cells: list[Text | Padding] = []
        for name, text in row.items():
            cell = Text(text.removeprefix(INDENT))
            if name == "verdict":
                # a number stands beside its unit
                joined = re.sub(r"(\d) (points|seeds)", "\\1\xa0\\2", text)
                lines = textwrap.fill(joined, widths[name], break_long_words=False)
                cell = Text(lines.replace("\xa0", " "))
                word = text.partition(" ")[0]
                cell.stylize(VERDICT_STYLES.get(word, ""))
            if text.startswith(INDENT):
                cells.append(Padding.indent(cell, len(INDENT)))
            else:
                cells.append(cell)
        table.add_row(*cells)
    return table
