"""Answers as csv, markdown, LaTeX and JSON. pandas writes what it can."""

import json
import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import pandas as pd

from attnexp.analysis.contrasts import differences
from attnexp.analysis.frames import Group
from attnexp.base.errors import UserError
from attnexp.report import tables
from attnexp.report.tables import Table
from attnexp.statistics.verdict import Metric

SCHEMA = 5
"""Version of the JSON document."""

FIELDS = [
    *("data", "protocol", "variant", "baseline", "within", "point", "metric", "n", "mean", "sd"),
    *("low", "high", "texts_low", "texts_high", "p", "verdict"),
]
"""Keys of a difference in the JSON document."""

LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {"±": r"$\pm$", "−": "$-$", "–": "--", "√": r"$\sqrt{}$"}
    | {"\\": r"\textbackslash{}", "~": r"$\sim$", "^": r"\^{}"}
)
"""LaTeX of the characters that it does not take as they are."""


def text(
    groups: Sequence[Group], metrics: Sequence[Metric], format: str, *, table: str | None = None,
    at: str | None = None,
) -> str:  # fmt: skip
    """An answer, or one of its tables, in a format. at: endpoint of the LaTeX table; the deciding
    one if None. Raises `UserError` where there is no such endpoint."""
    found, shown = [differences(group, metrics) for group in groups], dict[str, Table]()
    if format == "json":
        return json.dumps(document(groups, found), indent=1)
    if table is not None:
        shown[table] = tables.TABLES[table](groups, metrics)
    elif format == "csv":  # a row for each seed, endpoint and metric
        rows = pd.concat([group.endpoints for group in groups])
        return str(rows.to_csv(index=False)).rstrip("\n")
    elif format == "markdown":
        shown["accuracy"] = tables.accuracy(groups, metrics)
        if len(rows := pd.concat(found)):
            shown["verdicts"] = tables.verdicts(rows)
    for group, metric in product(groups, metrics) if not shown else ():
        point = at or group.points[0]
        if point not in group.points:
            raise UserError(f"--at {at}: there are {', '.join(group.points)}.")
        name = "-".join([group.data, point, *[metric.name] * (len(metrics) > 1)])
        shown[name] = tables.paper(group, metric, point)
    if format == "csv":
        return "\n\n".join(of[1].to_csv(index=False).rstrip("\n") for of in shown.values())
    return "\n\n".join(
        markdown(of) if format == "markdown" else latex(of, name) for name, of in shown.items()
    )


def document(groups: Sequence[Group], found: Sequence[pd.DataFrame]) -> dict[str, Any]:
    """The JSON document: flat records `endpoints` and `differences`, and `notes`. Accuracies are
    shares; null stands where there is no number."""
    rows = pd.concat([group.endpoints for group in groups])
    keys = ["data", "protocol", "variant", "point", "epoch", "metric"]
    of_point = rows.groupby(keys[:4])["epoch"]  # none where each seed has chosen its own
    rows = rows.assign(epoch=rows["epoch"].where(of_point.transform("nunique") == 1))
    means = rows.groupby(keys, sort=False, dropna=False)["value"].agg(
        n="count", mean="mean", sd="std"
    )
    return {
        "schema": SCHEMA,
        "endpoints": records(means.reset_index()),
        "differences": records(pd.concat(found).reindex(columns=FIELDS)),
        "notes": [note for group in groups for note in group.notes],
    }


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as plain dicts, with None for what is no number or infinite."""
    rows = frame.astype(object).to_dict("records")
    return [{str(key): _plain(value) for key, value in row.items()} for row in rows]


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return None if value is pd.NA or value == "" else value


def markdown(table: Table) -> str:
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
