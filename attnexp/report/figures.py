"""The plots of pages and files: learning curves, differences, attention, tables of positions.

Each function returns a `Picture`, 400 pixels wide and legible as it is on a phone.

Shapes: H heads, T tokens, D width.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnexp.analysis.across import Across
from attnexp.analysis.comparison import Comparison
from attnexp.analysis.crossings import Within
from attnexp.analysis.differences import Difference
from attnexp.analysis.probed import Probed
from attnexp.analysis.summary import Variant
from attnexp.report.canvas import K_DASHES, MARKERS, WIDTH, Colours, Picture, printable
from attnexp.report.cells import MAX_SEEDS_SHOWN
from attnexp.report.differences import format_levels
from attnexp.report.plots import shorten
from attnexp.report.verdicts import heading
from attnexp.statistics.paired import MARGIN, Paired
from attnexp.statistics.verdict import POINTS, Unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

MAX_TOGETHER = 4
"""Maximum number of variants in a plot with the baseline: more lines would hide each other."""

DASHES = ("-", "-", (0, (4, 2)), (0, (1, 1)), (0, (6, 2, 1, 2)))
"""Dash patterns of series that have no markers."""

BLUE, ORANGE = (0.20, 0.47, 0.80), (0.85, 0.42, 0.05)
"""Hues of heat maps (red, green, blue), which fade into the background."""


def together(variants: Sequence[Variant]) -> list[list[Variant]]:
    """Variants in groups of up to `MAX_TOGETHER`, each with the baseline first."""
    baseline, *others = variants
    starts = range(0, max(len(others), 1), MAX_TOGETHER)
    return [[baseline, *others[start : start + MAX_TOGETHER]] for start in starts]


def learning(variants: Sequence[Variant], metric: str) -> Picture:
    """A metric over the epochs: mean, ± one standard deviation, and K's published points.

    variants: at most 1 + `MAX_TOGETHER`, the baseline first. Accuracies are in per cent.
    """
    unit = 100 if metric.endswith("accuracy") else 1

    def paint(figure: "FigureBase", colours: Colours) -> None:
        axes = figure.subplots()
        for place, variant in enumerate(variants):
            colour, marker = colours.series[place], MARKERS[place]
            epochs = [epoch for epoch in variant.epochs if metric in variant.means[epoch]]
            found = [variant.means[epoch][metric] for epoch in epochs]
            means = np.array([unit * mean.mean for mean in found])
            spread = np.array([unit * (mean.sd or 0.0) for mean in found])
            axes.fill_between(
                epochs, means - spread, means + spread, color=colour, alpha=0.18, linewidth=0
            )
            axes.plot(epochs, means, marker=marker, color=colour, zorder=3)
            published = [
                (e, unit * variant.published[e][metric]) for e in epochs if e in variant.published
            ]
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
        with_k=any(
            metric in values for variant in variants for values in variant.published.values()
        ),
    )


def limits(comparison: Comparison) -> tuple[float, float]:
    """The range of every seed's difference of accuracy, in points, with some room."""
    values = [
        100 * value
        for by_point in comparison.differences.values()
        for difference in by_point.values()
        for value in difference.metrics["accuracy"].by_seed.values()
    ]
    margin = 100 * comparison.metrics["accuracy"].margin
    low, high = min([-margin, *values]), max([margin, *values])
    room = 0.06 * (high - low) or 1.0
    return low - room, high + room


def by_seed(pairs: Sequence[Paired], *, limits: tuple[float, float]) -> Picture:
    """Differences of accuracy, a dot a seed, or the quantiles of many seeds; pairs: of at most
    `MAX_TOGETHER` variants."""
    seeds = list(dict.fromkeys(seed for pair in pairs for seed in pair.by_seed))

    def paint(figure: "FigureBase", colours: Colours) -> None:
        axes = figure.subplots()
        margin = 100 * pairs[0].margin
        axes.axhspan(-margin, margin, color=colours.muted, alpha=0.13, linewidth=0)
        axes.axhline(0, color=colours.muted, linewidth=1)
        if len(seeds) <= MAX_SEEDS_SHOWN:
            _dots(axes, pairs, seeds, colours)
        else:
            _quantiles(axes, pairs, colours)
        axes.set(ylabel="difference, points", ylim=limits)

    return Picture(paint=paint, height=230)


def _quantiles(axes: "Axes", pairs: Sequence[Paired], colours: Colours) -> None:
    """Draw the quantiles of the differences of each variant as a line."""
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
    offset = min(0.18, 0.7 / len(pairs))
    for place, pair in enumerate(pairs, start=1):
        x = [column[seed] + offset * (place - (len(pairs) + 1) / 2) for seed in pair.by_seed]
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


def forest(comparison: Comparison, metric: str = "accuracy") -> Picture:
    """Every variant's difference from the baseline, at every point."""
    unit, margin = comparison.metrics[metric].unit, comparison.metrics[metric].margin
    baseline = comparison.variants[0].label
    groups = {
        heading(comparison, metric, point) if comparison.protocol else f"minus {baseline}": {
            label: Bar.of(by_point[point], metric)
            for label, by_point in comparison.differences.items()
            if point in by_point
        }
        for point in comparison.points
    }
    return intervals(groups, metric, margin, unit)


def within(group: Sequence[Within], metric: str, comparison: Comparison) -> Picture:
    """Differences of one factor's levels, at every level of the other in turn."""
    unit, margin = comparison.metrics[metric].unit, comparison.metrics[metric].margin
    groups: dict[str, dict[str, Bar]] = {}
    for each in group:
        minus, at = format_levels(each)
        for point, difference in each.points.items():
            groups.setdefault(f"{minus}, {point}", {})[at] = Bar.of(difference, metric)
    return intervals(groups, metric, margin, unit)


def across(found: Sequence[Across]) -> Picture:
    """Every data set's difference in one metric, the mean over them and the next one's prediction
    interval."""
    metric, unit = found[0].metric, found[0].unit
    margin = next(iter(found[0].differences.values())).metrics[metric].margin
    groups = {
        f"{one.variant} minus {one.baseline}, {one.point}": {
            **{data: Bar.of(difference, metric) for data, difference in one.differences.items()},
            "mean; thin: next data set": Bar(
                one.mean.mean, one.mean.low, one.mean.high,
                one.mean.predicted_low, one.mean.predicted_high,
            ),
        }
        for one in found
    }  # fmt: skip
    return intervals(groups, metric, margin, unit)


def probed(found: Sequence[Probed]) -> Picture:
    """What each intervention changes in the accuracy of each variant."""
    groups = {
        f"{one.variant}, {one.data}": {
            name: Bar(
                effect.accuracy.difference.mean, effect.accuracy.low, effect.accuracy.high,
                *((effect.texts.low, effect.texts.high) if effect.texts else ()),
            )
            for name, effect in one.effects.items()
        }
        for one in found
    }  # fmt: skip
    return intervals(groups, "accuracy", MARGIN)


class Bar(NamedTuple):
    """A mean difference with its interval, and a wider one, drawn thinner."""

    mean: float
    low: float | None
    high: float | None
    wide_low: float | None = None
    wide_high: float | None = None

    @classmethod
    def of(cls, difference: Difference, metric: str = "accuracy") -> "Bar":
        """A difference with the interval for other seeds; thinner, for other seeds and texts."""
        pair, texts = difference.metrics[metric], difference.texts
        shown = texts and metric == "accuracy" and not difference.sequential  # is not anytime-valid
        wide = (texts.low, texts.high) if texts and shown else ()
        return cls(pair.difference.mean, *difference.interval(metric), *wide)


def intervals(
    groups: Mapping[str, Mapping[str, Bar]], metric: str, margin: float, unit: Unit = POINTS
) -> Picture:
    """Mean differences with their 95 % intervals under headings, the margin shaded."""
    rows: list[tuple[str, Bar | None]] = []
    for title, found in groups.items():
        rows += [(title, None), *found.items()]
    heights = [38 if bar else 24 for _, bar in rows]
    top, bottom, side = 4, 40, 10
    tall = sum(heights)

    def paint(figure: "FigureBase", colours: Colours) -> None:
        height = top + tall + bottom
        axes = figure.add_axes((side / WIDTH, bottom / height, 1 - 2 * side / WIDTH, tall / height))
        ends = [unit.scale * margin, -unit.scale * margin]
        axes.axvspan(*ends, color=colours.muted, alpha=0.13, linewidth=0)
        y = 0
        for (label, bar), height in zip(rows, heights, strict=True):
            if bar is None:
                _text(axes, 0, y + height - 9, label, color=colours.muted, fontstyle="italic")
            else:
                mean = unit.scale * bar.mean
                size = unit.signed(bar.mean) + unit.interval(bar.low, bar.high)
                _text(axes, 0, y + 15, shorten(label, 30), fontweight="bold")
                _text(axes, 1, y + 15, size.replace("-", "−"), ha="right")
                ends.append(mean)
                for low, high, width in ((bar.low, bar.high, 2), (bar.wide_low, bar.wide_high, 1)):
                    if low is not None and high is not None:
                        interval = [unit.scale * low, unit.scale * high]
                        ends += interval
                        axes.plot(
                            interval, [y + 26] * 2, color=colours.ink, linewidth=width,
                            solid_capstyle="butt",
                        )  # fmt: skip
                axes.vlines(0, y + 20, y + height, color=colours.muted, linewidth=1)
                face = colours.paper if bar.low is None else colours.ink
                axes.plot(mean, y + 26, "o", color=colours.ink, markerfacecolor=face, markersize=6)
            y += height
        room = 0.06 * (max(ends) - min(ends))
        axes.set_xlim(min(ends) - room, max(ends) + room)
        axes.set_ylim(tall, 0)
        axes.set_yticks([])
        axes.grid(visible=False)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(f"difference in {metric}" + unit.name.replace(" ", ", ", 1))

    return Picture(paint=paint, height=top + tall + bottom, fit=False)


def attention(weights: NDArray[Any], tokens: Sequence[str]) -> Picture:
    """An attention map (T queries, T keys) with its words."""

    labels = [shorten(printable(token), 24) for token in tokens]

    def paint(figure: "FigureBase", colours: Colours) -> None:
        axes = _heat(figure, weights, low=0.0, high=float(weights.max()))
        ticks = range(len(tokens))
        axes.set_xticks(ticks, labels=labels, rotation=90)
        axes.set_yticks(ticks, labels=labels)
        for text in (*axes.get_xticklabels(), *axes.get_yticklabels()):
            text.set_parse_math(False)
        axes.tick_params(length=0, labelcolor=colours.ink)
        axes.set(xlabel="key", ylabel="query")

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


def _heat(figure: "FigureBase", values: NDArray[Any], *, low: float, high: float) -> "Axes":
    """Draw a heat map with its colour scale; returns its axes."""
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
    """Write text; x is a fraction of the width. Labels are the user's: `$` is not math."""
    axes.text(
        x, y, printable(text), transform=axes.get_yaxis_transform(), parse_math=False, **style
    )
