"""Answers as csv, markdown, LaTeX and JSON. pandas writes what it can."""

import math

import pandas as pd

from attnexp.analysis.answer import ENDPOINT_FIELDS, Answer
from attnexp.analysis.contrasts import difference_frame
from attnexp.report import Record, TableName
from attnexp.report.methods import describe_in_words, describe_studies
from attnexp.report.remarks import list_remarks
from attnexp.report.table import Table
from attnexp.report.tables import VERDICT_COLUMNS, make_table, tabulate_alone, tabulate_means

SEED_COLUMNS = ["data", "protocol", "variant", "seed", "point", "epoch", "metric", "value"]
EMPTY = ["", math.inf, -math.inf]  # cells that are as good as empty
LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {"±": r"$\pm$", "−": "$-$", "–": "--", "<": "$<$", ">": "$>$"}
    | {"\\": r"\textbackslash{}", "~": r"$\sim$", "^": r"\^{}"}
)


def make_document(answer: Answer, table: TableName | None = None) -> Record:
    """The JSON document of an answer or a table: accuracies are shares, null is no number."""
    if table == "study":
        return {table: describe_studies(answer)}
    if table is not None:
        return {table: to_records(make_table(table, answer).frame)}
    return {
        "endpoints": to_records(answer.at_endpoints[ENDPOINT_FIELDS]),
        "differences": to_records(difference_frame(answer.differences)),
        "notes": answer.notes,
    }


def format_answer(answer: Answer, name: TableName | None, format: str) -> str:
    """An answer or a table as csv (numbers), markdown or latex (texts); `study` is sentences."""
    if name is None and format == "csv":
        return to_csv(pd.concat([group.at_endpoints for group in answer.groups])[SEED_COLUMNS])
    tables: dict[str, Table] = {}
    texts: list[str] = []
    if name == "study":
        texts = ["\n".join(describe_in_words(study)) for study in describe_studies(answer)]
    elif name is not None:
        tables[name] = make_table(name, answer)
    else:
        tables["accuracy"] = tabulate_means(answer)
        if answer.measured:
            tables["verdicts"] = tabulate_alone(answer, answer.measured, VERDICT_COLUMNS)
        if answer.means:
            tables["across"] = make_table("across", answer)
        texts = list_remarks(answer, answer.differences)
    paragraphs = [_format_table(table, name, format) for name, table in tables.items()]
    paragraphs += map(_escape, texts) if format == "latex" else texts
    return "\n\n".join(paragraphs)


def to_records(frame: pd.DataFrame) -> list[Record]:
    """Rows as plain dicts, with None for what is empty, no number or infinite."""
    is_empty = frame.isna() | frame.isin(EMPTY)
    cells = frame.astype(object).mask(is_empty, None)
    return list(cells.to_dict("records"))


def to_csv(frame: pd.DataFrame) -> str:
    """Without index and infinite numbers; a name that a spreadsheet would compute gets a quote."""
    cells = frame.mask(frame.isin(EMPTY))
    cells = cells.replace(r"^(?=[=+\-@])", "'", regex=True)
    return str(cells.to_csv(index=False)).rstrip("\n")


def _format_table(table: Table, name: str, format: str) -> str:
    """A table as csv, or with its title as markdown, or as LaTeX with the label `tab:NAME`."""
    if format == "csv":
        return to_csv(table.frame)
    cells = table.cells
    if format == "markdown":
        rule = ["---"] * len(cells.columns)
        lines = [table.title, ""]
        for row in (cells.columns, rule, *cells.to_numpy()):
            line = " | ".join(cell.replace("|", "\\|") for cell in row)
            lines.append(f"| {line} |")
        return "\n".join(lines)
    escaped = cells.map(_escape).rename(columns=_escape)
    first = escaped.columns[0]  # LaTeX takes `[` or `*` at the start of a line for an argument.
    escaped[first] = escaped[first].str.replace(r"^(?=[\[*])", "{}", regex=True)
    text = escaped.to_latex(
        index=False,
        caption=_escape(table.title),
        label=f"tab:{name}",
        position="t",
        column_format="l" + "r" * (len(cells.columns) - 1),
    )
    return str(text).rstrip("\n")


def _escape(text: str) -> str:
    return text.translate(LATEX)
