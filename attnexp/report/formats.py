"""Answers as csv, markdown, LaTeX and JSON. pandas writes what it can."""

import json
import math
from typing import Any

import pandas as pd

from attnexp.analysis.answer import ENDPOINT_KEYS, Answer
from attnexp.analysis.contrasts import FIELDS
from attnexp.report.difference_tables import tabulate_differences
from attnexp.report.table import Table, TableName
from attnexp.report.tables import make_table, tabulate_means

SCHEMA = 6  # of the JSON document

LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {"±": r"$\pm$", "−": "$-$", "–": "--", "<": "$<$", ">": "$>$"}
    | {"\\": r"\textbackslash{}", "~": r"$\sim$", "^": r"\^{}"}
)
"""LaTeX of the characters that it does not take as they are."""


def format_answer(answer: Answer, format: str) -> str:
    """An answer as csv (a row for each seed, endpoint and metric), json, markdown or latex."""
    if format == "json":
        return json.dumps(make_document(answer), indent=1)
    if format == "csv":
        return to_csv(pd.concat([group.endpoints for group in answer.groups]))
    tables = {"accuracy": tabulate_means(answer)}
    if answer.differences:
        tables["verdicts"] = tabulate_differences(answer.differences)
    texts = [_format_text(table, name, format) for name, table in tables.items()]
    return "\n\n".join(texts)


def format_table(answer: Answer, name: TableName, format: str) -> str:
    """One of the tables of an answer in a format."""
    table = make_table(name, answer)
    if format == "json":
        return json.dumps({name: to_records(table.frame)}, indent=1)
    if format == "csv":
        return to_csv(table.frame)
    return _format_text(table, name, format)


def make_document(answer: Answer) -> dict[str, Any]:
    """The JSON document: flat records `endpoints` and `differences`, and `notes`. Accuracies are
    shares; null stands where there is no number."""
    return {
        "schema": SCHEMA,
        "endpoints": to_records(answer.endpoints[[*ENDPOINT_KEYS, "n", "mean", "sd"]]),
        "differences": to_records(difference_frame(answer)),
        "notes": answer.notes,
    }


def difference_frame(answer: Answer) -> pd.DataFrame:
    """A row for each difference, with the keys of the JSON document."""
    return pd.DataFrame([row.record for row in answer.differences], columns=FIELDS)


def to_records(frame: pd.DataFrame) -> list[Any]:
    """Rows as plain dicts, with None for what is empty, no number or infinite."""
    is_there = frame.notna() & ~frame.isin(["", math.inf, -math.inf])
    return list(frame.astype(object).where(is_there, None).to_dict("records"))


def to_csv(frame: pd.DataFrame) -> str:
    """The frame without its index."""
    return str(frame.to_csv(index=False)).rstrip("\n")


def to_markdown(table: Table) -> str:
    """A table with its title above."""
    names = list(map(str, table.frame.columns))
    rows = [names, ["---"] * len(names), *table.frame.to_numpy().tolist()]
    lines = []
    for row in rows:
        cells = [cell.replace("|", "\\|") for cell in row]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([table.title, "", *lines])


def to_latex(table: Table, name: str) -> str:
    r"""A table for `\usepackage{booktabs}` with label and caption. name: part of the label."""
    frame = table.frame.map(lambda cell: cell.translate(LATEX))
    frame = frame.rename(columns=lambda column: str(column).translate(LATEX))
    text = frame.to_latex(
        index=False,
        caption=table.title.translate(LATEX),
        label=f"tab:{name}",
        position="t",
        column_format="l" + "r" * (len(frame.columns) - 1),
    )
    return str(text).rstrip("\n")


def _format_text(table: Table, name: str, format: str) -> str:
    return to_markdown(table) if format == "markdown" else to_latex(table, name)
