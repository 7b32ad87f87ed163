"""Answers as csv, markdown, LaTeX and JSON. pandas writes what it can."""

import json
import math
import re
from typing import Any

import pandas as pd

from attnexp.analysis.answer import ENDPOINT_KEYS, Answer
from attnexp.analysis.contrasts import FIELDS
from attnexp.base.errors import UserError
from attnexp.report.difference_tables import tabulate_differences
from attnexp.report.methods import describe_in_words, describe_studies
from attnexp.report.table import Table, TableName
from attnexp.report.tables import make_table, mean_by_class, tabulate_means

SCHEMA = 6  # of the JSON document

FORMULA = re.compile(r"[=@]|[+-](?!\d+(\.\d+)?(e[+-]\d+)?( ±|$))")
"""Beginning of what a spreadsheet computes; `+2.53` and `-0.12 ± 0.05` are no formulas."""

LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {"±": r"$\pm$", "−": "$-$", "–": "--", "<": "$<$", ">": "$>$"}
    | {"\\": r"\textbackslash{}", "~": r"$\sim$", "^": r"\^{}"}
)


def format_answer(answer: Answer, format: str) -> str:
    """An answer as csv (a row for each seed, endpoint and metric), json, markdown or latex."""
    if format == "json":
        return json.dumps(make_document(answer), indent=1)
    if format == "csv":
        return to_csv(pd.concat([group.endpoints for group in answer.groups]))
    text = _format_text(tabulate_means(answer), "accuracy", format)
    if answer.differences:
        verdicts = tabulate_differences(answer.differences)
        text += "\n\n" + _format_text(verdicts, "verdicts", format)
    return text


def format_table(answer: Answer, name: TableName, format: str) -> str:
    """One of the tables of an answer in a format."""
    if name == "study":
        studies = describe_studies(answer)
        if not studies:
            raise UserError("--table study takes results of attnexp, which say how they were made.")
        text = "\n\n".join(map(describe_in_words, studies))
        return json.dumps({name: studies}, indent=1) if format == "json" else text
    if name == "classes" and format == "json":
        return json.dumps({name: to_records(mean_by_class(answer))}, indent=1)
    table = make_table(name, answer)
    if format == "json":
        return json.dumps({name: to_records(table.frame)}, indent=1)
    return to_csv(table.frame) if format == "csv" else _format_text(table, name, format)


def make_document(answer: Answer) -> dict[str, Any]:
    """The JSON document: accuracies are shares, and null stands where there is no number."""
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
    """The frame without its index. What a spreadsheet would compute has a quote in front."""
    return str(frame.map(_quote_formula).to_csv(index=False)).rstrip("\n")


def _quote_formula(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) else cell


def _format_text(table: Table, name: str, format: str) -> str:
    return to_markdown(table) if format == "markdown" else to_latex(table, name)


def to_markdown(table: Table) -> str:
    """A table with its title above."""
    names = list(map(str, table.frame.columns))
    rule = ["---"] * len(names)
    lines = [table.title, ""]
    for row in (names, rule, *table.frame.to_numpy()):
        cells = [cell.replace("|", "\\|") for cell in row]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def to_latex(table: Table, name: str) -> str:
    r"""A table for `\usepackage{booktabs}` with label and caption. name: part of the label."""
    frame = table.frame.map(lambda cell: cell.translate(LATEX))
    frame = frame.rename(columns=lambda column: str(column).translate(LATEX))
    caption = table.title.translate(LATEX)
    columns = "l" + "r" * (len(frame.columns) - 1)
    text = frame.to_latex(
        index=False, caption=caption, label=f"tab:{name}", position="t", column_format=columns
    )
    return str(text).rstrip("\n")
