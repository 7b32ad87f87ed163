"""Answers as csv, markdown, LaTeX and JSON. pandas writes what it can."""

import json
import math
from collections.abc import Sequence
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


def text(
    groups: Sequence[Group], metrics: Sequence[Metric], format: str, *, table: str | None = None,
    at: str | None = None,
) -> str:  # fmt: skip
    """An answer, or one of its tables, in a format. at: endpoint of the LaTeX table; the deciding
    one if None. Raises `UserError` where there is no such endpoint."""
    found = [differences(group, metrics) for group in groups]
    if format == "json":
        return json.dumps(document(groups, found), indent=1)
    if table is not None:
        shown = {table: tables.TABLES[table](groups, metrics)}
    elif format == "csv":  # a row for each seed, endpoint and metric
        return pd.concat([group.endpoints for group in groups]).to_csv(index=False).rstrip("\n")
    elif format == "markdown":
        shown = {"accuracy": tables.accuracy(groups, metrics)}
        shown |= {"verdicts": tables.verdicts(pd.concat(found))} if any(map(len, found)) else {}
    else:
        if at and (lacking := [group for group in groups if at not in group.points]):
            raise UserError(f"--at {at}: there are {', '.join(lacking[0].points)}.")
        shown = {
            "-".join([g.data, at or g.points[0], metric.name]): tables.paper(
                g, metric, at or g.points[0]
            )
            for g in groups
            for metric in metrics
        }
    write = {"markdown": markdown, "latex": latex, "csv": csv}[format]
    return "\n\n".join(write(shown[name], name) for name in shown)


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


def markdown(table: Table, _: str = "") -> str:
    """A table with its title above."""
    title, frame = table
    lines = [[*map(str, frame.columns)], ["---"] * len(frame.columns), *frame.to_numpy().tolist()]
    rows = (" | ".join(cell.replace("|", "\\|") for cell in line) for line in lines)
    return "\n".join([f"{title}\n", *(f"| {row} |" for row in rows)])


def csv(table: Table, _: str = "") -> str:
    """A table without its title."""
    return table[1].to_csv(index=False).rstrip("\n")


def latex(table: Table, name: str) -> str:
    r"""A table for `\usepackage{booktabs}` with label and caption. name: part of the label."""
    title, frame = table
    signs = {"±": r"$\pm$", "−": "$-$", "–": "--", "√": r"$\sqrt{}$"}
    text = frame.rename(columns=str).map(_escaped).rename(columns=_escaped).to_latex(
        index=False, caption=_escaped(title), label=f"tab:{name}", position="t",
        column_format="l" + "r" * (len(frame.columns) - 1),
    )  # fmt: skip
    for sign, command in signs.items():
        text = text.replace(sign, command)
    return text.rstrip("\n")


def _escaped(text: str) -> str:
    found = str(text).replace("\\", r"\textbackslash{}")
    for character in "&%$#_{}":
        found = found.replace(character, "\\" + character)
    return found.replace("~", r"$\sim$").replace("^", r"\^{}")
