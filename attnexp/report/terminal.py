"""The answer in a terminal: one table, one curve, one line of verdict for each difference."""

import math
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from attnexp.analysis.answer import Answer, Comparison
from attnexp.analysis.contrasts import Difference
from attnexp.report import tables
from attnexp.report.remarks import list_remarks
from attnexp.report.table import print_table

MOST_CONTRASTS = 3  # on several data sets whose differences are all listed
LETTERS = "abc"  # marks of the variants of a curve; more would hide each other


def show_answer(answer: Answer, console: Console) -> None:
    """Print an answer, the part of each protocol for itself."""
    for protocol in dict.fromkeys(group.protocol for group in answer.groups):
        comparisons = [row for row in answer.comparisons if row.group.protocol == protocol]
        part = answer.select_comparisons(comparisons)
        rows = part.differences
        if len(comparisons) > 1:
            rows = _show_data_sets(part, console)
        else:
            print_table(tables.tabulate_means(part), console)
            (comparison,) = comparisons
            is_clear = len(comparison.group.variants) <= len(LETTERS)
            if is_clear and comparison.curve["epoch"].nunique() > 1:
                console.print(draw_curve(comparison, console))
            _show_differences(rows, console)
        for line in list_remarks(part, rows):
            console.print(line)


def _show_data_sets(answer: Answer, console: Console) -> list[Difference]:
    """Print the answer of several data sets; return the differences that are shown."""
    point = answer.groups[0].endpoints[0]
    means = [row for row in answer.means if row.endpoint == point]
    rows = [row for row in answer.measured if row.endpoint == point]
    if len({row.contrast.name for row in rows}) <= MOST_CONTRASTS:
        print_table(tables.tabulate_means(answer), console)
        _show_differences(rows, console)
        _show_differences(means, console)
        return rows + means
    print_table(tables.tabulate_by_data(answer), console)
    _show_differences(means, console)
    decided = [row for row in rows if row.verdict.is_decided]
    if len({row.data for row in decided}) == 1:  # The table does not say it in each line.
        console.print(f"On {decided[0].data} alone:")
    _show_differences(decided, console)
    num_open = len(rows) - len(decided)
    console.print(
        f"{num_open} of {len(rows)} differences are not decided. "
        "--table differences lists all, --table metrics all means with their sd."
    )
    return decided + means


def _show_differences(rows: Sequence[Difference], console: Console) -> None:
    if rows:
        columns = tables.MEAN_COLUMNS if rows[0].is_mean else tables.VERDICT_COLUMNS
        print_table(tables.tabulate_differences(rows, columns), console)


def draw_curve(comparison: Comparison, console: Console) -> Text:
    """Mean validation accuracy by epoch, a letter for each variant and its capital for K's run."""
    import plotext

    group = comparison.group
    means = comparison.curve.pivot(index="epoch", columns="variant", values="mean")
    plotext.terminal.limit(False, False)  # it would cut the figure to the terminal's size
    figure = plotext.figure.clear()
    figure.theme("colorless")
    figure.plot_size(min(console.width, 100), 10)
    figure.axes(False, axis="x", side="upper")
    figure.axes(False, axis="y", side="right")
    epochs = list(means.index)
    ticks = epochs[:: math.ceil(len(epochs) / 10)]
    figure.ruler("x").ticks(ticks, labels=[*map(str, ticks)])
    legend = []
    for letter, variant in zip(LETTERS, group.variants, strict=False):
        legend.append(f"{letter} {variant}")
        mean = means[variant].dropna()
        accuracies = {"braille": mean, letter: mean}  # by mark
        if variant in comparison.k_runs:
            k_run = comparison.k_runs[variant].set_index("epoch")
            accuracies[letter.upper()] = k_run["val_accuracy"]
        for mark, shares in accuracies.items():
            percents = list(100 * shares)
            points = figure.signal(list(shares.index), percents, marker=plotext.marker(mark))
            figure.draw(points.lines() if mark == "braille" else points)
    if comparison.k_runs:
        legend.append("capitals: K's run")
    picture = figure.build().string(colorless=True).rstrip("\n")
    return Text(f"Validation accuracy, %, by epoch\n{picture}\n{'   '.join(legend)}\n")
