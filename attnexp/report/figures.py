"""Pictures of a comparison or of a model: curves, forest, attention, positions.

Plain matplotlib in one light style, for a paper, a talk or the page. They hold no notes: what a
reader must know besides the axes is for the caption. D is the width.
"""

import math
import textwrap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attnexp.analysis.frames import Group
from attnexp.base.errors import UserError
from attnexp.base.files import atomic_write
from attnexp.report import tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from attnexp.inspect.insight import Reading

KINDS = {"svg": "Date", "pdf": "CreationDate", "png": "Creation Time"}
"""Endings of the files that can be written, and the metadata that would differ each time."""

METRICS = {
    "accuracy": ("val_accuracy", "accuracy on {}, %", 100),
    "loss": ("val_loss", "loss on {}, nats", 1),
    "train_loss": ("train_loss", "loss on train, dropout on, nats", 1),
}
"""Metrics that curves can show: column of `epochs`, label, factor."""

INK, MUTED, RULE, PAPER = "#1b1d21", "#5a5f68", "#d8d5cc", "#ffffff"
"""Colours of text, of what steps back, of lines behind, and of the background."""

SERIES = ("#70757d", "#0e5dd9", "#d97a05", "#1fa867", "#9342a2", "#c52028", "#8e88e8", "#ab85bf")
"""Colours of variants, the baseline's first: contrast 3 on white and on the page's dark background,
and apart for readers who see no red or no green."""

MARKERS = "osD^vPX"
"""Markers of variants; one less than colours, so that no two of 56 variants look alike."""

STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "attnexp",
    "pdf.fonttype": 42,
    "savefig.dpi": 200,
    "font.sans-serif": ["DejaVu Sans"],
    "text.parse_math": False,
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": RULE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": RULE,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "legend.frameon": False,
    "image.interpolation": "none",
}


@contextmanager
def light_style() -> Iterator[None]:
    """Draw in our style, whatever the reader's matplotlibrc says."""
    from matplotlib import style

    with style.context(["default", STYLE]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # another font has it
        yield


@light_style()
def save(figure: "Figure", path: Path, size: tuple[float, float] | None = None) -> None:
    """Write a picture as svg, whose text is text, as pdf or as png; the same numbers give the same
    bytes.

    size: width and height in inches; the file is larger where a label would be cut. Raises
    `UserError` for another ending.
    """
    from matplotlib.transforms import Bbox

    kind = path.suffix.lower().removeprefix(".")
    if kind not in KINDS:
        raise UserError(f"{path} is no picture: give --figure a name in .{', .'.join(KINDS)}.")
    figure.set_size_inches(*(size or figure.get_size_inches()))
    with atomic_write(path) as file:
        figure.draw_without_rendering()
        whole = Bbox.union([figure.bbox_inches, figure.get_tightbbox()])
        figure.savefig(file, format=kind, bbox_inches=whole, metadata={KINDS[kind]: None})


@light_style()
def curves(group: Group, metric: str = "accuracy") -> "Figure":
    """A metric of `METRICS` over the epochs: mean over seeds in a band of ± one sd, K's run dashed.

    Raises `UserError` where there are no epochs.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    column, title, factor = METRICS[metric]
    rows = group.epochs[group.epochs["metric"] == column]
    if rows.empty:
        raise UserError(f"There is no curve to draw: these results have no {metric} by epoch.")
    found = rows.groupby(["variant", "epoch"])["value"].agg(["mean", "std", "count"])
    names = [name for name in group.variants if name in found.index]
    num_columns = 2 if max(map(len, names)) < 16 else 1
    height = 3 + 0.2 * len(names) / num_columns
    axes = (figure := Figure(figsize=(5, height), layout="constrained")).subplots()
    published = group.published.reindex(columns=["variant", "epoch", column])
    k_style: dict[str, Any] = {"ls": (0, (3, 2)), "lw": 1.2}
    for name, colour, marker in zip(names, cycle(SERIES), cycle(MARKERS), strict=False):
        own, k = found.loc[name], published[published["variant"] == name]
        mean, sd = factor * own["mean"], factor * own["std"].fillna(0)
        style: dict[str, Any] = {"color": colour, "marker": marker}
        label = f"{_wrapped(name)}, n = {own['count'].max()}"
        axes.fill_between(own.index, mean - sd, mean + sd, color=colour, alpha=0.18, lw=0)
        axes.plot(own.index, mean, label=label, zorder=3, **style)
        axes.plot(k["epoch"], factor * k[column], mfc=PAPER, zorder=2.5, **style, **k_style)
    if len(published):
        axes.plot([], [], color=MUTED, label="K's published run", **k_style)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=num_columns)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1))
    axes.set_xlabel("epoch")
    axes.set_ylabel(title.format("test" if group.protocol == "blog" else "held-out data"))
    return figure


@light_style()
def forest(differences: pd.DataFrame) -> "Figure":
    """Mean differences with their intervals, the margin shaded; thin: for other seeds and texts.

    differences: rows of `contrasts.differences` or `within`. Of several data sets, each comparison
    has a panel with a line for each of them; rows of `contrasts.across` after them add the mean and
    the interval of the next one. Raises `UserError` where there are no rows.
    """
    from matplotlib.figure import Figure

    if differences.empty:
        raise UserError("There is no difference to draw: no two variants share a seed.")
    rows = differences.assign(name=differences.apply(tables.name_of, axis=1))
    several = rows["data"].nunique() > 1
    if "next_low" in rows:
        then = rows.dropna(subset="next_low").assign(data="next data set", mean=math.nan)
        rows = pd.concat([rows, then.assign(low=then["next_low"], high=then["next_high"])])
    rows["text"] = rows["data" if several else "name"].map(_wrapped)
    rows["height"] = 1 + 0.45 * rows["text"].str.count("\n")
    keys = ["metric", "name"] if several else ["metric"]
    panels = [own for _, own in rows.groupby(keys, sort=False)]
    heights = [1 + 0.42 * own["height"].sum() for own in panels]
    figure = Figure(figsize=(5.5, sum(heights)), layout="constrained")
    each = figure.subplots(len(panels), squeeze=False, height_ratios=heights).flat
    for axes, own in zip(each, panels, strict=True):
        first, of_width = own.iloc[0], axes.get_yaxis_transform()
        factor, unit = (100, ", points") if first["is_share"] else (1, "")
        margin = factor * first["margin"]
        axes.axvspan(-margin, margin, color=MUTED, alpha=0.13, lw=0)
        for y, (_, row) in zip(own["height"].cumsum(), own.iterrows(), strict=True):
            size = "" if math.isnan(row["mean"]) else tables.mean_of(row)
            size = f"{size} {tables.bounds_of(row)}".replace("-", "−")
            axes.text(0, y, row["text"], weight="bold", va="bottom", transform=of_width)
            axes.text(1, y, size, ha="right", va="bottom", transform=of_width)
            axes.vlines(0, y + 0.08, y + 0.48, color=MUTED, lw=1)
            for names, width in ((["low", "high"], 2.2), (["texts_low", "texts_high"], 1)):
                ends = factor * row.reindex(names).astype(float)
                if np.isfinite(ends).all():
                    axes.plot(ends, [y + 0.28] * 2, color=INK, lw=width, solid_capstyle="butt")
            axes.plot(factor * row["mean"], y + 0.28, "o", color=INK)
        axes.set_title(first["name"] if several else "", loc="left", fontsize=10)
        axes.set(xlabel=f"difference in {first['metric']}{unit}", ylim=(y + 0.7, 0.4), yticks=[])
        axes.grid(visible=False)
        axes.spines["left"].set_visible(False)
    return figure


@light_style()
def attention(reading: "Reading") -> "Figure":
    """Attention of the first layer with its words, the mean of the heads.

    Colour is the weight as a multiple of uniform attention, on one scale for all texts, which
    ends at 4 as in `insight.shade`.
    """
    from matplotlib.figure import Figure

    seen, tokens = reading.attention(), [_wrapped(text, 24) for text in reading.marked]
    side = max(4.2, 1.4 + 0.19 * len(tokens))  # with less for a word, words overlap
    figure = Figure(figsize=(side + 0.8, side), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(seen.mean * seen.num_keys, cmap="Blues", vmin=0, vmax=4)
    axes.set_xticks(range(len(tokens)), tokens, rotation=90)
    axes.set_yticks(range(len(tokens)), tokens)
    axes.tick_params(length=0, labelcolor=INK)
    axes.set(xlabel="key", ylabel="query")
    axes.grid(visible=False)
    figure.colorbar(image, extend="max", label="attention, 1 is uniform", shrink=0.8)
    return figure


@light_style()
def positions(table: NDArray[Any]) -> "Figure":
    """A table of positions (positions, D) as a heat map: purple above 0, orange below."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5, 4), layout="constrained")
    axes, far = figure.subplots(), float(np.abs(table).max()) or 1.0
    image = axes.imshow(table, cmap="PuOr", vmin=-far, vmax=far, aspect="auto")
    axes.set(xlabel="column", ylabel="position")
    axes.grid(visible=False)
    figure.colorbar(image, label="value")
    return figure


def _wrapped(text: str, width: int = 32) -> str:
    """Text of users in lines, without characters that an svg cannot hold."""
    return textwrap.fill("".join(filter(str.isprintable, text)), width)
