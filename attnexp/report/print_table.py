"""Tables in a terminal: how columns share its width, and what gives way where they do not fit.

Nothing breaks within a word while a heading could take a column's place or a cell could wrap
between its words.
"""

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
from attnexp.report.difference_tables import PLACES
from attnexp.report.table import Table

VERDICT_STYLES = {"helps": "green", "hurts": "red", "equivalent": "cyan"}

TEXTS = {*PLACES, "variant", "difference", "verdict", "class", "run", "state", "settings"}
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
    header = _render(frame.iloc[:0], widths, gap, has_header=True)
    console.print(header)
    for heading, rows in sections:
        if heading:
            console.print(heading)
        body = _render(rows, widths, gap, has_header=False)
        console.print(body)
    console.print()


def choose_layout(frame: pd.DataFrame, width: int) -> tuple[list[Section], Widths]:
    """The first layout that fits: all columns; headings in place of the columns `PLACES`, with
    cells that wrap between words; names as headings, too."""
    whole = [("", frame)]
    widths = {name: _width_of_cells(whole, name) for name in frame}
    if _width_of_table(widths) <= width:
        return whole, widths
    below_places = list(_sections_by_place(frame, width))
    widths = _choose_widths(below_places, width)
    if _width_of_table(widths) <= width:
        return below_places, widths
    below_names = []
    for heading, rows in below_places:
        first = rows.columns[0]
        for name, named_rows in rows.groupby(first, sort=False):
            heading_of_name = f"{heading}, {name.strip()}" if heading else name.strip()
            below_names.append((heading_of_name, named_rows.drop(columns=first)))
    widths = _choose_widths(below_names, width)
    excess = _width_of_table(widths) - width
    for _ in range(excess):  # within words, where nothing else helps
        widest = max(widths, key=widths.__getitem__)
        widths[widest] = max(widths[widest] - 1, 1)
    return below_names, widths


def _width_of_table(widths: Widths, gap: int = 1) -> int:
    return sum(widths.values()) + gap * (len(widths) - 1)


def _sections_by_place(frame: pd.DataFrame, width: int) -> Iterator[Section]:
    """Rows below headings that say what they are about; a row alone has it before its name."""
    places = [name for name in PLACES if name in frame]
    if not places:
        yield "", frame
        return
    whole: list[Section] = [("", frame)]
    room = width
    first, *numbers = [name for name in frame if name not in places]
    for name in numbers:
        room -= _width_of_cells(whole, name) + 1
    for place, rows in frame.groupby(places, sort=False):
        heading = ", ".join(filter(None, place))
        names = rows[first]
        joined = f"{heading}, {names.iloc[0]}"
        if len(rows) == 1 and cell_len(joined) <= room:
            heading = ""
            names = joined
        else:
            names = INDENT + names
        yield heading, rows.drop(columns=places).assign(**{first: names})


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
            unindented = text.removeprefix(INDENT)
            indent = text[: len(text) - len(unindented)]
            # not at a no-break space
            words += [indent + word for word in unindented.split(" ")]
    return max(map(cell_len, words))


def _choose_widths(sections: list[Section], width: int) -> Widths:
    """Widths of columns that give way, down to their longest word, where the table is too wide: the
    verdict first, then names, then numbers."""
    columns = list(sections[0][1])
    names = [name for name in columns if name in TEXTS and name != "verdict"]
    numbers = [name for name in columns if name not in TEXTS]
    verdicts = [name for name in columns if name == "verdict"]
    widths = {name: _width_of_cells(sections, name) for name in columns}
    for name in [*verdicts, *names, *numbers]:
        fewest = _width_of_words(sections, name)
        if name == "verdict":
            fewest = max(fewest, VERDICT_WIDTH)
        excess = _width_of_table(widths) - width
        if excess > 0 and fewest < widths[name]:
            widths[name] = max(widths[name] - excess, fewest)
    return widths


def _render(rows: pd.DataFrame, widths: Widths, gap: int, *, has_header: bool) -> RichTable:
    table = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, show_header=has_header)
    table.padding = (0, gap - 1, 0, 0)
    for name, width in widths.items():
        side: Literal["left", "right"] = "left" if name in TEXTS else "right"
        table.add_column(Text(name), justify=side, width=width, overflow="fold")
    for row in rows.to_dict("records"):
        cells = []
        for name, text in row.items():
            cell = Text(text.removeprefix(INDENT))
            if name == "verdict":
                word = text.partition(" ")[0]
                cell.stylize(VERDICT_STYLES.get(word, ""))
            is_indented = text.startswith(INDENT)
            cells.append(Padding.indent(cell, len(INDENT)) if is_indented else cell)
        table.add_row(*cells)
    return table
