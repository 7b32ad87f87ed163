"""`attnexp judge`: the answer of results of any trainer."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from attnexp.cli.app import AsJson, Until, app, stop
from attnexp.cli.report import Format, Html, Table, print_answer

Words = list[str] | None
Name = typer.Option(metavar="NAME", help="Name of a column.")
Columns = typer.Option("--columns", "--metric", metavar="NAME,...", help="Else accuracies.")
Margins = typer.Option(metavar="[METRIC=]NUMBER", help="Smallest difference that matters.")
Higher = typer.Option(metavar="METRIC", help="Metric to judge, of which more is better.")
Lower = typer.Option(metavar="METRIC", help="Metric to judge, of which less is better.")


@app.command()
def judge(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="A csv, jsonl or parquet.")],
    baseline: Annotated[str | None, typer.Option(metavar="VARIANT", help="Default: first.")] = None,
    columns: Annotated[Words, Columns] = None,
    variant_column: Annotated[str, Name] = "variant",
    seed_column: Annotated[str, Name] = "seed",
    higher: Annotated[Words, Higher] = None,
    lower: Annotated[Words, Lower] = None,
    margin: Annotated[Words, Margins] = None,
    until: Annotated[Until, typer.Option(help="Exit with 1 if any is undecided.")] = None,
    table: Table = None,
    format: Format = "table",
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Compare results of any trainer, with variants paired by seed.

    Each row holds a run: variant, seed and its metrics. Or each row holds an answer: variant, seed,
    example and correct (1 or 0). A column dataset separates data sets.

    Example: attnexp judge results.csv --lower loss --margin loss=0.01
    """
    from attnexp.analysis.answer import compare
    from attnexp.analysis.read_results import read_results

    groups, metrics = read_results(
        files,
        split_names(columns),
        higher=split_names(higher),
        lower=split_names(lower),
        margins=margin or [],
        variant_column=variant_column,
        seed_column=seed_column,
        baseline=baseline,
        sequential=until is not None,
    )
    answer = compare(groups, metrics)
    if html is not None:
        from attnexp.report.page import write_page  # imports matplotlib

        write_page(html, answer)
    print_answer(answer, table, "json" if as_json else format, only_if_asked=html is not None)
    if until and answer.undecided:
        names = ", ".join(answer.undecided)
        stop(f"not decided: {names}. Add a seed to each variant and judge again.", code=1)


def split_names(words: Iterable[str] | None) -> list[str]:
    """`a,b` and `c` as a, b, c."""
    return [name for word in words or () for name in word.split(",") if name]
