"""The report's pictures: matplotlib draws them, in the colours of the page or of a file.

Each function returns a `Picture`. On a page it is one `<svg>` element: text is text, colours are
the page's CSS variables (so a picture follows the reader's light or dark theme), ids are its own.
`stand_alone` makes a file. The same figures give the same bytes. Units are CSS pixels: a picture is
400 wide and legible as it is on a phone.

Shapes: H heads, T tokens, D width.
"""

import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from attnexp.report.comparison import Comparison, Variant
from attnexp.report.plots import shorten
from attnexp.report.tables import MOST_EACH
from attnexp.statistics.paired import Paired
from attnexp.statistics.verdict import POINTS, Unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

WIDTH = 400
"""Of every picture; only the small maps of single heads are narrower."""

TOGETHER = 4
"""Variants that share a picture with the baseline: more lines would hide each other."""

THEME = {
    "#000001": "var(--ink)",
    "#000002": "var(--muted)",
    "#000003": "var(--rule)",
    "#000004": "var(--paper)",
    "#000010": "var(--s0)",
    "#000011": "var(--s1)",
    "#000012": "var(--s2)",
    "#000013": "var(--s3)",
    "#000014": "var(--s4)",
}
"""Colours that nobody would draw with, and what the page has in their place."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Colours:
    """What a picture is painted with."""

    ink: str
    muted: str
    rule: str
    paper: str
    """Of hollow marks."""
    series: tuple[str, ...]
    """By place, the baseline first."""


_INK, _MUTED, _RULE, _PAPER, *_SERIES = THEME

PAGE = Colours(ink=_INK, muted=_MUTED, rule=_RULE, paper=_PAPER, series=tuple(_SERIES))

FILE = Colours(
    ink="#757575",
    muted="#757575",
    rule="#75757555",
    paper="none",
    series=("#7d828a", "#2e82c8", "#d4600f", "#128a66", "#b05fa0"),
)
"""On nothing, since a file is seen on white and on black: what has a contrast of 4.5 (text) and 3
(lines) against both."""

SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
"""Fonts of an SVG file; others embed matplotlib's own."""

MARKERS = "osD^v"
"""By place, like a series: a line is known without its colour. The page's legends follow."""

DASHES = ("-", "-", (0, (4, 2)), (0, (1, 1)), (0, (6, 2, 1, 2)))
"""By place, where lines have no markers."""

K_DASHES = (0, (3, 2))
"""Of K's published run."""

BLUE, ORANGE = (0.20, 0.47, 0.80), (0.85, 0.42, 0.05)
"""Heat maps are one hue fading into the page, whatever colour that has."""


def _style(colours: Colours) -> dict[str, Any]:
    return {
        "svg.fonttype": "none",
        "svg.hashsalt": "attnexp",
        "pdf.fonttype": 42,
        "figure.facecolor": "none",
        "axes.facecolor": "none",
        "savefig.facecolor": "none",
        "font.size": 11,
        "axes.titlesize": 11,
        "axes.labelsize": 11,
        "xtick.labelsize": 11,
        "ytick.labelsize": 11,
        "text.color": colours.ink,
        "axes.edgecolor": colours.rule,
        "axes.labelcolor": colours.muted,
        "xtick.color": colours.rule,
        "ytick.color": colours.rule,
        "xtick.labelcolor": colours.muted,
        "ytick.labelcolor": colours.muted,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": colours.rule,
        "grid.linewidth": 0.6,
        "lines.linewidth": 1.8,
        "lines.markersize": 4.5,
    }


_XLINK = "{http://www.w3.org/1999/xlink}"

Paint = Callable[["FigureBase", Colours], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    """A drawing before it has colours."""

    paint: Paint
    height: int
    width: int = WIDTH
    fit: bool = True
    """Whether matplotlib finds room for what stands beside the axes."""
    key: tuple[str, ...] = ()
    """What its series stand for, by place; a page says so beside the picture."""
    with_k: bool = False
    """Whether K's published run is drawn too."""

    def inline(self, *, name: str, alt: str) -> str:
        """One `<svg>` element for use inside HTML; `name` must be unique on the page."""
        size = (self.width, self.height)
        return _inline(_draw(self.paint, PAGE, "svg", size=size, fit=self.fit).decode(), name, alt)


def stand_alone(pictures: Sequence[Picture], kind: str, *, title: Sequence[str]) -> bytes:
    """A file with pictures below each other, under a title of some lines.

    kind: svg, whose text is text, pdf or png (two dots a pixel). Seen on white and on black.
    """
    heights = [16 * len(title) + 8, *(p.height + 18 * -(-len(p.key) // 2) for p in pictures)]

    def paint(figure: "FigureBase", colours: Colours) -> None:
        strip, *parts = figure.subfigures(
            len(heights), 1, height_ratios=heights, squeeze=False
        ).flat
        for line, said in enumerate(title):
            y = 1 - (16 * line + 6) / heights[0]
            weight = "normal" if line else "bold"
            strip.text(0.02, y, _printable(said), va="top", fontweight=weight, parse_math=False)
        for part, picture in zip(parts, pictures, strict=True):
            picture.paint(part, colours)
            if picture.key:
                _key(part, picture, colours)

    size = (max(picture.width for picture in pictures), sum(heights))
    drawn = _draw(paint, FILE, kind, size=size, fit=pictures[0].fit)
    if kind != "svg":
        return drawn
    svg = re.sub(r"(font: [^;\"]*?px) [^;\"]*", rf"\1 {SANS}", drawn.decode())
    return re.sub(r"font-family: [^;\"]*", f"font-family: {SANS}", svg).encode()


def together(variants: Sequence[Variant]) -> list[list[Variant]]:
    """The baseline with up to `TOGETHER` others, as often as all of them need."""
    baseline, *others = variants
    starts = range(0, max(len(others), 1), TOGETHER)
    return [[baseline, *others[start : start + TOGETHER]] for start in starts]


def learning(variants: Sequence[Variant], metric: str) -> Picture:
    """A metric over the epochs: mean, ± one standard deviation, and K's published points.

    variants: at most 1 + `TOGETHER`, the baseline first. Accuracies are in per cent.
    """
    unit = 100 if metric.endswith("accuracy") else 1

    def paint(figure: "FigureBase", colours: Colours) -> None:
        axes = figure.subplots()
        for place, variant in enumerate(variants):
            colour, marker = colours.series[place], MARKERS[place]
            rows = [row for row in variant.epochs if metric in row.figures]
            epochs = [row.epoch for row in rows]
            means = np.array([unit * row.figures[metric].mean for row in rows])
            spread = np.array([unit * (row.figures[metric].sd or 0.0) for row in rows])
            axes.fill_between(
                epochs, means - spread, means + spread, color=colour, alpha=0.18, linewidth=0
            )
            axes.plot(epochs, means, marker=marker, color=colour, zorder=3)
            published = [(row.epoch, unit * row.k[metric]) for row in rows if row.k]
            if published:
                axes.plot(
                    *zip(*published, strict=True),
                    linestyle=K_DASHES,
                    linewidth=1.2,
                    marker=marker,
                    markerfacecolor=colours.paper,
                    color=colour,
                    zorder=2.5,
                )
        _whole_numbers(axes, max(len(variant.epochs) for variant in variants))
        axes.set_xlabel("epoch")

    return Picture(
        paint=paint,
        height=240,
        key=tuple(f"{variant.label}, n = {len(variant.seeds)}" for variant in variants),
        with_k=any(row.k and metric in row.k for variant in variants for row in variant.epochs),
    )


def limits(comparison: Comparison) -> tuple[float, float]:
    """The range of every seed's difference of accuracy, in points, with some room."""
    values = [
        100 * value
        for by_point in comparison.differences.values()
        for difference in by_point.values()
        for value in difference.figures["accuracy"].by_seed.values()
    ]
    margin = 100 * comparison.margin
    low, high = min([-margin, *values]), max([margin, *values])
    room = 0.06 * (high - low) or 1.0
    return low - room, high + room


def by_seed(pairs: Sequence[Paired], *, limits: tuple[float, float]) -> Picture:
    """Differences of accuracy, a dot a seed, or the quantiles of many seeds; pairs: of at most
    `TOGETHER` variants."""
    seeds = list(dict.fromkeys(seed for pair in pairs for seed in pair.by_seed))

    def paint(figure: "FigureBase", colours: Colours) -> None:
        axes = figure.subplots()
        margin = 100 * pairs[0].margin
        axes.axhspan(-margin, margin, color=colours.muted, alpha=0.13, linewidth=0)
        axes.axhline(0, color=colours.muted, linewidth=1)
        if len(seeds) <= MOST_EACH:
            _dots(axes, pairs, seeds, colours)
        else:
            _quantiles(axes, pairs, colours)
        axes.set(ylabel="difference, points", ylim=limits)

    return Picture(paint=paint, height=230)


def _quantiles(axes: "Axes", pairs: Sequence[Paired], colours: Colours) -> None:
    """A line for each variant: the share of seeds whose difference is at most so large."""
    shares = np.linspace(0, 1, 101)
    for place, pair in enumerate(pairs, start=1):
        values = [100 * value for value in pair.by_seed.values()]
        axes.plot(
            100 * shares,
            np.quantile(values, shares),
            color=colours.series[place],
            marker=MARKERS[place],
            markevery=25,
        )
    axes.set_xlabel("seeds, from the least difference to the greatest, %")


def _dots(axes: "Axes", pairs: Sequence[Paired], seeds: Sequence[str], colours: Colours) -> None:
    column = {seed: i for i, seed in enumerate(seeds)}
    apart = min(0.18, 0.7 / len(pairs))
    for place, pair in enumerate(pairs, start=1):
        x = [column[seed] + apart * (place - (len(pairs) + 1) / 2) for seed in pair.by_seed]
        y = [100 * value for value in pair.by_seed.values()]
        colour = colours.series[place]
        axes.vlines(x, 0, y, color=colour, linewidth=1.2, alpha=0.6)
        axes.plot(x, y, MARKERS[place], color=colour, markersize=5.5)
    step = -(-len(seeds) // 10)
    shown = range(0, len(seeds), step)
    longest = max(map(len, seeds))
    axes.set_xticks(
        list(shown),
        labels=[seeds[i] for i in shown],
        rotation=90 if longest * len(shown) > 45 else 0,
    )
    axes.set_xlim(-0.6, len(seeds) - 0.4)
    axes.grid(visible=False, axis="x")
    axes.set_xlabel("seed")


def forest(comparison: Comparison) -> Picture:
    """Every variant's difference of accuracy from the baseline, at every point."""
    groups = {
        point.name: {
            label: by_point[point.name].figures["accuracy"]
            for label, by_point in comparison.differences.items()
            if point.name in by_point
        }
        for point in comparison.points
    }
    return intervals(groups, "difference in accuracy, points")


def intervals(
    groups: Mapping[str, Mapping[str, Paired]], axis: str, unit: Unit = POINTS
) -> Picture:
    """Mean differences with their 95 % intervals under headings, the margin shaded: one for all."""
    rows: list[tuple[str, Paired | None]] = []
    for heading, found in groups.items():
        rows += [(heading, None), *found.items()]
    pairs = [pair for _, pair in rows if pair is not None]
    heights = [38 if pair else 24 for _, pair in rows]
    top, bottom, side = 4, 40, 10
    tall = sum(heights)

    def paint(figure: "FigureBase", colours: Colours) -> None:
        height = top + tall + bottom
        axes = figure.add_axes((side / WIDTH, bottom / height, 1 - 2 * side / WIDTH, tall / height))
        margin = unit.scale * pairs[0].margin
        axes.axvspan(-margin, margin, color=colours.muted, alpha=0.13, linewidth=0)
        axes.axvline(0, color=colours.muted, linewidth=1)
        ends = [margin, -margin]
        y = 0
        for (label, pair), height in zip(rows, heights, strict=True):
            if pair is None:
                _text(axes, 0, y + height - 9, label, color=colours.muted, fontstyle="italic")
            else:
                mean = unit.scale * pair.difference.mean
                _text(axes, 0, y + 15, shorten(label, 30), fontweight="bold")
                _text(axes, 1, y + 15, _size(pair, unit), ha="right")
                ends.append(mean)
                if pair.low is not None and pair.high is not None:
                    interval = [unit.scale * pair.low, unit.scale * pair.high]
                    ends += interval
                    axes.plot(interval, [y + 26] * 2, color=colours.ink, solid_capstyle="butt")
                face = colours.paper if pair.low is None else colours.ink
                axes.plot(mean, y + 26, "o", color=colours.ink, markerfacecolor=face, markersize=6)
            y += height
        room = 0.06 * (max(ends) - min(ends))
        axes.set_xlim(min(ends) - room, max(ends) + room)
        axes.set_ylim(tall, 0)
        axes.set_yticks([])
        axes.grid(visible=False)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(axis)

    assert pairs
    return Picture(paint=paint, height=top + tall + bottom, fit=False)


def attention(weights: NDArray[Any], tokens: Sequence[str]) -> Picture:
    """An attention map (T queries, T keys) with its words."""

    def paint(figure: "FigureBase", colours: Colours) -> None:
        axes = _heat(figure, weights, low=0.0, high=float(weights.max()))
        ticks = range(len(tokens))
        axes.set_xticks(ticks, labels=tokens, rotation=90)
        axes.set_yticks(ticks, labels=tokens)
        for text in (*axes.get_xticklabels(), *axes.get_yticklabels()):
            text.set_parse_math(False)
        axes.tick_params(length=0, labelcolor=colours.ink)
        axes.set(xlabel="sees", ylabel="word")

    side = max(380, 80 + 13 * len(tokens))  # below 13 a word, words overlap
    return Picture(paint=paint, height=side, width=max(WIDTH, side))


def head(weights: NDArray[Any]) -> Picture:
    """One head's map (T, T) without words; full colour is its largest weight."""

    def paint(figure: "FigureBase", colours: Colours) -> None:
        axes = figure.add_axes((0.01, 0.01, 0.98, 0.98))
        axes.imshow(_faded(weights, 0.0, float(weights.max())), interpolation="none")
        axes.set(xticks=[], yticks=[])
        axes.grid(visible=False)
        for spine in axes.spines.values():
            spine.set(visible=True, color=colours.rule)

    return Picture(paint=paint, width=150, height=150, fit=False)


def table(values: NDArray[Any]) -> Picture:
    """A position table (T, D) as a heat map: blue below 0, orange above."""

    def paint(figure: "FigureBase", colours: Colours) -> None:
        far = float(np.abs(values).max()) or 1.0
        axes = _heat(figure, values, low=-far, high=far)
        axes.set(xlabel="column", ylabel="position")

    return Picture(paint=paint, height=300)


def columns(values: NDArray[Any], chosen: Sequence[int]) -> Picture:
    """Some columns of a position table (T, D) over the positions; four at most."""

    def paint(figure: "FigureBase", colours: Colours) -> None:
        axes = figure.subplots()
        for place, column in enumerate(chosen, start=1):
            axes.plot(values[:, column], linestyle=DASHES[place], color=colours.series[place])
        axes.set(xlabel="position", ylabel="encoding")

    return Picture(paint=paint, height=300)


def _draw(paint: Paint, colours: Colours, kind: str, *, size: tuple[int, int], fit: bool) -> bytes:
    """size: width and height. fit: let matplotlib find room for what stands beside the axes."""
    from matplotlib import style
    from matplotlib.figure import Figure

    file = io.BytesIO()
    # the reader's own matplotlibrc must not show; missing glyphs are the browser's to find
    with style.context(["default", _style(colours)]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from font")
        inches = (size[0] / 72, size[1] / 72)
        figure = Figure(figsize=inches, layout="constrained" if fit else None)
        paint(figure, colours)
        # what would differ from one day to the next
        dated = {"svg": "Date", "pdf": "CreationDate", "png": "Creation Time"}[kind]
        figure.savefig(file, format=kind, dpi=144, metadata={dated: None})
    return file.getvalue()


def _key(figure: "FigureBase", picture: Picture, colours: Colours) -> None:
    """What the lines stand for, above them; a page says so in its own words."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=colours.series[place], marker=MARKERS[place])
        for place in range(len(picture.key))
    ]
    labels = list(picture.key)
    if picture.with_k:
        handles.append(Line2D([], [], color=colours.muted, linewidth=1.2, linestyle=K_DASHES))
        labels.append("K's published run")
    legend = figure.legend(
        handles, ["-"] * len(labels), loc="outside upper left", ncols=2, frameon=False
    )
    for text, label in zip(legend.get_texts(), labels, strict=True):
        text.set(text=_printable(shorten(label, 30)), parse_math=False)


def _inline(svg: str, name: str, alt: str) -> str:
    """A whole SVG file as an element of a page."""
    root = ElementTree.fromstring(svg)
    for parent in list(root.iter()):
        for child in list(parent):
            # `style` would style the whole page
            if child.tag.rpartition("}")[2] in ("metadata", "style"):
                parent.remove(child)
    used = {
        value.strip("url()#")
        for element in root.iter()
        for value in element.attrib.values()
        if value.startswith(("#", "url(#"))
    }
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.attrib = {
            key.removeprefix(_XLINK): _own(key, value, name)
            for key, value in element.attrib.items()
            if key != "id" or value in used
        }
        element.tail = None
        if not (element.text or "").strip():
            element.text = None
    root.attrib = {
        "viewBox": root.attrib["viewBox"],
        "role": "img",
        "aria-label": alt,
    }
    return ElementTree.tostring(root, encoding="unicode")


def _own(key: str, value: str, name: str) -> str:
    """An attribute with the picture's own ids and the page's colours and font."""
    if key == "id":
        return f"{name}-{value}"
    if value.startswith(("#", "url(#")):
        return value.replace("#", f"#{name}-", 1)
    if key == "d":
        return re.sub(r"(\.\d\d)\d+", r"\1", " ".join(value.split()))
    if key == "style":
        value = re.sub(r"font-family: [^;]*(; )?", "", value)
        value = re.sub(r"(font: .*?px) [^;]*", r"\1 var(--sans)", value)
        return re.sub(r"#[0-9a-f]{6}", lambda colour: THEME.get(colour[0], colour[0]), value)
    return value


def _heat(figure: "FigureBase", values: NDArray[Any], *, low: float, high: float) -> "Axes":
    """The map, and beside it what its colours mean."""
    axes: Axes
    scale: Axes
    axes, scale = figure.subplots(1, 2, width_ratios=(30, 1))
    high = high if high > low else low + 1.0
    axes.imshow(_faded(values, low, high), interpolation="none", aspect="auto")
    ramp = _faded(np.linspace(high, low, 101)[:, None], low, high)
    scale.imshow(ramp, interpolation="none", aspect="auto", extent=(0, 1, low, high))
    scale.set_xticks([])
    scale.yaxis.tick_right()
    for each in (axes, scale):
        each.grid(visible=False)
        each.spines[:].set_visible(True)
    return axes


def _faded(values: NDArray[Any], low: float, high: float) -> NDArray[np.float64]:
    """(rows, columns) -> (rows, columns, 4): a hue for the sign, opaque at the far end."""
    far = max(abs(low), abs(high)) or 1.0
    colours = np.where(values[..., None] > 0, ORANGE if low < 0 else BLUE, BLUE)
    return np.concatenate([colours, np.abs(values)[..., None] / far], axis=-1)


def _whole_numbers(axes: "Axes", last: int) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1))
    room = max(0.04 * (last - 1), 0.1) if last > 1 else 0.5
    axes.set_xlim(1 - room, last + room)


def _text(axes: "Axes", x: float, y: float, text: str, **style: Any) -> None:
    """x: a share of the width. A label is the user's: `$` is no math."""
    axes.text(
        x, y, _printable(text), transform=axes.get_yaxis_transform(), parse_math=False, **style
    )


def _printable(text: str) -> str:
    """Without what XML cannot hold."""
    return "".join(c for c in text if c.isprintable())


def _size(pair: Paired, unit: Unit) -> str:
    text = unit.signed(pair.difference.mean) + unit.interval(pair.low, pair.high)
    return text.replace("-", "−")
