"""The answer in a terminal: one table, one curve, one line of verdict for each difference."""

import textwrap
from collections.abc import Iterator
from typing import Any

import pandas as pd
from rich.console import Console
from rich.text import Text

from attnexp.analysis.answer import Answer, Comparison
from attnexp.analysis.kexue import Agreement
from attnexp.report.difference_tables import tabulate_differences, tabulate_means_over_data
from attnexp.report.print_table import print_table
from attnexp.report.tables import tabulate_means
from attnexp.statistics.verdict import UNDECIDED

LETTERS = "abcdef"
"""Marks of the variants that a curve has room for."""


def show_answer(answer: Answer, console: Console) -> None:
    """Print an answer, the part of each protocol for itself."""
    protocols = dict.fromkeys(group.protocol for group in answer.groups)
    for protocol in protocols:
        part = answer.select([row for row in answer.comparisons if row.group.protocol == protocol])
        has_one_group = len(answer.groups) == 1
        _show_part(part, console, with_curve=has_one_group and has_curve(part.comparisons[0]))


def _show_part(answer: Answer, console: Console, *, with_curve: bool) -> None:
    """Print the answer of one protocol. That of several data sets has the differences at the
    deciding endpoint alone."""
    print_table(tabulate_means(answer), console)
    if with_curve:
        console.print(draw_curve(answer.comparisons[0], console))
    differences = answer.differences
    means = answer.means
    if len({group.data for group in answer.groups}) > 1:
        deciding = answer.groups[0].points[0]
        differences = [row for row in differences if row.endpoint == deciding]
        means = [row for row in means if row.endpoint == deciding]
    if differences:
        print_table(tabulate_differences(differences), console)
    if means:
        print_table(tabulate_means_over_data(means), console)
    for line in dict.fromkeys(remarks(answer)):
        console.print(line)


def remarks(answer: Answer) -> Iterator[str]:
    """What a reader of the numbers must know: epochs, K's run, and the notes of the answer."""
    if len(answer.groups) == 1:
        yield from describe_epochs(answer.comparisons[0])
    for comparison in answer.comparisons:
        yield from map(describe_agreement, comparison.agreements)
    yield from answer.notes
    open_words = [row.words for row in answer.differences if row.verdict == UNDECIDED]
    if any(words != UNDECIDED for words in open_words):
        yield (
            "A to B seeds: A are enough in four of five studies if the difference is as large as "
            "measured, B whatever it is."
        )


def describe_epochs(comparison: Comparison) -> Iterator[str]:
    """A line for each endpoint whose epoch differs between variants."""
    for point in comparison.group.points:
        epochs = comparison.group.epochs_of(point.name)
        if point.remark and epochs:
            listed = ", ".join(f"{variant} {epoch}" for variant, epoch in epochs.items())
            yield f"{point.name}: {point.remark} ({listed})."


def describe_agreement(agreement: Agreement) -> str:
    """How many of K's values lie where one more of our seeds would."""
    run = "K's run"
    if agreement.unlike:
        run += f" (ours differ by {' '.join(agreement.unlike)})"
    line = (
        f"{run}: {agreement.num_inside} of {agreement.num_values} values within the interval of "
        "one more seed"
    )
    if agreement.ours:
        line += f" (ours: {min(agreement.ours)} to {max(agreement.ours)})"
    return line


def has_curve(comparison: Comparison) -> bool:
    """Whether accuracies of several epochs are known."""
    return int(comparison.epochs["epoch"].nunique()) > 1


def draw_curve(comparison: Comparison, console: Console) -> Text:
    """Mean validation accuracy by epoch, a letter for each variant and its capital for K's run."""
    rows = comparison.epochs[comparison.epochs["metric"] == "val_accuracy"]
    means = 100 * rows.pivot(index="epoch", columns="variant", values="mean")
    variants = [variant for variant in comparison.group.variants if variant in means]
    letters = dict(zip(LETTERS, variants, strict=False))
    published = comparison.group.published

    figure = _make_figure(list(means.index), console.width)
    for letter, variant in letters.items():
        line = means[variant].dropna()
        figure.draw(_mark(figure, line, "braille").lines())
        figure.draw(_mark(figure, line, letter))
        if len(published):
            k_run = published[published["variant"] == variant].set_index("epoch")
            if len(k_run):  # without values there would be a mark at (0, 0)
                figure.draw(_mark(figure, 100 * k_run["val_accuracy"], letter.upper()))
    picture = figure.build().string(colorless=True).rstrip("\n")

    legend = [f"{letter} {variant}" for letter, variant in letters.items()]
    if len(published):
        legend.append("capitals: K's run")
    if len(letters) < len(variants):
        legend.append(f"first {len(letters)} of {len(variants)}")
    names = _break_legend(legend, console.width)
    return Text(f"Validation accuracy, %, by epoch\n{picture}\n{names}\n")


def _break_legend(entries: list[str], width: int) -> str:
    """Entries in lines, each entry in one of them."""
    no_break = "\xa0"
    text = "   ".join(entry.replace(" ", no_break) for entry in entries)
    return textwrap.fill(text, width).replace(no_break, " ")


def _make_figure(epochs: list[int], width: int) -> Any:
    """An empty figure of ten lines, with ticks at ten epochs at most."""
    import plotext

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
    import plotext

    return figure.signal(list(line.index), list(line), marker=plotext.marker(marker))
