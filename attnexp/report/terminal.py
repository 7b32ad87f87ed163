"""The answer in a terminal: one table, one curve, one line of verdict for each difference."""

from collections.abc import Sequence

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnexp.analysis import contrasts
from attnexp.analysis.frames import Group
from attnexp.analysis.published import k_counts
from attnexp.report import tables
from attnexp.statistics.verdict import UNDECIDED, Metric

VERDICT_STYLES = {"helps": "green", "hurts": "red", "equivalent": "cyan"}
TEXTS = ("data", "variant", "variants", "difference", "within", "at", "verdict", "unlike K")
"""Columns that stand to the left; all others are numbers."""
CURVES = 6
"""Most curves in one plot."""
HEIGHT = 10
"""Lines of the plot of curves, without its title and legend."""


def print_answer(
    groups: Sequence[Group], metrics: Sequence[Metric], console: Console
) -> list[pd.DataFrame]:
    """Print the answer; returns the differences of each group."""
    found = [contrasts.differences(group, metrics) for group in groups]
    together: dict[tuple[str, ...], list[int]] = {}
    for place, group in enumerate(groups):
        together.setdefault((group.protocol, *group.points), []).append(place)
    for places in together.values():
        own, frames = [groups[i] for i in places], [found[i] for i in places]
        print_table(tables.accuracy(own, metrics), console)
        if len(groups) == 1 and (picture := curve(groups[0], console)):
            console.print(picture, soft_wrap=True)
        if compared := [(g, f) for g, f in zip(own, frames, strict=True) if len(f)]:
            print_table(tables.verdicts(*zip(*compared, strict=True)), console)
        if len({group.data for group in own}) > 1 and compared:
            print_table(tables.across(own, metrics), console)
    for line in dict.fromkeys(remarks(groups, found)):
        console.print(line, soft_wrap=True)
    return found


def print_table(table: tables.Table, console: Console) -> None:
    """Print a table of texts: numbers to the right, the verdict coloured."""
    title, frame = table
    console.print(f"{title}:" if frame.empty else title, soft_wrap=True)
    widths = [max([len(str(name)), *map(len, frame[name])]) for name in frame]
    gap = 2 if sum(widths) + 2 * len(widths) <= console.width + 2 else 1
    shown = Table(box=box.SIMPLE_HEAD, padding=(0, gap - 1, 0, 0), show_edge=False, pad_edge=False)
    for name in frame:
        is_text = name in TEXTS
        shown.add_column(str(name), justify="left" if is_text else "right", no_wrap=not is_text)
    for _, row in frame.iterrows():
        style = VERDICT_STYLES.get(str(row.get("verdict", "")).partition(" ")[0], "")
        shown.add_row(
            *(Text(str(cell), style if name == "verdict" else "") for name, cell in row.items())
        )
    console.print(shown)
    console.print()


def remarks(groups: Sequence[Group], found: Sequence[pd.DataFrame]) -> list[str]:
    """What a reader of the numbers must know: K's run, seeds wanted and missing, notes."""
    lines = []
    for group, frame in zip(groups, found, strict=True):
        if (epochs := group.epochs_of("best")) and len(groups) == 1:
            listed = ", ".join(f"{name} {epoch}" for name, epoch in epochs.items())
            lines.append(f"best: the epoch that is best on average over seeds ({listed}).")
        for count in k_counts(group):
            unlike = f" (ours differ by {' '.join(count['unlike'])})" if count["unlike"] else ""
            own = count["own"]
            others = f" (our own seeds: {min(own)} to {max(own)})" if len(own) else ""
            lines.append(
                f"K's run{unlike}: {count['inside']} of {count['values']} values where one more seed "
                f"would lie{others}"
            )
        for name, seeds in group.missing().items():
            lines.append(
                f"Missing: {name}, {len(seeds)} of {len(group.planned[name])} planned seeds."
            )
        lines += group.notes
        if len(frame) and (frame["verdict"] == UNDECIDED).any():
            lines.append(
                f"~ seeds: about so many would narrow the interval to ±{tables.margin(frame.iloc[0])}."
            )
    return lines


def curve(group: Group, console: Console) -> Text | None:
    """Mean validation accuracy by epoch, a letter for each variant and its capital for K's run, in
    12 lines and a legend; None where all is one epoch."""
    import plotext

    rows = group.epochs[group.epochs["metric"] == "val_accuracy"]
    means = 100 * rows.groupby(["epoch", "variant"])["value"].mean().unstack()
    if len(means) < 2:
        return None
    drawn = [name for name in group.variants if name in means][:CURVES]
    width = min(console.width, 100)
    plotext.terminal.limit(False, False)  # it would cut the figure to the terminal's size
    figure = plotext.figure.clear()
    figure.theme("colorless").plot_size(width, HEIGHT)
    figure.axes(False, axis="x", side="upper").axes(False, axis="y", side="right")
    every = -(-len(means) // 10)
    ticks = [epoch for epoch in means.index if epoch % every == 0 or len(means) <= 10]
    figure.ruler("x").ticks(ticks, labels=[str(epoch) for epoch in ticks])
    for name in drawn:
        line = means[name].dropna()
        figure.draw(figure.signal([*line.index], [*line], marker=plotext.marker("braille")).lines())
    legend = []
    for letter, name in zip("abcdef", drawn, strict=False):
        points = {letter: means[name].dropna()}
        if len(group.published):
            k = group.published[group.published["variant"] == name].set_index("epoch")
            points[letter.upper()] = 100 * k["val_accuracy"]
        for mark, line in points.items():
            if len(line):
                figure.draw(figure.signal([*line.index], [*line], marker=plotext.marker(mark)))
        legend.append(f"{letter} {name}")
    k_too = "   capitals: K's run" if len(group.published) else ""
    title = "Validation accuracy, %, by epoch"
    picture = figure.build().string(colorless=True).rstrip("\n")
    return Text(f"{title}\n{picture}\n{'   '.join(legend)}{k_too}\n")
