"""Pictures of a comparison or of a model, by plain matplotlib, for a paper, a talk or the page.

What a reader must know besides the axes is for the caption. D is the width.
"""

import io
import textwrap
from itertools import chain, cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib import style
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import Bbox
from numpy.typing import NDArray

from attnexp.analysis.frames import Group
from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.base.files import atomic_write
from attnexp.report import tables

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

own_style = style.context(["default", STYLE])  # whatever the reader's matplotlibrc says


@own_style
def drawn(figure: Figure, kind: str) -> bytes:
    """A picture as svg, whose text is text, as pdf or png; larger where a label would be cut. The
    same numbers give the same bytes."""
    figure.draw_without_rendering()
    whole = Bbox.union([figure.bbox_inches, figure.get_tightbbox()])
    file = io.BytesIO()
    figure.savefig(file, format=kind, bbox_inches=whole, metadata={KINDS[kind]: None})
    return file.getvalue()


def save(figure: Figure, path: Path) -> None:
    """Write a picture, as in `drawn`. Raises `UserError` for a name with another ending."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in KINDS:
        raise UserError(f"{path} is no picture: give --figure a name in .{', .'.join(KINDS)}.")
    with atomic_write(path) as file:
        file.write(drawn(figure, kind))
    progress.note(f"Wrote {path}.")


@own_style
def curves(group: Group) -> Figure:
    """Validation accuracy over the epochs: mean over seeds in a band of ± one sd, K's run dashed.
    Raises `UserError` where there are no epochs."""
    rows = group.epochs[group.epochs["metric"] == "val_accuracy"]
    if rows.empty:
        raise UserError("There is no curve to draw: these results have no accuracy by epoch.")
    found = rows.groupby(["variant", "epoch"])["value"].agg(["mean", "std", "count"])
    names = [name for name in group.variants if name in found.index]
    num_columns = 2 if max(map(len, names)) < 16 else 1
    height = 3 + 0.2 * len(names) / num_columns
    axes = (figure := Figure(figsize=(5, height), layout="constrained")).subplots()
    published = group.published.reindex(columns=["variant", "epoch", "val_accuracy"])
    k_style: dict[str, Any] = {"ls": (0, (3, 2)), "lw": 1.2}
    colours = chain(SERIES, cycle(SERIES[1:]))
    for name, colour, marker in zip(names, colours, cycle(MARKERS), strict=False):
        own, k = found.loc[name], published[published["variant"] == name]
        mean, sd = 100 * own["mean"], 100 * own["std"].fillna(0)
        look: dict[str, Any] = {"color": colour, "marker": marker}
        label = f"{_wrapped(name)}, n = {own['count'].max()}"
        axes.fill_between(own.index, mean - sd, mean + sd, color=colour, alpha=0.18, lw=0)
        axes.plot(own.index, mean, label=label, zorder=3, **look)
        axes.plot(k["epoch"], 100 * k["val_accuracy"], mfc="white", zorder=2.5, **look, **k_style)
    if len(published):
        axes.plot([], [], color="grey", label="K's published run", **k_style)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=num_columns)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1))
    axes.grid(alpha=0.4)
    where = "test" if group.protocol == "blog" else "held-out data"
    axes.set(xlabel="epoch", ylabel=f"accuracy on {where}, %")
    return figure


@own_style
def forest(differences: pd.DataFrame) -> Figure:
    """Mean differences with their intervals, the margin shaded; thin: the wider interval, for other
    seeds and texts, or of the next data set. differences: rows of `contrasts`, of one metric.
    Raises `UserError` where there are none."""
    if differences.empty:
        raise UserError("There is no difference to draw: no two variants share a seed.")
    rows = differences.assign(name=differences.apply(tables.name_of, axis=1))
    rows = pd.concat([own for _, own in rows.groupby("name", sort=False)])
    where = rows["data"] + ": " if rows["data"].nunique() > 1 else ""
    texts = (where + rows["name"]).map(_wrapped)
    bottoms = (1 + 0.45 * texts.str.count("\n")).cumsum()  # of the texts; bars are below them
    height = 1 + 0.42 * bottoms.iloc[-1]
    axes = (figure := Figure(figsize=(5.5, height), layout="constrained")).subplots()
    first, of_width = rows.iloc[0], axes.get_yaxis_transform()
    factor, unit = (100, ", points") if first["is_share"] else (1, "")
    margin = factor * first["margin"]
    for y, text, (_, row) in zip(bottoms, texts, rows.iterrows(), strict=True):
        axes.text(0, y, text, weight="bold", va="bottom", transform=of_width)
        axes.text(1, y, tables.size_of(row), ha="right", va="bottom", transform=of_width)
        axes.fill_between([-margin, margin], y + 0.08, y + 0.48, color="grey", alpha=0.18, lw=0)
        axes.vlines(0, y + 0.08, y + 0.48, color="grey", lw=1)
        for prefix, width in (("", 2.2), ("texts_", 1), ("next_", 1)):
            ends = factor * row.reindex([f"{prefix}low", f"{prefix}high"]).astype(float)
            if np.isfinite(ends).all():
                axes.plot(ends, [y + 0.28] * 2, color="black", lw=width, solid_capstyle="butt")
        axes.plot(factor * row["mean"], y + 0.28, "o", color="black")
    axes.set(xlabel=f"difference in {first['metric']}{unit}", ylim=(y + 0.7, 0.4), yticks=[])
    axes.spines["left"].set_visible(False)
    return figure


@own_style
def attention(reading: "Reading") -> Figure:
    """Attention of the first layer with its words, the mean of the heads. The scale of colours ends
    at the largest weight; what goes to padding is said beside the keys."""
    from attnexp.report.reading import describe_padding  # imports torch

    seen = reading.attention()
    largest = float(seen.mean.max()) or 1.0
    padding = describe_padding(seen)
    tokens = [_wrapped(text, 24) for text in reading.marked]
    side = max(4.2, 1.4 + 0.19 * len(tokens))  # with less for a word, words overlap
    axes = (figure := Figure(figsize=(side + 0.8, side), layout="constrained")).subplots()
    image = axes.imshow(seen.mean, cmap="Blues", vmin=0, vmax=largest)
    axes.set_xticks(range(len(tokens)), tokens, rotation=90)
    axes.set_yticks(range(len(tokens)), tokens)
    axes.set(xlabel=f"key ({padding})" if padding else "key", ylabel="query")
    ticks = [0, largest / 2, largest]
    figure.colorbar(image, label="attention weight", ticks=ticks, format="%.3g", shrink=0.8)
    return figure


@own_style
def positions(table: NDArray[Any]) -> Figure:
    """A table of positions (positions, D) as a heat map: purple above 0, orange below."""
    far = float(np.abs(table).max()) or 1.0
    axes = (figure := Figure(figsize=(5.5, 4), layout="constrained")).subplots()
    image = axes.imshow(table, cmap="PuOr", vmin=-far, vmax=far, aspect="auto")
    axes.set(xlabel="column", ylabel="position")
    figure.colorbar(image, label="value")
    return figure


def _wrapped(text: str, width: int = 32) -> str:
    """Text of users in lines, without characters that an svg cannot hold."""
    return textwrap.fill("".join(filter(str.isprintable, text)), width)
