"""`attnexp judge`: the answer of results of any trainer."""

from pathlib import Path
from typing import Annotated

import typer

from attnexp.cli.app import AsJson, Margin, Until, app, stop
from attnexp.cli.report import Format, Html, Table, print_answer

Column = typer.Option(metavar="NAME", help="Name of a column.")


@app.command()
def judge(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="A csv, jsonl or parquet.")],
    metric: Annotated[str, typer.Option(metavar="NAME", help="Column to judge.")] = "accuracy",
    lower: Annotated[
        bool, typer.Option("--lower", help="Less is better, as it is for loss anyway.")
    ] = False,
    margin: Margin = None,
    baseline: Annotated[str | None, typer.Option(metavar="VARIANT", help="Default: first.")] = None,
    variant_column: Annotated[str, Column] = "variant",
    seed_column: Annotated[str, Column] = "seed",
    dataset_column: Annotated[str, Column] = "dataset",
    until: Annotated[Until, typer.Option(help="Exit with 1 if any is undecided.")] = None,
    table: Table = None,
    format: Format = "table",
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Compare results of any trainer, with variants paired by seed.

    Each row holds a run: variant, seed and a metric. Or each row holds an answer: variant, seed,
    example and correct (1 or 0). A column dataset separates data sets. A metric in 0 to 1 of which
    more is better is shown in %, and its margin is in points.

    Example: attnexp judge results.csv --metric loss --lower --margin 0.01"""
    from attnexp.analysis.answer import compare
    from attnexp.analysis.read_results import read_results

    groups, spec = read_results(
        files,
        metric,
        lower=lower,
        margin=margin,
        baseline=baseline,
        variant_column=variant_column,
        seed_column=seed_column,
        dataset_column=dataset_column,
        sequential=until is not None,
    )
    answer = compare(groups, spec)
    if html is not None:
        from attnexp.report.page import write_page  # imports matplotlib

        write_page(html, answer)
    print_answer(answer, table, "json" if as_json else format)
    if until and answer.undecided:
        names = ", ".join(answer.undecided)
        stop(f"not decided: {names}. Add a seed to each variant and judge again.", code=1)
