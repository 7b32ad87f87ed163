"""Write the tables of README.md from results.json, between markers."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from _turns import Row, Tables

BUSY = 0.1
"""Cores used by others from which on a machine is called busy in the tables."""

COLUMNS = {
    "training": ["train", "evaluate", "epoch", "accuracy", "peak_mib"],
    "operations": ["share"],
    "study": ["study", "accuracy"],
    "start": ["process"],
    "window": ["train", "peak_mib", "step_mib"],
}
"""Columns of each section: parts of its work, then figures."""

FIGURES = {
    "accuracy": ("accuracy", "{:.1%}"),
    "peak_mib": ("peak, MiB", "{:,.0f}"),
    "step_mib": ("above the start, MiB", "{:,.0f}"),
}
"""Heading and number format of each figure."""


def write_tables(readme: Path, results: Mapping[str, Any]) -> None:
    """Write the tables of every measured section."""
    text = readme.read_text()
    for name, section in results.items():
        before, mark, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        assert end, f"{readme} has no place for {name}"
        text = before + mark + "\n".join(section_lines(name, section)) + "\n" + end + after
    readme.write_text(text)


def section_lines(name: str, section: Mapping[str, Any]) -> list[str]:
    """All tables of a section, below a line about machine and data."""
    tables: Tables = section["tables"]
    if name == "training":
        chosen = {f"{row} ({title})": each for row, (title, each) in better(tables).items()}
        tables = {"each at its better arrangement": chosen, **tables}
    busy = " **(busy: do not trust these)**" if section["others"] >= BUSY else ""
    drawn = ""
    if name in ("training", "operations"):
        num_reviews = f"{section['reviews']:,}"
        drawn = f", {num_reviews} + {num_reviews} of them"
    lines = [
        f"{section['started'][:10]}, commit {(section['commit'] or 'unknown')[:7]}, "
        f"{section['threads']} cores of {section['cpu']}, torch {section['torch']}, "
        f"{section['data']}{drawn}. Load {section['load']} at the start; other processes took "
        f"{section['others']} cores{busy}."
    ]
    for title, rows in tables.items():
        lines.append("")
        if title:
            lines += [f"**{title}**", ""]
        lines += table(rows, COLUMNS[name])
    return lines


def better(tables: Tables) -> dict[str, tuple[str, Row]]:
    """For every row, the title of the table in which its epoch is shortest, and that row."""
    fastest: dict[str, tuple[str, Row]] = {}
    for title, rows in tables.items():
        for name, row in rows.items():
            if name not in fastest or epoch(row) < epoch(fastest[name][1]):
                fastest[name] = title, row
    return fastest


def epoch(row: Row) -> float:
    """Median seconds of an epoch."""
    return statistics.median(row["seconds"]["epoch"])


def table(rows: Mapping[str, Row], columns: Sequence[str]) -> list[str]:
    """Table of ratios to the first row, whose own cells are seconds."""
    base_name, base = next(iter(rows.items()))

    def cell(row: Row, column: str) -> str:
        if column in FIGURES:
            return FIGURES[column][1].format(row["figures"][column])
        if row is base:
            return f"{statistics.median(row['seconds'][column]):.3g} s"
        return ratio(row["seconds"][column], base["seconds"][column])

    heads = [f"time / {base_name}"]
    for column in columns:
        heads.append(FIGURES[column][0] if column in FIGURES else column)
    lines = [heads, ["---"] * len(heads)]
    for name, row in rows.items():
        cells = [cell(row, column) for column in columns]
        lines.append([name, *cells])
    return [f"| {' | '.join(cells)} |" for cells in lines]


def ratio(seconds: list[float], base: list[float]) -> str:
    """Ratio of seconds within each round, as median (minimum to maximum)."""
    ratios = [a / b for a, b in zip(seconds, base, strict=True)]
    median = f"**{statistics.median(ratios):.2f}**"
    return median if len(ratios) == 1 else f"{median} ({min(ratios):.2f} to {max(ratios):.2f})"
