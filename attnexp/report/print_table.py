"""Tables in a terminal: how columns share its width, and what gives way where they do not fit.

Nothing breaks within a word while a heading could take a column's place or a cell could wrap
between its words.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from attnexp.report.difference_tables import PLACES
from attnexp.report.table import Table

VERDICT_STYLES = {"helps": "green", "hurts": "red", "equivalent": "cyan"}

TEXTS = {*PLACES, "variant", "difference", "verdict", "class", "run", "state", "settings"}
TEXTS |= {"data set", "intervention"}
"""Columns that stand to the left; all others are numbers."""

VERDICT_WIDTH = 12  # down to which a verdict wraps before anything else does

Section = tuple[str, pd.DataFrame]  # a heading, or nothing, and its rows


@dataclass(frozen=True)
class Layout:
    """Rows of texts, some of them below a heading, and the width of each column."""

    sections: list[Section]
    widths: dict[str, int]
    gap: int = 1  # spaces between columns

    @property
    def width(self) -> int:
        """Characters of the whole table."""
        return sum(self.widths.values()) + self.gap * (len(self.widths) - 1)


def print_table(table: Table, console: Console) -> None:
    """Print a table of texts: numbers to the right, the verdict coloured."""
    console.print(table.title)
    layout = choose_layout(table.frame, console.width)
    console.print(_render(layout, table.frame.iloc[:0], has_header=True))
    for heading, rows in layout.sections:
        if heading:
            console.print(heading)
        if len(rows):
            console.print(_render(layout, rows, has_header=False))
    console.print()


def choose_layout(frame: pd.DataFrame, width: int) -> Layout:
    """The first layout that fits: all columns; headings in place of the columns `PLACES`;
    cells that wrap between words; each name as a heading above its numbers."""
    below_places = list(_sections_by_place(frame, width))
    for sections in ([("", frame)], below_places):
        for gap in (2, 1):
            layout = Layout(sections, _widths(sections), gap)
            if layout.width <= width:
                return layout
    below_names = list(_sections_by_name(below_places))
    for sections in (below_places, below_names):
        layout = _wrap(Layout(sections, _widths(sections)), width)
        if layout.width <= width:
            return layout
    return _cut_words(layout, width)


def _sections_by_place(frame: pd.DataFrame, width: int) -> Iterator[Section]:
    """Rows below headings that say what they are about; a row alone has it before its name."""
    places = [name for name in PLACES if name in frame]
    if not places:
        yield "", frame
        return
    rest = frame.drop(columns=places)
    first = rest.columns[0]
    numbers = _widths([("", rest.drop(columns=first))])
    room = width - sum(numbers.values()) - len(numbers)
    for place, rows in frame.groupby(places, sort=False):
        heading = ", ".join(filter(None, place))
        rows = rows.drop(columns=places)
        joined = f"{heading}, {rows[first].iloc[0]}"
        if len(rows) == 1 and len(joined) <= room:
            yield "", rows.assign(**{first: joined})
        else:
            yield heading, rows.assign(**{first: "  " + rows[first]})


def _sections_by_name(sections: Iterable[Section]) -> Iterator[Section]:
    """Every row below a heading of its own, its name; headings of several rows stay above."""
    for heading, rows in sections:
        if heading:
            yield heading, rows.iloc[:0]
        first = rows.columns[0]
        for number in range(len(rows)):
            row = rows.iloc[[number]]
            yield row[first].iloc[0], row.assign(**{first: ""})


def _widths(sections: Iterable[Section], *, of_words: bool = False) -> dict[str, int]:
    """Characters of the widest cell, or of the longest word, of each column with its name."""
    frame = pd.concat([rows for _, rows in sections])
    widths = {}
    for name in frame:
        texts = [str(name), *frame[name]]
        if of_words:
            texts = " ".join(texts).split()
        widths[str(name)] = max(map(len, texts))
    return widths


def _wrap(layout: Layout, width: int) -> Layout:
    """The layout with columns that wrap between words: the verdict, then names, then numbers."""
    least = _widths(layout.sections, of_words=True)
    if "verdict" in least:
        least["verdict"] = max(least["verdict"], VERDICT_WIDTH)
    widths = dict(layout.widths)
    excess = layout.width - width
    names = [name for name in widths if name in TEXTS and name != "verdict"]
    numbers = [name for name in widths if name not in TEXTS]
    for name in ["verdict", *names, *numbers]:
        if name in widths and excess > 0:
            cut = min(excess, max(widths[name] - least[name], 0))
            widths[name] -= cut
            excess -= cut
    return replace(layout, widths=widths)


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
        table.add_column(name, justify=side, width=width, overflow="fold")
    for _, row in rows.iterrows():
        verdict = str(row.get("verdict", "")).partition(" ")[0]
        style = VERDICT_STYLES.get(verdict, "")
        cells = [Text(text, style if name == "verdict" else "") for name, text in row.items()]
        table.add_row(*cells)
    return table
