"""Answers as csv, markdown, LaTeX and JSON. pandas writes what it can."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from attnexp.analysis.frames import Group
from attnexp.report.tables import Table

SCHEMA = 5
"""Version of the JSON document."""

FIELDS = [
    *("data", "protocol", "variant", "baseline", "within", "point", "metric", "n", "mean", "sd"),
    *("low", "high", "texts_low", "texts_high", "p", "verdict"),
]
"""Keys of a difference in the JSON document."""


def document(groups: Sequence[Group], found: Sequence[pd.DataFrame]) -> dict[str, Any]:
    """The JSON document: flat records `endpoints` and `differences`, and `notes`. Accuracies are
    shares; null stands where there is no number."""
    rows = pd.concat([group.endpoints for group in groups])
    keys = ["data", "protocol", "variant", "point", "epoch", "metric"]
    rows = rows.assign(epoch=_epoch_of_all(rows))
    means = rows.groupby(keys, sort=False, dropna=False)["value"].agg(
        n="count", mean="mean", sd="std"
    )
    differences = pd.concat(found)
    return {
        "schema": SCHEMA,
        "endpoints": records(means.reset_index()),
        "differences": records(differences[FIELDS]) if len(differences) else [],
        "notes": [note for group in groups for note in group.notes],
    }


def _epoch_of_all(rows: pd.DataFrame) -> "pd.Series[Any]":
    """The epoch of an endpoint; none where it differs between seeds, as where each chose its own."""
    of = rows.groupby(["data", "protocol", "variant", "point"])["epoch"]
    return rows["epoch"].where(of.transform("nunique") == 1)


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as plain dicts, with None for what is no number or infinite."""
    rows = frame.astype(object).to_dict("records")
    return [{str(key): _plain(value) for key, value in row.items()} for row in rows]


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return None if value is pd.NA or value == "" else value


def csv(groups: Sequence[Group]) -> str:
    """Everything as one long table: a row for each seed, endpoint and metric."""
    return pd.concat([group.endpoints for group in groups]).to_csv(index=False)


def markdown(table: Table) -> str:
    """A table with its title above."""
    title, frame = table
    lines = [[*map(str, frame.columns)], ["---"] * len(frame.columns), *frame.to_numpy().tolist()]
    body = "\n".join(
        "| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in lines
    )
    return f"{title}\n\n{body}"


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
