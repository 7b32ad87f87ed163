"""Tables in a terminal: how columns share its width, and what gives way where they do not fit.

Nothing breaks within a word while a heading could take a column's place or a cell could wrap
between its words.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from attnexp.report.difference_tables import PLACES
from attnexp.report.table import Table

VERDICT_STYLES = {"helps": "green", "hurts": "red", "equivalent": "cyan"}

TEXTS = {*PLACES, *"variant difference verdict class run state settings".split()}
TEXTS |= {"data set", "intervention"}
"""Columns that stand to the left; all others are numbers."""

VERDICT_WIDTH = 12
"""Width down to which a verdict wraps before anything else does."""


@dataclass(frozen=True)
class Layout:
    """Rows of texts, some of them below a heading, and the width of each column."""

    sections: list[tuple[str, pd.DataFrame]]  # heading, or nothing, and its rows
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
    plain = [("", frame)]
    below_places = list(_sections_by_place(frame, width))
    below_names = list(_sections_by_name(below_places))
    for sections in (plain, below_places):
        for gap in (2, 1):
            layout = Layout(sections, _natural_widths(sections), gap)
            if layout.width <= width:
                return layout
    for sections in (below_places, below_names):
        layout = _wrap(Layout(sections, _natural_widths(sections)), width)
        if layout.width <= width:
            return layout
    return _cut_words(layout, width)


def _sections_by_place(frame: pd.DataFrame, width: int) -> Iterator[tuple[str, pd.DataFrame]]:
    """Rows below headings that say what they are about. A row alone has it before its name, where
    the line has room."""
    places = [name for name in PLACES if name in frame]
    if not places:
        yield "", frame
        return
    rest = frame.drop(columns=places)
    first = rest.columns[0]
    numbers = _natural_widths([("", rest.drop(columns=first))])
    room = width - sum(numbers.values()) - len(numbers)
    for place, rows in frame.groupby(places, sort=False):
        heading = ", ".join(filter(None, place))
        rows = rows.drop(columns=places)
        joined = f"{heading}, {rows[first].iloc[0]}"
        if len(rows) == 1 and len(joined) <= room:
            yield "", rows.assign(**{first: joined})
        else:
            yield heading, rows.assign(**{first: "  " + rows[first]})


def _sections_by_name(
    sections: Iterable[tuple[str, pd.DataFrame]],
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Every row below a heading of its own, its name; headings of several rows stay above."""
    for heading, rows in sections:
        if heading:
            yield heading, rows.iloc[:0]
        first = rows.columns[0]
        for number in range(len(rows)):
            row = rows.iloc[[number]]
            yield row[first].iloc[0], row.assign(**{first: ""})


def _natural_widths(sections: Iterable[tuple[str, pd.DataFrame]]) -> dict[str, int]:
    """Characters of the widest cell of each column, or of its name."""
    frame = pd.concat([rows for _, rows in sections])
    return {str(name): max([len(str(name)), *frame[name].map(len)]) for name in frame}


def _least_widths(sections: Iterable[tuple[str, pd.DataFrame]]) -> dict[str, int]:
    """Characters of the longest word of each column."""
    frame = pd.concat([rows for _, rows in sections])
    widths = {}
    for name in frame:
        words = " ".join([str(name), *frame[name]]).split()
        widths[str(name)] = max(map(len, words))
    return widths


def _wrap(layout: Layout, width: int) -> Layout:
    """The layout with columns that wrap between words, as far as must be: first the verdict, then
    names, then numbers."""
    least = _least_widths(layout.sections)
    if "verdict" in least:
        least["verdict"] = max(least["verdict"], VERDICT_WIDTH)
    names = [name for name in layout.widths if name in TEXTS and name != "verdict"]
    numbers = [name for name in layout.widths if name not in TEXTS]
    widths = dict(layout.widths)
    excess = layout.width - width
    for name in ["verdict", *names, *numbers]:
        if name in widths and excess > 0:
            cut = min(excess, max(widths[name] - least[name], 0))
            widths[name] -= cut
            excess -= cut
    return Layout(layout.sections, widths, layout.gap)


def _cut_words(layout: Layout, width: int) -> Layout:
    """The layout with its widest columns made narrower, within words."""
    widths = dict(layout.widths)
    excess = layout.width - width
    while excess > 0 and max(widths.values()) > 1:
        widest = max(widths, key=widths.__getitem__)
        widths[widest] -= 1
        excess -= 1
    return Layout(layout.sections, widths, layout.gap)


def _render(layout: Layout, rows: pd.DataFrame, *, has_header: bool) -> RichTable:
    table = RichTable(
        box=box.SIMPLE_HEAD,
        padding=(0, layout.gap - 1, 0, 0),
        show_edge=False,
        pad_edge=False,
        show_header=has_header,
    )
    for name, width in layout.widths.items():
        table.add_column(
            name, justify="left" if name in TEXTS else "right", width=width, overflow="fold"
        )
    for _, row in rows.iterrows():
        verdict = str(row.get("verdict", "")).partition(" ")[0]
        style = VERDICT_STYLES.get(verdict, "")
        cells = [Text(text, style if name == "verdict" else "") for name, text in row.items()]
        table.add_row(*cells)
    return table
