"""Pictures of a comparison or of a model, by plain matplotlib, for a paper, a talk or the page."""

from collections.abc import Iterable, Sequence
from itertools import chain, cycle
from pathlib import Path
from textwrap import fill
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from attnexp.analysis.answer import Answer, Comparison
from attnexp.analysis.contrasts import Difference
from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.report import Record
from attnexp.report.cells import describe_padding, format_size, name_of, wider_bounds

if TYPE_CHECKING:
    from attnexp.inspect.insight import Reading

KINDS = ("svg", "pdf", "png")  # endings of the files that can be written
SERIES = ("#70757d", "#0e5dd9", "#d97a05", "#1fa867", "#9342a2", "#c52028", "#8e88e8", "#ab85bf")
MARKERS = "osD^vPX>"
"""Of variants, the baseline's first. Colours have contrast 3 and differ for the colour-blind."""

STYLE = {
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "savefig.dpi": 200,
    "text.parse_math": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "image.interpolation": "none",
}

K_STYLE: Record = {"linestyle": (0, (3, 2)), "linewidth": 1.2}
BAND_STYLE: Record = {"alpha": 0.18, "linewidth": 0}
LINE = 32  # letters of a name in a line
SHORT_LINE = 24
own_style = style.context(["default", STYLE])  # whatever the reader's matplotlibrc says


@own_style
def write_figure(figure: Figure, file: IO[bytes] | Path, kind: str) -> None:
    """Write a picture that is as large as all its labels need."""
    figure.savefig(file, format=kind, bbox_inches="tight")


def draw_picture(show: str, answer: Answer, readings: Iterable[tuple[str, "Reading"]]) -> Figure:
    """The picture of this name, of the first reading that has one. Raises `UserError` without."""
    if show == "curves":
        return draw_curves(answer.comparisons)
    if show == "forest":
        return draw_forest(answer.differences)
    for _, reading in readings:
        if show == "attention" and reading.layers:
            return draw_attention(reading)
        if show == "positions" and reading.table is not None:
            return draw_positions(reading.table)
    raise UserError(f"No run of --run has {show} to show. Give one with --run RUN_DIR.")


def save_figure(figure: Figure, path: Path) -> None:
    """Write a picture to a file. Raises `UserError` for an ending that is not in `KINDS`."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in KINDS:
        endings = ", .".join(KINDS)
        raise UserError(f"{path} is no picture: give --figure a name in .{endings}.")
    write_figure(figure, path, kind)
    progress.note(f"Wrote {path}.")


@own_style
def draw_curves(comparisons: Sequence[Comparison]) -> Figure:
    """Validation accuracy by epoch, mean ± sd, a panel for each data set. Raises `UserError`."""
    panels = [comparison for comparison in comparisons if len(comparison.curve)]
    if not panels:
        raise UserError("There is no curve to draw: these results have no accuracy by epoch.")
    heights = [3.2 + 0.2 * len(comparison.group.variants) for comparison in panels]
    figure = Figure(figsize=(5, sum(heights)), layout="constrained")
    all_axes = figure.subplots(len(panels), squeeze=False, height_ratios=heights)
    for comparison, axes in zip(panels, all_axes.flat, strict=True):
        _draw_curves_of(comparison, axes)
    return figure


def _draw_curves_of(comparison: Comparison, axes: Axes) -> None:
    group = comparison.group
    curve = comparison.curve
    colours = chain(SERIES, cycle(SERIES[1:]))
    markers = cycle(MARKERS)
    for variant, colour, marker in zip(group.variants, colours, markers, strict=False):
        ours = curve[curve["variant"] == variant]
        epochs = ours["epoch"]
        mean = 100 * ours["mean"]
        sd = 100 * ours["sd"]
        axes.fill_between(epochs, mean - sd, mean + sd, color=colour, **BAND_STYLE)
        look: Record = {"color": colour, "marker": marker}
        label = f"{fill(variant, LINE)}, n = {ours['n'].max()}"
        axes.plot(epochs, mean, label=label, zorder=3, **look)
        if variant in comparison.k_runs:
            k_run = comparison.k_runs[variant]
            k_accuracies = 100 * k_run["val_accuracy"]
            axes.plot(k_run["epoch"], k_accuracies, mfc="white", zorder=2.5, **look, **K_STYLE)
    if comparison.k_runs:
        axes.plot([], [], color="grey", label="K's published run", **K_STYLE)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1))
    ticks = MaxNLocator(nbins=8, integer=True, min_n_ticks=1)
    axes.xaxis.set_major_locator(ticks)
    axes.grid(alpha=0.4)
    axes.set_xlabel("epoch")
    texts = "test" if group.protocol == "blog" else "held-out data"
    axes.set_ylabel(f"{fill(group.data, LINE)}: accuracy on {texts}, %")


@own_style
def draw_forest(rows: Sequence[Difference]) -> Figure:
    """Differences by one metric with their intervals, the wider one thin. Raises `UserError`."""
    if not rows:
        raise UserError("There is no difference to draw: no two variants share a seed.")
    names = [name_of(row) for row in rows]
    rows = sorted(rows, key=lambda row: names.index(name_of(row)))
    has_several = len({row.data for row in rows}) > 1
    labels = []
    for row in rows:
        data = f"{row.data}: " if has_several else ""
        labels.append(fill(data + name_of(row), SHORT_LINE))
    most_lines = 1 + max(label.count("\n") for label in labels)
    height = 1.2 + len(rows) * (0.15 + 0.17 * most_lines)
    figure = Figure(figsize=(6.5, height), layout="constrained")
    axes = figure.subplots()
    metric = rows[0].metric
    for y, row in enumerate(rows):
        for bounds, width in [(row.interval.bounds, 2.2), (wider_bounds(row), 1.0)]:
            ends = metric.unit * np.array(bounds)
            axes.plot(ends, [y, y], color="black", lw=width, solid_capstyle="butt")
        axes.plot(metric.unit * row.interval.mean, y, "o", color="black")
    margin = metric.unit * metric.margin
    axes.axvspan(-margin, margin, color="grey", **BAND_STYLE)
    axes.axvline(0, color="grey", lw=1, zorder=1)
    places = range(len(rows))
    axes.set_yticks(places, labels)
    sizes = axes.secondary_yaxis("right")
    sizes.set_yticks(places, [format_size(row.interval, metric) for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    unit = ", points" if metric.is_share else ""
    axes.set_xlabel(f"difference in {metric.name}{unit}")
    return figure


@own_style
def draw_attention(reading: "Reading") -> Figure:
    """Attention of the first layer with its words, the mean of the heads, without padding."""
    attention = reading.attention()
    weights = attention.mean
    largest = float(weights.max()) or 1.0
    tokens = [fill(text, SHORT_LINE) for text in reading.marked]
    positions = range(len(tokens))
    side = max(4.2, 1.4 + 0.19 * len(tokens))  # with less for a word, words overlap
    figure = Figure(figsize=(side + 0.8, side), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(weights, cmap="Blues", vmin=0, vmax=largest)
    axes.set_xticks(positions, tokens, rotation=90)
    axes.set_yticks(positions, tokens)
    padding = describe_padding(attention.padding_share)
    axes.set_xlabel(f"key ({padding})" if padding else "key")
    axes.set_ylabel("query")
    figure.colorbar(
        image,
        label="attention weight",
        ticks=[0, largest / 2, largest],
        format="%.3g",
        shrink=0.8,
    )
    return figure


@own_style
def draw_positions(table: NDArray[Any]) -> Figure:
    """A table of positions (positions, width) as a heat map: purple above 0, orange below."""
    largest = float(np.abs(table).max()) or 1.0
    figure = Figure(figsize=(5.5, 4), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(
        table,
        cmap="PuOr",
        vmin=-largest,
        vmax=largest,
        aspect="auto",
    )
    axes.set_xlabel("column")
    axes.set_ylabel("position")
    figure.colorbar(image, label="value")
    return figure
