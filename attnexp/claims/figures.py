"""Pictures for the claims that a picture says better: C09 and C23."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from attnexp.base.files import writing
from attnexp.claims.growth import RADIUS, curves
from attnexp.model.positions import sinusoidal_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw(ids: set[str], folder: Path) -> list[Path]:
    """Write `ID.png` for every claim that has a picture; return their paths.

    Raises `UserError` when the folder cannot be made.
    """
    from matplotlib.figure import Figure

    with writing(folder, "--figures DIR"):
        folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, paint in sorted(_PICTURES.items()):
        if name in ids:
            figure = Figure(figsize=(10, 4), layout="constrained")
            paint(figure)
            written.append(folder / f"{name}.png")
            figure.savefig(written[-1], dpi=120)
    return written


def positions(figure: "Figure") -> None:
    """C09: four columns of the table over 60 positions, and the table as a heat map."""
    table = sinusoidal_table(60, 32, layout="interleaved")
    lines, heat = figure.subplots(1, 2, width_ratios=(3, 2))
    for column in (6, 7, 8, 9):
        style = "-" if column < 8 else "--"
        lines.plot(table[:, column], style, label=f"column {column}")
    lines.set(xlabel="position", ylabel="encoding", title="Columns 6, 7 turn faster than 8, 9")
    lines.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.08), frameon=False)
    image = heat.imshow(table, aspect="auto", cmap="RdBu", vmin=-1, vmax=1)
    heat.set(xlabel="column", ylabel="position", title="The table, d_model = 32")
    figure.colorbar(image, ax=heat)


def growth(figure: "Figure") -> None:
    """C23: time and memory over the number of tokens, full and within a window."""
    found = curves()
    time, memory = figure.subplots(1, 2)
    named = (("full", found.full), (f"within ±{RADIUS}", found.window))
    for label, curve in named:
        seconds = [1000 * value for value in curve.seconds]
        _plot(time, curve.sizes, seconds, f"{label}: n^{curve.exponent(curve.seconds):.2f}")
        elements = [value / 1e6 for value in curve.elements]
        _plot(memory, curve.sizes, elements, f"{label}: n^{curve.exponent(curve.elements):.2f}")
    time.set(ylabel="milliseconds, forward, one thread", title="Time")
    memory.set(ylabel="million numbers kept for backward", title="Memory")
    for axes in (time, memory):
        axes.set_xlabel("tokens n")
        axes.legend(frameon=False)


def _plot(axes: "Axes", n: tuple[int, ...], values: list[float], label: str) -> None:
    axes.loglog(n, values, "o-", base=10, label=label)
    axes.set_xticks(n, labels=[str(size) for size in n])
    axes.minorticks_off()


_PICTURES: dict[str, Callable[["Figure"], None]] = {"C09": positions, "C23": growth}
