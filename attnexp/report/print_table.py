"""Tables in a terminal: how columns share its width, and what gives way where they do not fit.

Nothing breaks within a word while a heading could take a column's place or a cell could wrap
between its words.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pandas as pd
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from attnexp.base.errors import escape_controls
from attnexp.report.difference_tables import PLACES
from attnexp.report.table import Table

VERDICT_STYLES = {"helps": "green", "hurts": "red", "equivalent": "cyan"}

TEXTS = {*PLACES, "variant", "difference", "verdict", "class", "run", "state", "settings"}
TEXTS |= {"data set", "intervention"}
"""Columns that stand to the left; all others are numbers."""

VERDICT_WIDTH = 12  # down to which a verdict wraps before anything else does

INDENT = "  "  # of rows below a heading

Section = tuple[str, pd.DataFrame]  # a heading, or nothing, and its rows


@dataclass(frozen=True)
class Layout:
    """Rows of texts, some of them below a heading, and the width of each column."""

    sections: list[Section]
    widths: dict[str, int]
    gap: int  # spaces between columns

    @property
    def width(self) -> int:
        """Characters of the whole table."""
        return sum(self.widths.values()) + self.gap * (len(self.widths) - 1)


def print_table(table: Table, console: Console) -> None:
    """Print a table of texts: numbers to the right, the verdict coloured."""
    console.print(table.title)
    frame = table.frame.map(escape_controls).rename(columns=escape_controls)
    layout = choose_layout(frame, console.width)
    console.print(_render(layout, frame.iloc[:0], has_header=True))
    for heading, rows in layout.sections:
        if heading:
            console.print(heading)
        console.print(_render(layout, rows, has_header=False))
    console.print()


def choose_layout(frame: pd.DataFrame, width: int) -> Layout:
    """The first layout that fits: all columns; headings in place of the columns `PLACES`;
    cells that wrap between words; names as headings, too."""
    below_places = list(_sections_by_place(frame, width))
    below_names = list(_sections_by_name(below_places))
    for sections in ([("", frame)], below_places):
        widths = {name: _width_of_cells(sections, name) for name in sections[0][1]}
        for gap in (2, 1):
            layout = Layout(sections, widths, gap)
            if layout.width <= width:
                return layout
    for sections in (below_places, below_names):
        layout = _wrap(sections, width)
        if layout.width <= width:
            return layout
    return _cut_words(layout, width)


def _sections_by_place(frame: pd.DataFrame, width: int) -> Iterator[Section]:
    """Rows below headings that say what they are about; a row alone has it before its name."""
    places = [name for name in PLACES if name in frame]
    if not places:
        yield "", frame
        return
    first, *numbers = [name for name in frame if name not in places]
    room = width - sum(_width_of_cells([("", frame)], name) + 1 for name in numbers)
    for place, rows in frame.groupby(places, sort=False):
        heading = ", ".join(filter(None, place))
        rows = rows.drop(columns=places)
        joined = f"{heading}, {rows[first].iloc[0]}"
        if len(rows) == 1 and cell_len(joined) <= room:
            yield "", rows.assign(**{first: joined})
        else:
            yield heading, rows.assign(**{first: INDENT + rows[first]})


def _sections_by_name(sections: Sequence[Section]) -> Iterator[Section]:
    """Rows below headings that end with their name."""
    for heading, rows in sections:
        first = rows.columns[0]
        for name, named_rows in rows.groupby(first, sort=False):
            whole = ", ".join(filter(None, [heading, name.strip()]))
            yield whole, named_rows.drop(columns=first)


def _width_of_cells(sections: Sequence[Section], name: str) -> int:
    """Characters of the widest cell of a column, its name among them."""
    return max(cell_len(text) for _, rows in sections for text in [name, *rows[name]])


def _width_of_words(sections: Sequence[Section], name: str) -> int:
    """Characters of the longest word of a column, with its indent."""
    widths = [cell_len(word) for word in name.split()]
    for _, rows in sections:
        for text in rows[name]:
            indent = len(text) - len(text.lstrip())
            widths += [indent + cell_len(word) for word in text.split()]
    return max(widths)


def _wrap(sections: list[Section], width: int) -> Layout:
    """The layout with columns that wrap between words: the verdict, then names, then numbers."""
    columns = list(sections[0][1])
    layout = Layout(sections, {name: _width_of_cells(sections, name) for name in columns}, gap=1)
    excess = layout.width - width
    names = [name for name in columns if name in TEXTS and name != "verdict"]
    numbers = [name for name in columns if name not in TEXTS]
    for name in ["verdict", *names, *numbers]:
        if name in columns and excess > 0:
            least = _width_of_words(sections, name)
            if name == "verdict":
                least = max(least, VERDICT_WIDTH)
            cut = min(excess, max(layout.widths[name] - least, 0))
            layout.widths[name] -= cut
            excess -= cut
    return layout


def _cut_words(layout: Layout, width: int) -> Layout:
    """The layout with its widest columns made narrower, within words."""
    widths = dict(layout.widths)
    for _ in range(layout.width - width):
        widest = max(widths, key=widths.__getitem__)
        widths[widest] = max(widths[widest] - 1, 1)
    return replace(layout, widths=widths)


def _render(layout: Layout, rows: pd.DataFrame, *, has_header: bool) -> RichTable:
    table = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, show_header=has_header)
    table.padding = (0, layout.gap - 1, 0, 0)
    for name, width in layout.widths.items():
        side: Literal["left", "right"] = "left" if name in TEXTS else "right"
        table.add_column(Text(name), justify=side, width=width, overflow="fold")
    for row in rows.to_dict("records"):
        verdict = row.get("verdict", "").partition(" ")[0]
        style = VERDICT_STYLES.get(verdict, "")
        cells = []
        for name, text in row.items():
            cell = Text(text.removeprefix(INDENT), style if name == "verdict" else "")
            cells.append(Padding.indent(cell, 2) if text.startswith(INDENT) else cell)
        table.add_row(*cells)
    return table
