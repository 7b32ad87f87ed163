"""One trained model on a page: what it reads, its attention, its table of positions."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from attnexp.analysis.variants import by_variant
from attnexp.config.compose import foreign_code
from attnexp.config.options import name_of
from attnexp.inspect import insight
from attnexp.inspect.predict import backgrounds
from attnexp.report import figures
from attnexp.report.canvas import Figure
from attnexp.runs.identity import replicate
from attnexp.runs.result import Run

DASHES = ("", "──", "– –", "···", "–·–")
"""Text symbols for `figures.DASHES`."""

WHY = {
    "attention": "attention it receives, on average over words and heads",
    "gradient": "it counts by gradient × embedding, for or against the answer",
    "erasure": "the answer loses or gains where padding stands in its place",
}
"""What darkens tokens, by the value of `--why`."""

MAX_HEADS = 8
"""Maximum number of heads that get a map of their own."""


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


def show_inside(run: Run, label: str, look: insight.Insight, layer: int = 1) -> dict[str, Any]:
    """A model's reading, plots and missing parts, as `inside.html` needs them.

    label: name of its variant. layer: counted from 1. Tokens come with their background colours;
    there are none without attention or relevance.
    """
    reading, table = look.reading, [] if look.table is None else _table(run, look.table)
    shown: dict[str, Any] = {"padding": "", "tokens": [], "attention": None, "heads": []}
    if reading is not None:
        colours = backgrounds(reading.counts(layer))
        shown["tokens"] = list(zip(reading.marked, colours, strict=False))
    if reading is not None and reading.layers:
        seen = reading.attention(layer)
        shown["padding"] = padding_line(seen)
        shown["attention"] = attention_map(reading, layer)
        if len(seen.weights) > 1:
            shown["heads"] = [
                Figure(
                    picture=figures.head(weights),
                    alt=f"Head {i}. {_strongest(weights, reading.marked)}",
                    caption=f"head {i}, to {weights.max():.2f}",
                )
                for i, weights in enumerate(seen.weights[:MAX_HEADS], start=1)
            ]
    is_empty = shown["attention"] is None and not table
    name = name_of_run(run, label)
    return {"name": name, "look": look, "table": table, "is_empty": is_empty, **shown}


def attention_map(reading: insight.Reading, layer: int, head: int | None = None) -> Figure:
    """The map of one head, or of the mean of heads, with its words."""
    weights, shown = reading.attention(layer, head).mean, heads_and_layer(reading, layer, head)
    return Figure(
        picture=figures.attention(weights, reading.marked),
        alt=f"Attention among the words of the sentence, {shown}. "
        f"{_strongest(weights, reading.marked)}",
        caption=f"Attention, {shown}",
    )


def name_of_run(run: Run, label: str) -> str:
    """Variant and seed: `pe, seed 0`."""
    return f"{label}, seed {replicate(run.result.config)}"


def heads_and_layer(reading: insight.Reading, layer: int = 1, head: int | None = None) -> str:
    """What a map shows: `mean of 8 heads, layer 1 of 2`."""
    num_heads = len(reading.layers[layer - 1].weights)
    shown = f"mean of {num_heads} heads" if head is None else f"head {head} of {num_heads}"
    where = f", layer {layer} of {len(reading.layers)}" if len(reading.layers) > 1 else ""
    return shown + where


def padding_line(seen: insight.Attention) -> str:
    """What a map leaves out; empty for a text without padding."""
    if not seen.num_padding:
        return ""
    return f"Padding gets {100 * seen.on_padding:.0f} % of the attention and is not drawn."


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
