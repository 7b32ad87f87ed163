"""From results.json to the tables of README.md, between its markers."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from _turns import Row, Tables

BUSY = 0.1
"""So many cores' worth of other work make a machine busy, and the tables say so."""

COLUMNS = {
    "training": ["train", "evaluate", "epoch", "accuracy", "peak_mib"],
    "operations": ["share"],
    "study": ["study", "accuracy"],
    "start": ["process"],
    "window": ["train", "peak_mib", "step_mib"],
}
"""What is shown of each section: parts of its work, then figures."""

FIGURES = {
    "accuracy": ("accuracy", "{:.1%}"),
    "peak_mib": ("peak, MiB", "{:,.0f}"),
    "step_mib": ("above the start, MiB", "{:,.0f}"),
}
"""How each is headed and shown."""


def write_tables(readme: Path, results: Mapping[str, Any]) -> None:
    """Fill in every section that has been measured."""
    text = readme.read_text()
    for name, section in results.items():
        before, mark, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        assert end, f"{readme} has no place for {name}"
        text = before + mark + "\n".join(section_lines(name, section)) + "\n" + end + after
    readme.write_text(text)


def section_lines(name: str, section: Mapping[str, Any]) -> list[str]:
    """All tables of a section, after where they come from."""
    tables: Tables = section["tables"]
    if name == "training":
        chosen = {f"{row} ({title})": each for row, (title, each) in better(tables).items()}
        tables = {"each at its better arrangement": chosen, **tables}
    busy = " **(busy: do not trust these)**" if section["others"] >= BUSY else ""
    few = f"{section['reviews']:,}"
    drawn = f", {few} + {few} of them" if name in ("training", "operations") else ""
    lines = [
        f"{section['started'][:10]}, commit {(section['commit'] or 'unknown')[:7]}, "
        f"{section['threads']} cores of {section['cpu']}, torch {section['torch']}, "
        f"{section['data']}{drawn}. Load {section['load']} at the start; other processes took "
        f"{section['others']} cores{busy}."
    ]
    for title, rows in tables.items():
        lines += ["", *([f"**{title}**", ""] if title else []), *table(rows, COLUMNS[name])]
    return lines


def better(tables: Tables) -> dict[str, tuple[str, Row]]:
    """Every row in the arrangement in which its epochs are shortest, and which that is."""
    found: dict[str, tuple[str, Row]] = {}
    for title, rows in tables.items():
        for name, row in rows.items():
            if name not in found or epoch(row) < epoch(found[name][1]):
                found[name] = title, row
    return found


def epoch(row: Row) -> float:
    """Its median, in seconds."""
    return statistics.median(row["seconds"]["epoch"])


def table(rows: Mapping[str, Row], columns: Sequence[str]) -> list[str]:
    """Every row's time over that of the first one, whose own cells are seconds."""
    base_name, base = next(iter(rows.items()))

    def cell(row: Row, column: str) -> str:
        if column in FIGURES:
            return FIGURES[column][1].format(row["figures"][column])
        if row is base:
            return f"{statistics.median(row['seconds'][column]):.3g} s"
        return ratio(row["seconds"][column], base["seconds"][column])

    heads = [f"time / {base_name}", *(FIGURES.get(column, (column,))[0] for column in columns)]
    lines = [heads, ["---"] * len(heads)]
    lines += [[name, *(cell(row, column) for column in columns)] for name, row in rows.items()]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def ratio(seconds: list[float], base: list[float]) -> str:
    """Of each round: median (least to greatest)."""
    ratios = [a / b for a, b in zip(seconds, base, strict=True)]
    median = f"**{statistics.median(ratios):.2f}**"
    return median if len(ratios) == 1 else f"{median} ({min(ratios):.2f} to {max(ratios):.2f})"
