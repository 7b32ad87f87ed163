"""Answers as csv, markdown, LaTeX and JSON. pandas writes what it can."""

import json
import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from attnexp.analysis.contrasts import differences
from attnexp.analysis.frames import Group
from attnexp.report import tables
from attnexp.report.tables import Table
from attnexp.statistics.verdict import Metric

SCHEMA = 5  # of the JSON document

FIELDS = """data protocol variant baseline within point metric n mean sd low high texts_low
texts_high p verdict reason""".split()
"""Keys of a difference in the JSON document."""

LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {"±": r"$\pm$", "−": "$-$", "–": "--", "<": "$<$", ">": "$>$"}
    | {"\\": r"\textbackslash{}", "~": r"$\sim$", "^": r"\^{}"}
)
"""LaTeX of the characters that it does not take as they are."""


def text(
    groups: Sequence[Group], metrics: Sequence[Metric], format: str, table: str | None = None
) -> str:
    """An answer, or one of its tables, in a format."""
    if format == "json" and table is None:
        return json.dumps(document(groups, metrics), indent=1)
    if table is not None:
        shown = {table: tables.TABLES[table](groups, metrics)}
    elif format == "csv":  # a row for each seed, endpoint and metric
        shown = {"": ("", pd.concat([group.endpoints for group in groups]))}
    else:
        found = pd.concat([differences(group, metrics) for group in groups])
        shown = {"accuracy": tables.accuracy(groups, metrics)}
        shown |= {"verdicts": tables.of_differences(found)} if len(found) else {}
    if format == "csv":
        return "".join(frame.to_csv(index=False) for _, frame in shown.values()).rstrip("\n")
    if format == "json":
        return json.dumps({key: records(frame) for key, (_, frame) in shown.items()}, indent=1)
    write = markdown if format == "markdown" else latex
    return "\n\n".join(write(one, name) for name, one in shown.items())


def document(groups: Sequence[Group], metrics: Sequence[Metric]) -> dict[str, Any]:
    """The JSON document: flat records `endpoints` and `differences`, and `notes`. Accuracies are
    shares; null stands where there is no number."""
    rows = pd.concat([group.endpoints for group in groups])
    keys = ["data", "protocol", "variant", "point", "epoch", "metric"]
    epochs = rows.groupby(keys[:4])["epoch"]  # none where each seed has chosen its own
    rows = rows.assign(epoch=rows["epoch"].where(epochs.transform("nunique") == 1))
    values = rows.groupby(keys, sort=False, dropna=False)["value"]
    found = pd.concat([differences(group, metrics) for group in groups])
    return {
        "schema": SCHEMA,
        "endpoints": records(values.agg(n="count", mean="mean", sd="std").reset_index()),
        "differences": records(found.reindex(columns=FIELDS)),
        "notes": [note for group in groups for note in group.notes],
    }


def records(frame: pd.DataFrame) -> list[Any]:
    """Rows as plain dicts, with None for what is empty, no number or infinite."""
    is_there = frame.notna() & ~frame.isin(["", math.inf, -math.inf])
    return [*frame.astype(object).where(is_there, None).to_dict("records")]


def markdown(table: Table, _: str = "") -> str:
    """A table with its title above."""
    title, frame = table
    lines = [[*map(str, frame.columns)], ["---"] * len(frame.columns), *frame.to_numpy().tolist()]
    rows = (" | ".join(cell.replace("|", "\\|") for cell in line) for line in lines)
    return "\n".join([f"{title}\n", *(f"| {row} |" for row in rows)])


def latex(table: Table, name: str) -> str:
    r"""A table for `\usepackage{booktabs}` with label and caption. name: part of the label."""
    title, frame = table
    texts = frame.rename(columns=str).map(lambda cell: cell.translate(LATEX))
    text = texts.rename(columns=lambda column: column.translate(LATEX)).to_latex(
        index=False, caption=title.translate(LATEX), label=f"tab:{name}", position="t",
        column_format="l" + "r" * (len(frame.columns) - 1),
    )  # fmt: skip
    return str(text).rstrip("\n")
