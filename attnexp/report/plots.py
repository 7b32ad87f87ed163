"""Pictures for a terminal: learning curves, and differences as a forest plot.

Colour never carries information alone: a letter marks a variant, a word a verdict.
"""

import math
import textwrap
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from attnexp.analysis.comparison import Comparison
from attnexp.analysis.differences import Difference
from attnexp.report.cells import format_difference
from attnexp.report.verdicts import VERDICT_STYLES, heading
from attnexp.statistics.verdict import Verdict

Number = TypeVar("Number", int, float)

NARROWEST, WIDEST = 60, 120
"""Minimum and maximum width in columns."""

MAX_CURVES = 6
"""Maximum number of curves in one plot."""

ROWS = 15
"""Height of the curves in lines, without their axis."""

COLOURS = (12, 11, 13, 14, 10, 9)
"""Curve colours of the terminal's palette: bright blue, yellow, magenta, cyan, green, red."""

ASCII = str.maketrans(
    {
        **dict.fromkeys("└┴┬├┤", "+"),
        **{"│": "|", "┼": "|", "─": "-", "●": "o", "░": ":", "…": "~"},
        **dict.fromkeys(map(chr, range(0x2801, 0x2900)), "."),  # braille
    }
)
"""ASCII replacements, one character for each, so that columns stay aligned."""


def print_plots(comparison: Comparison, console: Console) -> None:
    """Print both plots, as wide as the console and in characters that it can write."""
    width, ascii_only = console.width, console.options.ascii_only
    colour = console.color_system is not None
    for picture in (
        curves(comparison, width=width, colour=colour, ascii_only=ascii_only),
        forest(comparison, width=width, ascii_only=ascii_only),
    ):
        if picture:
            console.print()
            console.print(picture, soft_wrap=True)


def curves(comparison: Comparison, *, width: int, colour: bool, ascii_only: bool = False) -> Text:
    """Mean validation accuracy by epoch, a line for each variant; empty where all is one epoch.

    A letter marks a variant's mean, its capital K's figure. Marks that would fall on one another
    stand side by side, the first of them at its epoch. Only the first variants are drawn.
    """
    width = min(max(width, NARROWEST), WIDEST)
    drawn = comparison.variants[:MAX_CURVES]
    means = [[100 * v.means[epoch]["val_accuracy"].mean for epoch in v.epochs] for v in drawn]
    published = [
        [100 * v.published[epoch]["val_accuracy"] for epoch in v.epochs if epoch in v.published]
        for v in drawn
    ]
    num_epochs = max(map(len, means))
    if num_epochs <= 1:
        return Text()
    low, high = _limits([value for line in means + published for value in line])
    y_ticks = _ticks(low, high, 6)
    num_columns = width - max(map(len, y_ticks.values())) - 1
    room = len(drawn) + sum(map(bool, published))  # for marks side by side

    def column(epoch: int) -> int:
        return 1 + round((epoch - 1) / (num_epochs - 1) * (num_columns - 1 - room))

    every = next(step for step in _steps(1) if column(1 + step) - column(1) > room)
    marked = [epoch for epoch in range(1, num_epochs + 1) if epoch % every == 0]
    marks, taken = [], set()
    for letters, lines in (("abcdef", means), ("ABCDEF", published)):
        for letter, shade, line in zip(letters, COLOURS, lines, strict=False):
            for epoch, value in enumerate(line, start=1):
                if epoch in marked or lines is published:
                    x, row = column(epoch), round((value - low) / (high - low) * (ROWS - 1))
                    while (x, row) in taken:
                        x += 1
                    taken.add((x, row))
                    marks.append((x, low + row / (ROWS - 1) * (high - low), letter, shade))
    picture = _draw(
        lines=[[(column(e), value) for e, value in enumerate(line, start=1)] for line in means],
        marks=marks,
        x_ticks={column(epoch): str(epoch) for epoch in marked},
        y_ticks=y_ticks,
        limits=((0, num_columns - 1), (low, high)),
        size=(width, ROWS + 2),
        colour=colour,
    )
    numbers = {len(variant.seeds) for variant in drawn}
    over = f", {_seeds(numbers.pop())}" if len(numbers) == 1 else ""
    title = f"Validation accuracy in % by epoch, {comparison.title}{over}"
    labels = [v.label if over else f"{v.label}, {_seeds(len(v.seeds))}" for v in drawn]
    legend = [
        Text.assemble(
            (letter, f"bold color({shade})" if colour else ""),
            shorten(f" {_printable(label, ascii_only)}", width - 1),
        )
        for letter, shade, label in zip("abcdef", COLOURS, labels, strict=False)
    ]
    capitals = [letter for letter, line in zip("ABCDEF", published, strict=False) if line]
    if capitals:
        legend.append(Text(f"{', '.join(capitals)}: K's published run, one seed"))
    more = len(comparison.variants) - len(drawn)
    if more:
        legend.append(Text(f"not drawn: {more} variant{'s' * (more > 1)} more"))
    return _finish(
        [
            *(Text(part, "bold") for part in textwrap.wrap(title, width)),
            *picture.split("\n"),
            *_side_by_side(legend, width),
        ],
        ascii_only,
    )


def forest(comparison: Comparison, *, width: int, ascii_only: bool = False) -> Text:
    """Differences from the baseline with their intervals on one axis; empty where there are none.

    If not all labels fit beside their bars, all stand above them.
    """
    width = min(max(width, NARROWEST), WIDEST)
    every = [d for found in comparison.differences.values() for d in found.values()]
    if not every or not comparison.has_accuracy:
        return Text()
    numbers = max(len(format_difference(difference)) for difference in every)
    verdicts = max(len(difference.verdict("accuracy").verdict or "open") for difference in every)
    room = width - numbers - verdicts - 6  # for label and axis; two spaces after each column
    names = {
        label: _printable(label, ascii_only)
        for label, found in comparison.differences.items()
        if found
    }
    widest = max(map(cell_len, names.values()))
    above = widest > max(8, room - 24)
    start = 0 if above else widest
    num_columns = room - start
    margin = 100 * comparison.metrics["accuracy"].margin
    low, high = _limits([0, -margin, margin, *(end for each in every for end in _ends(each))])

    def column(value: float) -> int:
        return round((value - low) / (high - low) * (num_columns - 1))

    band = range(column(-margin), column(margin) + 1)
    background = ["░" if at in band else " " for at in range(num_columns)]
    background[column(0)] = "│"
    n = {difference.metrics["accuracy"].difference.n for difference in every}
    over = f", {_seeds(n.pop())}" if len(n) == 1 else ""
    title = ("Accuracy minus ", f", points, 95 % interval{over}")
    baseline = _printable(comparison.variants[0].label, ascii_only)
    lines = [Text(shorten(baseline, width - len("".join(title))).join(title), "bold")]
    for point, about in comparison.points.items():
        text = f"{heading(comparison, 'accuracy', point)}: {about}"
        lines += [Text(part, "dim") for part in textwrap.wrap(text, width)]
        for label, found in comparison.differences.items():
            if point in found:
                difference = found[point]
                verdict = difference.verdict("accuracy").verdict
                lines += [Text(shorten(names[label], width))] * above
                lines.append(
                    Text.assemble(
                        set_cell_size("" if above else names[label], start) + "  ",
                        _bar(background, *map(column, _ends(difference))) + "  ",
                        format_difference(difference).ljust(numbers) + "  ",
                        (verdict or "open", VERDICT_STYLES[verdict or Verdict.inconclusive]),
                    )
                )
    axis, labels = ["─"] * num_columns, [" "] * width
    ticks = _ticks(low, high, max(2, num_columns // 8), sign="+")
    for value in sorted(ticks, key=abs):  # zero is there whatever has room
        at = column(value)
        first = start + 2 + at - len(ticks[value]) // 2
        here = slice(first, first + len(ticks[value]))
        if not "".join(labels[max(0, first - 1) : here.stop + 1]).strip():
            axis[at], labels[here] = "┴", ticks[value]
    lines.append(Text(" " * (start + 2) + "".join(axis)))
    lines.append(Text("".join(labels)))
    lines.append(Text(f"░ within {margin:g} of 0: counts as no difference", "dim"))
    return _finish(lines, ascii_only)


def _bar(background: Sequence[str], low: int, mean: int, high: int) -> str:
    cells = list(background)
    for at in range(low, high + 1):
        cells[at] = "┼" if cells[at] == "│" else "─"
    cells[low], cells[high] = "├", "┤"
    cells[mean] = "●"  # of an interval without width, all there is
    return "".join(cells)


def _ends(difference: Difference) -> tuple[float, float, float]:
    """Low, mean and high in points; three times the mean if one seed gives no interval."""
    mean = difference.metrics["accuracy"].difference.mean
    low, high = (mean if end is None else end for end in difference.interval("accuracy"))
    return 100 * low, 100 * mean, 100 * high


def _draw(
    *,
    lines: Sequence[Sequence[tuple[int, float]]],
    marks: Sequence[tuple[int, float, str, int]],
    x_ticks: dict[int, str],
    y_ticks: dict[float, str],
    limits: tuple[tuple[int, int], tuple[float, float]],
    size: tuple[int, int],
    colour: bool,
) -> Text:
    """Draw with plotext, which has one figure for the whole process."""
    import plotext

    plotext.terminal.limit(False, False)  # it would cut the figure to the terminal's size
    figure: Any = plotext.figure.clear()
    figure.theme("colorless").plot_size(*size)
    figure.axes(False, axis="x", side="upper").axes(False, axis="y", side="right")
    figure.ruler("x").lim(*limits[0]).ticks(list(x_ticks), labels=list(x_ticks.values()))
    figure.ruler("y").lim(*limits[1]).ticks(list(y_ticks), labels=list(y_ticks.values()))
    for line, shade in zip(lines, COLOURS, strict=False):
        marker = plotext.marker("braille", shade)
        figure.draw(figure.signal(*zip(*line, strict=True), marker=marker).lines())
    for x, y, letter, shade in marks:
        figure.draw(figure.signal([x], [y], marker=plotext.marker(letter, (shade, None, "bold"))))
    return Text.from_ansi(figure.build().string(colorless=not colour))


def _limits(values: Sequence[float]) -> tuple[float, float]:
    """Minimum and maximum, widened to a range of at least half a point."""
    low, high = min(values), max(values)
    missing = max(0.0, 0.5 - (high - low))
    return low - missing / 2, high + missing / 2


def _ticks(low: float, high: float, most: int, *, sign: str = "") -> dict[float, str]:
    """Round values between low and high, about `most` but two at least, and how to write them."""

    def inside(step: float) -> range:
        return range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)

    finer, step = next(
        (finer, step) for finer, step in pairwise(_steps(0.01)) if (high - low) / step <= most
    )
    step = step if len(inside(step)) > 1 else finer
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return {i * step: f"{i * step:{sign}.{decimals}f}" if i else "0" for i in inside(step)}


def _steps(smallest: Number) -> Iterator[Number]:
    """Step sizes 1, 2, 5, 10, 20, ... times the smallest."""
    while True:
        yield from (smallest, 2 * smallest, 5 * smallest)
        smallest *= 10


def _seeds(n: int) -> str:
    return "one seed" if n == 1 else f"{n} seeds"


def _printable(label: str, ascii_only: bool) -> str:
    return "".join(c if c.isprintable() and (c.isascii() or not ascii_only) else "?" for c in label)


def shorten(label: str, width: int) -> str:
    """Shorten to at most `width` cells by cutting the middle: variants differ at their ends."""
    if cell_len(label) <= width:
        return label
    head = width // 2
    return set_cell_size(label, head) + "…" + set_cell_size(label[::-1], width - head - 1)[::-1]


def _side_by_side(entries: Sequence[Text], width: int) -> list[Text]:
    """Entries joined into lines of at most `width` cells."""
    lines = [entries[0]]
    for entry in entries[1:]:
        if lines[-1].cell_len + 3 + entry.cell_len <= width:
            lines[-1] = Text.assemble(lines[-1], "   ", entry)
        else:
            lines.append(entry)
    return lines


def _finish(lines: Sequence[Text], ascii_only: bool) -> Text:
    for line in lines:
        line.rstrip()
    picture = Text("\n").join(lines)
    if ascii_only:
        picture.plain = picture.plain.translate(ASCII)
    return picture
