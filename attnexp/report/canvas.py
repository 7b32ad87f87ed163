"""Drawing of plots: colours of the page or of a file, SVG that is safe inside a page.

On a page a plot is one `<svg>` element: text is text, colours are the page's CSS variables (so a
plot follows the reader's light or dark theme), ids are its own. `stand_alone` makes a file. The
same numbers give the same bytes. Units are CSS pixels.
"""

import io
import re
import textwrap
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from rich.cells import cell_len

from attnexp.report import fonts
from attnexp.report.plots import shorten

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

WIDTH = 400
"""Width of every picture but the small maps of single heads."""

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
"""Placeholder colours, and the CSS variables of the page that replace them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Colours:
    """Colours of a picture."""

    ink: str
    muted: str
    rule: str
    paper: str
    """Fill colour of hollow markers."""
    series: tuple[str, ...]
    """Series colours; index 0 is the baseline."""


_INK, _MUTED, _RULE, _PAPER, *_SERIES = THEME

PAGE = Colours(ink=_INK, muted=_MUTED, rule=_RULE, paper=_PAPER, series=tuple(_SERIES))

FILE = Colours(
    ink="#757575",
    muted="#757575",
    rule="#75757555",
    paper="none",
    series=("#7d828a", "#2e82c8", "#d4600f", "#128a66", "#b05fa0"),
)
"""Colours of files, which have no background: contrast 4.5 (text) and 3 (lines) on white and on
black."""

SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
"""Fonts of SVG files; other kinds embed matplotlib's own."""

MARKERS = "osD^v"
"""Markers of series, as in `Colours.series`: a line is known without its colour."""

K_DASHES = (0, (3, 2))
"""Dash pattern of K's published run."""


def _style(colours: Colours) -> dict[str, Any]:
    return {
        "svg.fonttype": "none",
        "svg.hashsalt": "attnexp",
        "pdf.fonttype": 42,
        "figure.facecolor": "none",
        "axes.facecolor": "none",
        "savefig.facecolor": "none",
        "font.size": 11,
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
    """A plot before it has colours."""

    paint: Paint
    height: int
    width: int = WIDTH
    fit: bool = True
    """Whether matplotlib finds room for what stands beside the axes."""
    key: tuple[str, ...] = ()
    """Labels of its series; on a page they stand beside the picture."""
    with_k: bool = False
    """Whether K's published run is drawn too."""

    def inline(self, *, name: str, alt: str) -> str:
        """One `<svg>` element for use inside HTML; `name` must be unique on the page."""
        size = (self.width, self.height)
        return _inline(_draw(self.paint, PAGE, "svg", size=size, fit=self.fit).decode(), name, alt)


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A plot with caption and legend. key: index, marker and label of each series."""

    picture: Picture
    alt: str
    """Text alternative."""
    caption: str
    key: list[tuple[int, str, str]] = field(default_factory=list)


def stand_alone(pictures: Sequence[Picture], kind: str, *, title: Sequence[str]) -> bytes:
    """A file with pictures below each other, under a title, whose lines are wrapped.

    kind: svg, whose text is text, pdf or png (two dots a pixel). Seen on white and on black.
    """
    width = max(picture.width for picture in pictures)
    first, *others = title
    lines = [
        (line, weight)
        for text, weight in [(first, "bold"), *((other, "normal") for other in others)]
        for line in textwrap.wrap(printable(text), width // (8 if weight == "bold" else 7))
    ]
    heights = [16 * len(lines) + 8]
    heights += [
        picture.height + 18 * -(-len(picture.key) // _columns(picture)) for picture in pictures
    ]

    def paint(figure: "FigureBase", colours: Colours) -> None:
        strip, *parts = figure.subfigures(
            len(heights), 1, height_ratios=heights, squeeze=False
        ).flat
        for place, (line, weight) in enumerate(lines):
            y = 1 - (16 * place + 6) / heights[0]
            strip.text(0.02, y, line, va="top", fontweight=weight, parse_math=False)
        for part, picture in zip(parts, pictures, strict=True):
            picture.paint(part, colours)
            if picture.key:
                _key(part, picture, colours)

    size = (width, sum(heights))
    drawn = _draw(paint, FILE, kind, size=size, fit=pictures[0].fit)
    if kind != "svg":
        return drawn
    svg = re.sub(r"(font: [^;\"]*?px) [^;\"]*", rf"\1 {SANS}", drawn.decode())
    return re.sub(r"font-family: [^;\"]*", f"font-family: {SANS}", svg).encode()


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
        if kind != "svg":
            fonts.use_installed(figure)
        # without the date, so that the same numbers give the same bytes
        dated = {"svg": "Date", "pdf": "CreationDate", "png": "Creation Time"}[kind]
        figure.savefig(file, format=kind, dpi=144, metadata={dated: None})
    return file.getvalue()


def _columns(picture: Picture) -> int:
    """Number of columns of the legend of a file: labels of two stand side by side if short."""
    return 2 if all(cell_len(label) <= 24 for label in picture.key) else 1


def _key(figure: "FigureBase", picture: Picture, colours: Colours) -> None:
    """Draw the legend above a picture of a file."""
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
        handles,
        ["-"] * len(labels),
        loc="outside upper left",
        ncols=_columns(picture),
        frameon=False,
    )
    for text, label in zip(legend.get_texts(), labels, strict=True):
        text.set(text=printable(shorten(label, 50)), parse_math=False)


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
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-label": alt}
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


def printable(text: str) -> str:
    """Text without characters that XML cannot hold."""
    return "".join(c for c in text if c.isprintable())
