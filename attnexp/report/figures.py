"""Pictures of a comparison or of a model, by plain matplotlib, for a paper, a talk or the page.

What a reader must know besides the axes is for the caption. D is the width.
"""

import io
import textwrap
import warnings
from collections.abc import Sequence
from itertools import chain, cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import font_manager, style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import Bbox
from numpy.typing import NDArray

from attnexp.analysis.answer import Comparison
from attnexp.analysis.contrasts import Difference
from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.base.files import atomic_write
from attnexp.report.cells import describe_padding, name_of, size_of

if TYPE_CHECKING:
    from attnexp.inspect.insight import Reading

KINDS = {"svg": "Date", "pdf": "CreationDate", "png": "Creation Time"}
"""Endings of the files that can be written, and the metadata that would differ each time."""

SERIES = ("#70757d", "#0e5dd9", "#d97a05", "#1fa867", "#9342a2", "#c52028", "#8e88e8", "#ab85bf")
MARKERS = "osD^vPX>"
"""Colours and markers of variants, the baseline's first and its colour never again, so that no two
of 56 look alike. Colours have contrast 3 on white, and differ for readers who see no red or no
green."""

STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "attnexp",
    "pdf.fonttype": 42,
    "savefig.dpi": 200,
    "text.parse_math": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "image.interpolation": "none",
}

K_STYLE: dict[str, Any] = {"ls": (0, (3, 2)), "lw": 1.2}
INTERVAL_STYLE: dict[str, Any] = {"color": "black", "lw": 2.2}
WIDER_STYLE: dict[str, Any] = {"color": "black", "lw": 1.0}
BAND_STYLE: dict[str, Any] = {"alpha": 0.18, "lw": 0}

own_style = style.context(["default", STYLE])  # whatever the reader's matplotlibrc says


@own_style
def render_figure(figure: Figure, kind: str) -> bytes:
    """A picture of always the same bytes. Raises `UserError` for characters that no font has."""
    if kind != "svg":
        _choose_font(figure)
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # an svg is shown with the reader's fonts
        figure.draw_without_rendering()
        whole = Bbox.union([figure.bbox_inches, figure.get_tightbbox()])  # no label is cut
        metadata = {KINDS[kind]: None}
        figure.savefig(file, format=kind, bbox_inches=whole, metadata=metadata)
    return file.getvalue()


def _choose_font(figure: Figure) -> None:
    """Give all texts a font beside the usual one that has the characters which this one lacks."""
    texts = figure.findobj(Text)
    characters = {character for text in texts for character in text.get_text().strip()}
    usual = font_manager.findfont(FontProperties())
    codes = {ord(character) for character in characters - {"\n"}}
    missing = codes - _codes_of(usual)
    if not missing:
        return
    for font in font_manager.fontManager.ttflist:
        is_upright = font.weight == 400 and font.style == "normal"
        if not is_upright or "Last Resort" in font.name:  # which has a box for everything
            continue
        if missing <= _codes_of(font.fname):
            for text in texts:
                text.set_fontfamily(["sans-serif", font.name])
            return
    letters = "".join(map(chr, sorted(missing)))[:9]
    raise UserError(f"No font here has {letters}. Name the picture .svg: readers' fonts show it.")


def _codes_of(font: str) -> set[int]:
    """Characters, as `ord` gives them, that a file of a font has."""
    return set(font_manager.get_font(font).get_charmap())


def save_figure(figure: Figure, path: Path) -> None:
    """Write a picture, as `render_figure` gives it. Raises `UserError` for another ending."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in KINDS:
        endings = ", .".join(KINDS)
        raise UserError(f"{path} is no picture: give --figure a name in .{endings}.")
    with atomic_write(path) as file:
        file.write(render_figure(figure, kind))
    progress.note(f"Wrote {path}.")


@own_style
def draw_curves(comparisons: Sequence[Comparison]) -> Figure:
    """Validation accuracy over the epochs, a panel for each data set: mean over seeds in a band of
    ± one sd, K's run dashed. Raises `UserError` where there are no epochs."""
    panels = [comparison for comparison in comparisons if len(comparison.curve)]
    if not panels:
        raise UserError("There is no curve to draw: these results have no accuracy by epoch.")
    heights = []
    for comparison in panels:
        names = comparison.group.variants
        num_rows = len(names) / _num_legend_columns(names)
        heights.append(3 + 0.2 * num_rows)
    figure = Figure(figsize=(5, sum(heights)), layout="constrained")
    all_axes = figure.subplots(len(panels), squeeze=False, height_ratios=heights)
    column = all_axes[:, 0]
    for comparison, axes in zip(panels, column, strict=True):
        _draw_curves_of(comparison, axes)
        if len(panels) > 1:
            name = _break_lines(comparison.group.data)
            axes.set_ylabel(f"{name}: {axes.get_ylabel()}")
    return figure


def _draw_curves_of(comparison: Comparison, axes: Axes) -> None:
    """The curves of one data set."""
    group = comparison.group
    curve = comparison.curve
    colours = chain(SERIES, cycle(SERIES[1:]))
    markers = cycle(MARKERS)
    for variant, colour, marker in zip(group.variants, colours, markers, strict=False):
        ours = curve[curve["variant"] == variant]
        if ours.empty:
            continue
        epochs = ours["epoch"]
        mean = 100 * ours["mean"]
        sd = 100 * ours["sd"].fillna(0)
        low = (mean - sd).clip(0, 100)
        high = (mean + sd).clip(0, 100)
        axes.fill_between(epochs, low, high, color=colour, **BAND_STYLE)
        look: dict[str, Any] = {"color": colour, "marker": marker}
        num_seeds = ours["n"].max()
        label = f"{_break_lines(variant)}, n = {num_seeds}"
        axes.plot(epochs, mean, label=label, zorder=3, **look)
        k_run = group.k_run(variant)
        k_accuracies = 100 * k_run["val_accuracy"]
        axes.plot(k_run["epoch"], k_accuracies, mfc="white", zorder=2.5, **look, **K_STYLE)
    if len(group.published):
        axes.plot([], [], color="grey", label="K's published run", **K_STYLE)
    num_columns = _num_legend_columns(group.variants)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=num_columns)
    ticks = MaxNLocator(nbins=8, integer=True, min_n_ticks=1)
    axes.xaxis.set_major_locator(ticks)
    axes.grid(alpha=0.4)
    axes.set_xlabel("epoch")
    texts = "test" if group.protocol == "blog" else "held-out data"
    axes.set_ylabel(f"accuracy on {texts}, %")


def _num_legend_columns(names: Sequence[str]) -> int:
    return 2 if max(map(len, names)) < 16 else 1


@own_style
def draw_forest(rows: Sequence[Difference]) -> Figure:
    """Mean differences with their intervals, the wider one thin, and the margin shaded. rows: of
    one metric; those of one name stand together. Raises `UserError` where there are none."""
    if not rows:
        raise UserError("There is no difference to draw: no two variants share a seed.")
    names = list(dict.fromkeys(map(name_of, rows)))
    rows = sorted(rows, key=lambda row: names.index(name_of(row)))
    data_sets = {row.data for row in rows}
    texts = []
    for row in rows:
        text = name_of(row)
        if len(data_sets) > 1:
            text = f"{row.data}: {text}"
        texts.append(_break_lines(text))
    # bottoms of the texts; bars are below them
    heights = [1 + 0.45 * text.count("\n") for text in texts]
    bottoms = np.cumsum(heights).tolist()
    lowest = bottoms[-1]
    height = 1.3 + 0.42 * lowest
    figure = Figure(figsize=(5.5, height), layout="constrained")
    axes = figure.subplots()
    for y, text, row in zip(bottoms, texts, rows, strict=True):
        _draw_forest_row(axes, y, text, row)
    metric = rows[0].metric
    unit = ", points" if metric.in_points else ""
    axes.set_xlabel(f"difference in {metric.name}{unit}")
    # what the lines are, for the legend
    names_of_thin = ["next data set" if row.is_mean else "other texts too" for row in rows]
    thin = " or ".join(dict.fromkeys(names_of_thin))
    axes.plot([], [], label="95 % interval", **INTERVAL_STYLE)
    axes.plot([], [], label=thin, **WIDER_STYLE)
    margin_style = BAND_STYLE | {"color": "grey", "lw": 7}
    axes.plot([], [], label="± margin", **margin_style)
    figure.legend(loc="outside upper left", ncols=3, fontsize="small", columnspacing=1)
    axes.set_yticks([])
    axes.set_ylim(lowest + 0.7, 0.4)
    axes.spines["left"].set_visible(False)
    return figure


def _draw_forest_row(axes: Axes, y: float, text: str, row: Difference) -> None:
    """Name and size of a difference at height y, and below them its intervals."""
    of_width = axes.get_yaxis_transform()
    axes.text(0, y, text, weight="bold", va="bottom", transform=of_width)
    size = size_of(row)
    axes.text(1, y, size, ha="right", va="bottom", transform=of_width)
    top = y + 0.08
    middle = y + 0.28
    bottom = y + 0.48
    factor = 100 if row.metric.is_share else 1
    margin = factor * row.metric.margin
    axes.fill_between([-margin, margin], top, bottom, color="grey", **BAND_STYLE)
    axes.vlines(0, top, bottom, color="grey", lw=1)
    interval = row.interval
    thick = (interval.low, interval.high)
    thin = row.next if row.is_mean else row.texts
    for bounds, line_style in ((thick, INTERVAL_STYLE), (thin, WIDER_STYLE)):
        if bounds is not None and np.isfinite(bounds).all():
            ends = factor * np.array(bounds)
            heights = [middle, middle]
            axes.plot(ends, heights, solid_capstyle="butt", **line_style)
    mean = factor * interval.mean
    axes.plot(mean, middle, "o", color="black")


@own_style
def draw_attention(reading: "Reading") -> Figure:
    """Attention of the first layer with its words, the mean of the heads. The scale of colours ends
    at the largest weight; what goes to padding is said beside the keys."""
    attention = reading.attention()
    weights = attention.mean
    largest = float(weights.max()) or 1.0
    tokens = [_break_lines(text, 24) for text in reading.marked]
    positions = range(len(tokens))
    side = max(4.2, 1.4 + 0.19 * len(tokens))  # with less for a word, words overlap
    width = side + 0.8
    figure = Figure(figsize=(width, side), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(weights, cmap="Blues", vmin=0, vmax=largest)
    axes.set_xticks(positions, tokens, rotation=90)
    axes.set_yticks(positions, tokens)
    padding = describe_padding(attention.padding_share)
    axes.set_xlabel("key")
    if padding:
        axes.set_xlabel(f"key ({padding})")
    axes.set_ylabel("query")
    ticks = [0, largest / 2, largest]
    figure.colorbar(image, label="attention weight", ticks=ticks, format="%.3g", shrink=0.8)
    return figure


@own_style
def draw_positions(table: NDArray[Any]) -> Figure:
    """A table of positions (positions, D) as a heat map: purple above 0, orange below."""
    largest = float(np.abs(table).max()) or 1.0
    figure = Figure(figsize=(5.5, 4), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(table, cmap="PuOr", vmin=-largest, vmax=largest, aspect="auto")
    axes.set_xlabel("column")
    axes.set_ylabel("position")
    figure.colorbar(image, label="value")
    return figure


def _break_lines(text: str, width: int = 32) -> str:
    """Text of users in lines, without characters that an svg cannot hold."""
    printable = "".join(filter(str.isprintable, text))
    return textwrap.fill(printable, width)
