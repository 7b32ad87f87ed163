"""The answer in a terminal: one table, one curve, one line of verdict for each difference."""

import textwrap
from collections.abc import Iterator
from typing import Any

import pandas as pd
import plotext
from rich.console import Console
from rich.text import Text

from attnexp.analysis.answer import Answer, Comparison
from attnexp.analysis.group import Group
from attnexp.report.difference_tables import tabulate_differences, tabulate_means_over_data
from attnexp.report.print_table import print_table
from attnexp.report.tables import tabulate_means
from attnexp.statistics.verdict import UNDECIDED

LETTERS = "abcdef"  # marks of the variants that a curve has room for


def show_answer(answer: Answer, console: Console) -> None:
    """Print an answer, the part of each protocol for itself."""
    for protocol in dict.fromkeys(group.protocol for group in answer.groups):
        part = answer.select([row for row in answer.comparisons if row.group.protocol == protocol])
        print_table(tabulate_means(part), console)
        first = part.comparisons[0]
        if len(answer.groups) == 1 and first.curve["epoch"].nunique() > 1:
            console.print(draw_curve(first, console))
        _show_verdicts(part, console)


def _show_verdicts(answer: Answer, console: Console) -> None:
    """Print differences and remarks, of several data sets at the deciding endpoint alone."""
    points = answer.groups[0].points
    if len({group.data for group in answer.groups}) > 1:
        points = points[:1]
    differences = [row for row in answer.differences if row.endpoint in points]
    if differences:
        print_table(tabulate_differences(differences), console)
    means = [row for row in answer.means if row.endpoint in points]
    if means:
        print_table(tabulate_means_over_data(means), console)
    for line in dict.fromkeys(remarks(answer)):
        console.print(line)


def remarks(answer: Answer) -> Iterator[str]:
    """What a reader of the numbers must know: epochs, K's run, and the notes of the answer."""
    yield from describe_comparisons(answer)
    words = [row.words for row in answer.differences if row.verdict == UNDECIDED]
    if any(text != UNDECIDED for text in words):
        yield (
            "A to B seeds: A are enough in four of five studies if the difference is as large as "
            "measured, B whatever it is."
        )


def describe_comparisons(answer: Answer) -> Iterator[str]:
    """Epochs of endpoints where there is one group, how K's run agrees, and notes."""
    if len(answer.comparisons) == 1:
        yield from _describe_epochs(answer.groups[0])
    for comparison in answer.comparisons:
        yield from map(str, comparison.agreements)
    yield from answer.notes


def _describe_epochs(group: Group) -> Iterator[str]:
    """A line for each endpoint whose epoch differs between variants."""
    for point in group.points:
        epochs = group.epochs_of(point.name)
        if point.remark and epochs:
            listed = ", ".join(f"{variant} {epoch}" for variant, epoch in epochs.items())
            yield f"{point.name}: {point.remark} ({listed})."


def draw_curve(comparison: Comparison, console: Console) -> Text:
    """Mean validation accuracy by epoch, a letter for each variant and its capital for K's run."""
    means = 100 * comparison.curve.pivot(index="epoch", columns="variant", values="mean")
    variants = [variant for variant in comparison.group.variants if variant in means]
    letters = dict(zip(LETTERS, variants, strict=False))
    published = comparison.group.published

    figure = _make_figure(list(means.index), console.width)
    for letter, variant in letters.items():
        line = means[variant].dropna()
        figure.draw(_mark(figure, line, "braille").lines())
        figure.draw(_mark(figure, line, letter))
        k_run = published[published["variant"] == variant].set_index("epoch")
        if len(k_run):  # without values there would be a mark at (0, 0)
            figure.draw(_mark(figure, 100 * k_run["val_accuracy"], letter.upper()))
    picture = figure.build().string(colorless=True).rstrip("\n")

    legend = [f"{letter} {variant}" for letter, variant in letters.items()]
    if len(published):
        legend.append("capitals: K's run")
    if len(letters) < len(variants):
        legend.append(f"first {len(letters)} of {len(variants)}")
    no_break = "\xa0"  # an entry stands in one line
    names = "   ".join(entry.replace(" ", no_break) for entry in legend)
    names = textwrap.fill(names, console.width).replace(no_break, " ")
    return Text(f"Validation accuracy, %, by epoch\n{picture}\n{names}\n")


def _make_figure(epochs: list[int], width: int) -> Any:
    """An empty figure of ten lines, with ticks at ten epochs at most."""
    plotext.terminal.limit(False, False)  # it would cut the figure to the terminal's size
    figure = plotext.figure.clear()
    figure.theme("colorless")
    figure.plot_size(min(width, 100), 10)
    figure.axes(False, axis="x", side="upper")
    figure.axes(False, axis="y", side="right")
    step = -(-len(epochs) // 10)
    ticks = epochs[::step]
    figure.ruler("x").ticks(ticks, labels=[str(tick) for tick in ticks])
    return figure


def _mark(figure: Any, line: "pd.Series[float]", marker: str) -> Any:
    """Marks at the values of a line, by epoch."""
    return figure.signal(list(line.index), list(line), marker=plotext.marker(marker))
