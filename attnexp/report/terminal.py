"""The answer in a terminal: one table, one curve, one line of verdict for each difference."""

import math
import textwrap
from dataclasses import replace
from typing import Any

import pandas as pd
import plotext
from rich.console import Console
from rich.text import Text

from attnexp.analysis.answer import Answer, Comparison
from attnexp.report.difference_tables import tabulate_differences
from attnexp.report.print_table import print_table
from attnexp.report.sentences import list_remarks
from attnexp.report.tables import make_table, tabulate_means

LETTERS = "abcdef"  # marks of the variants that a curve has room for


def show_answer(answer: Answer, console: Console) -> None:
    """Print an answer, the part of each protocol for itself."""
    by_protocol: dict[str, list[Comparison]] = {}
    for comparison in answer.comparisons:
        by_protocol.setdefault(comparison.group.protocol, []).append(comparison)
    for comparisons in by_protocol.values():
        part = answer.select_comparisons(comparisons)
        print_table(tabulate_means(part), console)
        first = comparisons[0]
        num_epochs = first.curve["epoch"].nunique()
        if num_epochs > 1 and len(answer.groups) == 1:
            console.print(draw_curve(first, console))
        _show_differences(part, console)
        for line in dict.fromkeys(list_remarks(part)):
            console.print(line)


def _show_differences(answer: Answer, console: Console) -> None:
    """Print differences, of several data sets at the deciding endpoint alone."""
    points = answer.groups[0].points
    data = {group.data for group in answer.groups}
    if len(data) > 1:
        points = points[:1]
    differences = [row for row in answer.measured if row.endpoint in points]
    if differences:
        print_table(tabulate_differences(differences), console)
    means = [row for row in answer.means if row.endpoint in points]
    if means:
        print_table(make_table("across", replace(answer, means=means)), console)


def draw_curve(comparison: Comparison, console: Console) -> Text:
    """Mean validation accuracy by epoch, a letter for each variant and its capital for K's run."""
    group = comparison.group
    means = comparison.curve.pivot(index="epoch", columns="variant", values="mean")
    variants = [variant for variant in group.variants if variant in means]
    letters = dict(zip(LETTERS, variants, strict=False))
    figure = _make_figure(list(means.index), console.width)
    legend = []
    for letter, variant in letters.items():
        legend.append(f"{letter} {variant}")
        line = means[variant].dropna()
        dots = _mark_points(figure, line, "braille")
        figure.draw(dots.lines())
        figure.draw(_mark_points(figure, line, letter))
        k_run = group.k_run(variant)
        if len(k_run):  # without values there would be a mark at (0, 0)
            k_line = k_run.set_index("epoch")["val_accuracy"]
            figure.draw(_mark_points(figure, k_line, letter.upper()))
    picture = figure.build().string(colorless=True).rstrip("\n")

    if len(group.published):
        legend.append("capitals: K's run")
    if len(letters) < len(variants):
        legend.append(f"first {len(letters)} of {len(variants)}")
    no_break = "\xa0"  # an entry stands in one line
    entries = [entry.replace(" ", no_break) for entry in legend]
    lines = textwrap.fill("   ".join(entries), console.width)
    names = lines.replace(no_break, " ")
    return Text(f"Validation accuracy, %, by epoch\n{picture}\n{names}\n")


def _make_figure(epochs: list[int], width: int) -> Any:
    """An empty figure of ten lines, with ticks at ten epochs at most."""
    plotext.terminal.limit(False, False)  # it would cut the figure to the terminal's size
    figure = plotext.figure.clear()
    figure.theme("colorless")
    figure.plot_size(min(width, 100), 10)
    figure.axes(False, axis="x", side="upper")
    figure.axes(False, axis="y", side="right")
    step = math.ceil(len(epochs) / 10)
    ticks = epochs[::step]
    labels = [str(tick) for tick in ticks]
    figure.ruler("x").ticks(ticks, labels=labels)
    return figure


def _mark_points(figure: Any, line: "pd.Series[float]", marker: str) -> Any:
    """Marks at the accuracies of a line, by epoch."""
    epochs = list(line.index)
    percents = list(100 * line)
    return figure.signal(epochs, percents, marker=plotext.marker(marker))
