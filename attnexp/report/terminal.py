"""The answer in a terminal: one table, one curve, one line of verdict for each difference."""

import math
import shlex
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pandas as pd
from rich import box
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from attnexp.analysis import contrasts
from attnexp.analysis.frames import Group
from attnexp.analysis.published import k_counts
from attnexp.base.errors import UserError
from attnexp.config.compose import compose, foreign_code
from attnexp.config.schema import RunConfig, to_dict
from attnexp.report import formats, tables
from attnexp.statistics.verdict import FEWEST_SEEDS, UNDECIDED, Metric

VERDICT_STYLES = {"helps": "green", "hurts": "red", "equivalent": "cyan"}
TEXTS = {*tables.PLACES, *"variant difference verdict class run state settings".split()}
TEXTS |= {"data set", "intervention"}
"""Columns that stand to the left and may wrap; all others are numbers."""

WORD = 12
"""Width at which a verdict still wraps between its words. It wraps first, then names do."""


def show_answer(
    groups: Sequence[Group], metrics: Sequence[Metric], console: Console, *,
    table: str | None = None, format: str = "table",
) -> None:  # fmt: skip
    """Print an answer, or one of its tables, in a format. The answer of several data sets has the
    differences at the deciding endpoint."""
    if format != "table":
        print(formats.text(groups, metrics, format, table), file=console.file)
        return
    if table is not None:
        print_table(tables.TABLES[table](groups, metrics), console)
        return
    for protocol in dict.fromkeys(group.protocol for group in groups):
        own = [group for group in groups if group.protocol == protocol]
        rows = pd.concat([contrasts.differences(group, metrics) for group in own])
        print_table(tables.accuracy(own, metrics), console)
        if len(groups) == 1 and groups[0].epochs["epoch"].nunique() > 1:
            console.print(curve(groups[0], console), soft_wrap=True)
        several = len({group.data for group in own}) > 1
        if len(rows):
            rows = rows[rows["point"] == own[0].points[0]] if several else rows
            print_table(tables.of_differences(rows), console)
        if several:
            with suppress(UserError):  # no variant has the same name on two of them
                print_table(tables.across(own, metrics, own[0].points[0]), console)
        for line in dict.fromkeys(remarks(own, rows)):
            console.print(line)


def print_table(table: tables.Table, console: Console) -> None:
    """Print a table of texts: numbers to the right, the verdict coloured. What is too wide for the
    console has headings in place of the columns `tables.PLACES`."""
    title, frame = table
    console.print(title)
    places = [name for name in tables.PLACES if name in frame]
    if places and _width(frame) + len(frame.columns) - 1 > console.width:
        rows, first = [], frame.columns.drop(places)[0]
        space = console.width - _width(frame.drop(columns=[*places, first])) - len(frame.columns)
        for about, own in frame.groupby(places, sort=False):
            heading = ", ".join(filter(None, about))
            is_short = len(own) == 1 and len(heading) + 2 + len(own[first].iloc[0]) <= space
            opening = f"{heading}, " if is_short else "  "
            rows += [] if is_short else [pd.DataFrame({first: [heading]})]
            rows += [own.drop(columns=places).assign(**{first: opening + own[first]})]
        frame = pd.concat(rows).fillna("")
    gap = 2 if _width(frame) + 2 * len(frame.columns) - 2 <= console.width else 1
    shown = Table(box=box.SIMPLE_HEAD, padding=(0, gap - 1, 0, 0), show_edge=False, pad_edge=False)
    verdict = _width(frame[["verdict"]]) if "verdict" in frame else 0
    excess = _width(frame) + gap * (len(frame.columns) - 1) - console.width
    wrapping = TEXTS if excess > verdict - WORD else {"verdict"}
    for name in frame:
        side: JustifyMethod = "left" if name in TEXTS else "right"
        shown.add_column(str(name), justify=side, no_wrap=name not in wrapping, overflow="fold")
    for _, row in frame.iterrows():
        style = VERDICT_STYLES.get(str(row.get("verdict", "")).partition(" ")[0], "")
        shown.add_row(*(Text(text, style if k == "verdict" else "") for k, text in row.items()))
    console.print(shown)
    console.print()


def _width(frame: pd.DataFrame) -> int:
    """Characters of the widest cells."""
    return sum(max([len(str(name)), *map(len, frame[name])]) for name in frame)


def remarks(groups: Sequence[Group], differences: pd.DataFrame) -> Iterator[str]:
    """What a reader of the numbers must know: K's run, seeds wanted and missing, notes."""
    for group in groups:
        if (epochs := group.epochs_of("best")) and len(groups) == 1:
            listed = ", ".join(f"{name} {epoch}" for name, epoch in epochs.items())
            yield f"best: the epoch that is best on average over seeds ({listed})."
        for count in k_counts(group):
            unlike = f" (ours differ by {' '.join(count['unlike'])})" if count["unlike"] else ""
            own = count["own"]
            others = f" (ours: {min(own)} to {max(own)})" if len(own) else ""
            inside = f"{count['inside']} of {count['values']} values"
            yield f"K's run{unlike}: {inside} within the interval of one more seed{others}"
        if group.endpoints.groupby("variant")["seed"].agg(frozenset).nunique() > 1:
            yield "A difference leaves out seeds that one of its variants lacks; means do not."
        for name, seeds in group.missing().items():
            yield f"Missing: {name}, {len(seeds)} of {len(group.planned[name])} planned seeds."
        yield from group.notes
    if len(differences):
        is_more = differences["seeds_wanted"] > differences["n"]
        is_open = (differences["verdict"] == UNDECIDED) & is_more
        for _, row in differences[is_open].drop_duplicates("metric").iterrows():
            of = "" if row["metric"] == "accuracy" else f" of {row['metric']}"
            yield f"~ seeds: about so many would narrow the interval to ±{tables.margin(row)}{of}."


def curve(group: Group, console: Console) -> Text:
    """Mean validation accuracy by epoch, a letter for each variant and its capital for K's run."""
    import plotext

    rows = group.epochs[group.epochs["metric"] == "val_accuracy"]
    means = 100 * rows.groupby(["epoch", "variant"])["value"].mean().unstack()
    drawn = dict(zip("abcdef", [v for v in group.variants if v in means], strict=False))
    plotext.terminal.limit(False, False)  # it would cut the figure to the terminal's size
    figure = plotext.figure.clear()
    figure.theme("colorless").plot_size(min(console.width, 100), 10)
    figure.axes(False, axis="x", side="upper").axes(False, axis="y", side="right")
    ticks = [*means.index[:: -(-len(means) // 10)]]
    figure.ruler("x").ticks(ticks, labels=[*map(str, ticks)])
    for letter, name in drawn.items():
        lines = dict.fromkeys(["braille", letter], means[name].dropna())
        if len(group.published):
            k = group.published[group.published["variant"] == name].set_index("epoch")
            lines[letter.upper()] = 100 * k["val_accuracy"]
        for mark, line in lines.items():
            if len(line):
                signal = figure.signal([*line.index], [*line], marker=plotext.marker(mark))
                figure.draw(signal.lines() if mark == "braille" else signal)
    legend = [f"{letter} {name}" for letter, name in drawn.items()]
    legend += ["capitals: K's run"] if len(group.published) else []
    legend += [f"first {len(drawn)} of {len(means.columns)}"] * (len(drawn) < len(means.columns))
    picture = figure.build().string(colorless=True).rstrip("\n")
    entries = "   ".join(entry.replace(" ", "\xa0") for entry in legend)  # each in one line
    names = textwrap.fill(entries, console.width).replace("\xa0", " ")
    return Text(f"Validation accuracy, %, by epoch\n{picture}\n{names}\n")


def prospects(groups: Sequence[Group], metric: Metric) -> Iterator[str]:
    """A line for each data set that takes over four times its planned seeds, by the runs so far."""
    for group in groups:
        wanted = [
            10_000 if math.isnan(row["seeds_wanted"]) else row["seeds_wanted"]
            for _, row in contrasts.differences(group, [metric]).iterrows()
            if row["point"] == group.points[0] and row["n"] >= FEWEST_SEEDS
        ]
        planned = min(map(len, group.planned.values()), default=math.inf)  # of --until: no limit
        if wanted and min(wanted) > 4 * planned:
            yield (
                f"{group.data}: by the spread between seeds, ±{100 * metric.margin:g} points take "
                f"{min(wanted):,.0f} seeds or more. With {planned} only larger differences show."
            )


def next_commands(
    run_dir: Path, words: Sequence[str], config: RunConfig, text: str
) -> Iterator[str]:
    """Where the results are, and commands worth trying next. text: one that it was tested on."""
    yield f"Results: {run_dir}\nNext:"
    key, both = "model", "tfidf,attention"
    if config.is_network:
        kind = config.position.kind or "sinusoidal"
        own = config.position.name if kind.startswith("attnexp.") else kind
        key, both = "position", f"none,{own}"
        if (text := " ".join(text.split()[:24])) and not foreign_code(to_dict(config)):
            yield "  " + shlex.join(["attnexp", "predict", str(run_dir), text])
    others = [word for word in words if not word.startswith((f"{key}=", f"{key}.", "seed="))]
    with suppress(UserError):  # a stored config names its own
        compose([*others, f"{key}={both.partition(',')[0]}"])
        yield "  " + shlex.join(["attnexp", "sweep", *others, f"{key}={both}", "seed=range(6)"])
    yield "  " + shlex.join(["attnexp", "report", str(run_dir), "--html", "page.html"])
