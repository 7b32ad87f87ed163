"""What `report` and `judge` have in common: options of their output, and the answer on stdout."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from attnexp.cli.app import console, emit
from attnexp.report.table import TableName

if TYPE_CHECKING:
    from attnexp.analysis.answer import Answer

TableOption = Annotated[
    TableName | None, typer.Option("--table", help="Print one table instead of the answer.")
]
Format = Annotated[
    Literal["table", "csv", "markdown", "latex", "json"], typer.Option(help="Output format.")
]
Html = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the answer as a web page.")]


def print_answer(
    answer: "Answer", table: TableName | None, format: str, *, only_if_asked: bool = False
) -> None:
    """Print an answer, or one of its tables, in a format. only_if_asked: whether the answer as it
    is by default is left out, since a file holds it."""
    from attnexp.report import formats
    from attnexp.report.print_table import print_table
    from attnexp.report.tables import make_table
    from attnexp.report.terminal import show_answer

    if format != "table" and table is not None:
        emit(formats.format_table(answer, table, format))
    elif format != "table":
        emit(formats.format_answer(answer, format))
    elif table is not None:
        print_table(make_table(table, answer), console())
    elif not only_if_asked:
        show_answer(answer, console())
