"""`attnexp report`: the answer of finished runs; and how it and `judge` print an answer."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from attnexp.base import SENTENCE
from attnexp.base.errors import UserError
from attnexp.cli.app import AnyCode, AsJson, Folders, Margin, TrustCode, app, console, emit, stop
from attnexp.report import TableName

if TYPE_CHECKING:
    from attnexp.analysis.answer import Answer
    from attnexp.inspect.insight import Reading

    Readings = list[tuple[str, Reading]]

FormatName = Literal["table", "csv", "markdown", "latex", "json"]
Show = Literal["curves", "forest", "attention", "positions"]


def choice(help: str, type: Any) -> Any:
    """Option whose help lists the values that its type allows."""
    return typer.Option(metavar="NAME", help=f"{help}: {', '.join(get_args(type))}.")


Table = Annotated[TableName | None, choice("Print one table", TableName)]
Format = Annotated[FormatName, choice("Output format", FormatName)]
Html = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the answer as a web page.")]


@app.command()
def report(
    paths: Folders,
    table: Table = None,
    format: Format = "table",
    margin: Margin = None,
    metric: Annotated[str | None, typer.Option(metavar="NAME", help="Else the study's.")] = None,
    html: Html = None,
    figure: Annotated[Path | None, typer.Option(metavar="FILE", help="A svg, pdf or png.")] = None,
    show: Annotated[Show, choice("Content of --figure", Show)] = "curves",
    run: Annotated[
        list[Path] | None,
        typer.Option(metavar="RUN_DIR", help="Run whose attention --html and --figure show."),
    ] = None,
    text: Annotated[str, typer.Option(help="Text whose attention is shown.")] = SENTENCE,
    trust_code: TrustCode = False,
    any_code: AnyCode = False,
    as_json: AsJson = False,
) -> None:
    """Print the answer of finished runs: accuracy, a curve, and a verdict for each difference.

    DIR is a study, another folder with runs, or a published file.

    Example: attnexp report outputs/blog --html blog.html --run outputs/runs/RUN"""
    from attnexp.analysis.answer import choose_metric, compare
    from attnexp.analysis.read_runs import load_groups

    if show != "curves" and not figure:
        raise UserError("--show is for --figure FILE.")
    draws_run = html or show in ("attention", "positions")
    if run and not draws_run:
        raise UserError("--run is for --html, and for --show attention or positions.")
    if text != SENTENCE and not run:
        raise UserError("--text is for --run.")
    left_out: list[str] = []
    groups = load_groups(paths, left_out.append)
    answer = compare(groups, choose_metric(metric, margin, groups))
    readings = _load_readings(run, text, trust_code=trust_code, any_code=any_code)
    if html:
        from attnexp.report.page import write_page  # imports matplotlib

        write_page(html, answer, readings)
    if figure:
        from attnexp.report.figures import draw_picture, save_figure  # imports matplotlib

        save_figure(draw_picture(show, answer, readings), figure)
    print_answer(answer, table, "json" if as_json else format)
    _stop_if_incomplete(answer, left_out)


def _stop_if_incomplete(answer: "Answer", left_out: list[str]) -> None:
    """Exit with 1 where planned seeds are missing, or runs could not be read."""
    if any(group.missing() for group in answer.groups):
        left_out.append("Planned seeds are missing.")
    if left_out:
        stop("\n".join([*left_out, "attnexp runs lists all runs."]), code=1)


def _load_readings(folders: list[Path] | None, text: str, **trust: bool) -> "Readings":
    """What the models of finished runs make of a text, each with the name of its run."""
    if not folders:
        return []
    from attnexp.inspect.insight import load_model  # imports torch
    from attnexp.runs.find import load_run
    from attnexp.runs.labels import default_label, seed_name

    readings = []
    for folder in folders:
        config = load_run(folder).result.config
        name = f"{default_label(config)}, seed {seed_name(config)}"
        readings.append((name, load_model(folder, **trust).read(text)))
    return readings


def print_answer(answer: "Answer", table: TableName | None, format: str) -> None:
    """Print an answer, or one of its tables, in a format."""
    from attnexp.report import formats
    from attnexp.report.table import print_table
    from attnexp.report.tables import make_table
    from attnexp.report.terminal import show_answer

    if format == "json":
        emit(formats.make_document(answer, table))
    elif format != "table" or table == "study":  # sentences in every format
        emit(formats.format_answer(answer, table, format))
    elif table is not None:
        print_table(make_table(table, answer), console())
    else:
        show_answer(answer, console())
