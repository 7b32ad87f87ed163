"""One trained model on a page: what it reads, its attention, its table of positions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from attnexp.analysis.variants import by_variant
from attnexp.config.options import name_of
from attnexp.config.trust import foreign_code
from attnexp.inspect import insight
from attnexp.report import figures
from attnexp.report.canvas import Figure
from attnexp.runs.result import Run

DASHES = ("", "──", "– –", "···", "–·–")
"""Text symbols for `figures.DASHES`."""

MAX_HEADS = 8
"""Maximum number of heads that get a map of their own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelInternals:
    """A model's reading, plots and missing parts, as the template needs them."""

    run: Run
    label: str
    """Name of its variant."""
    look: insight.Insight
    attention: Figure | None
    heads: list[Figure]
    table: list[Figure]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show."""
        return self.attention is None and not self.table


def choose(runs: Sequence[Run], *, trust_code: bool = False) -> list[Run]:
    """At most two runs whose attention to show: the first run of the first variant that has any,
    and that of another variant, preferably with a table of positions. Without
    `trust_code` only runs whose model is attnexp's."""
    firsts = [group[0] for group in by_variant(runs).values()]
    looking = [
        run
        for run in firsts
        if insight.has_attention(run) and (trust_code or not foreign_code(run.result.config))
    ]
    return [*looking[:1], *sorted(looking[1:], key=insight.has_table, reverse=True)[:1]]


def show_inside(run: Run, label: str, look: insight.Insight) -> ModelInternals:
    """Plots of a run's model. label: name of its variant."""
    reading, heads = look.reading, []
    seen = reading.attention if reading else None
    overall = None
    if reading is not None and seen is not None:
        overall = Figure(
            picture=figures.attention(seen.weights.mean(axis=0), reading.marked),
            alt=f"Attention among the words of the sentence, mean over heads. "
            f"{_strongest(seen.weights.mean(axis=0), reading.marked)}",
            caption=f"Mean over {len(seen.weights)} heads",
        )
        heads = [
            Figure(
                picture=figures.head(weights),
                alt=f"Head {i}. {_strongest(weights, reading.marked)}",
                caption=f"head {i}, to {weights.max():.2f}",
            )
            for i, weights in enumerate(seen.weights[:MAX_HEADS], start=1)
        ]
    return ModelInternals(
        run=run,
        label=label,
        look=look,
        attention=overall,
        heads=heads if len(heads) > 1 else [],
        table=[] if look.table is None else _table(run, look.table),
    )


def _strongest(weights: NDArray[Any], tokens: Sequence[str]) -> str:
    query, key = divmod(int(weights.argmax()), weights.shape[1])
    return f"The largest weight, {weights.max():.2f}, is from {tokens[query]} to {tokens[key]}."


def _table(run: Run, values: NDArray[Any]) -> list[Figure]:
    """Plots of a table of positions (T, D): the whole of it, and its liveliest columns."""
    name = name_of(run.result.config["position"]["kind"])
    positions, width = values.shape
    columns = (-values.var(axis=0)).argsort(kind="stable")[:4].tolist()
    return [
        Figure(
            picture=figures.table(values),
            alt=f"Heat map of the {name} table: {positions} positions, {width} "
            f"columns, values from {values.min():.2f} to {values.max():.2f}.",
            caption=f"The {name} table: {positions} positions × {width} columns",
        ),
        Figure(
            picture=figures.columns(values, columns),
            alt=f"Columns {', '.join(map(str, columns))} of the table over the positions.",
            caption="The columns that vary most",
            key=[(i, DASHES[i], f"column {column}") for i, column in enumerate(columns, start=1)],
        ),
    ]
