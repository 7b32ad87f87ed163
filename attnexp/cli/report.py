"""Commands on results: `report`, `judge`, `runs`."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

import typer

from attnexp.base import SENTENCE
from attnexp.base.errors import UserError
from attnexp.cli import completion
from attnexp.cli.app import (
    AnyCode,
    AsJson,
    Folders,
    Margin,
    TrustCode,
    Until,
    app,
    console,
    emit,
    stop,
)

TableName = Annotated[
    Literal["differences", "epochs", "metrics", "classes", "within", "across"] | None,
    typer.Option("--table", help="Print one table instead of the answer."),
]
Format = Annotated[
    Literal["table", "csv", "markdown", "latex", "json"], typer.Option(help="Output format.")
]
Html = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the answer as a web page.")]
Show = Literal["curves", "forest", "attention", "positions"]
Words = list[str] | None
Name = typer.Option(metavar="NAME", help="Name of a column.")
Metrics = typer.Option(metavar="METRIC", help="Metric to judge, and its direction.")


@app.command()
def report(
    paths: Folders,
    table: TableName = None,
    format: Format = "table",
    margin: Margin = 0.25,
    html: Html = None,
    figure: Annotated[Path | None, typer.Option(metavar="FILE", help="A svg, pdf or png.")] = None,
    show: Annotated[Show, typer.Option(help="Content of --figure.")] = "curves",
    run: Annotated[
        list[Path] | None,
        typer.Option(metavar="RUN_DIR", help="To show attention.", autocompletion=completion.runs),
    ] = None,
    text: Annotated[str, typer.Option(help="Text whose attention is shown.")] = SENTENCE,
    trust_code: TrustCode = False,
    any_code: AnyCode = False,
    as_json: AsJson = False,
) -> None:
    """Print the answer of finished runs: accuracy, a curve, and a verdict for each difference.

    DIR is a study, another folder with runs, or a published file.

    Example: attnexp report outputs/blog --html blog.html --run outputs/runs/RUN
    """
    from attnexp.analysis.frames import load
    from attnexp.report import terminal
    from attnexp.statistics.verdict import Metric

    if text != SENTENCE and not run:
        raise UserError("--text is a text for a model to read: add --run RUN_DIR.")
    if figure is None and show != "curves":
        raise UserError("--show is about a picture: add --figure FILE.")
    if run and html is None and show not in ("attention", "positions"):
        raise UserError("--run needs --html FILE, or --figure FILE with --show attention.")
    left_out: list[str] = []
    groups, metrics = load(paths, left_out.append), [Metric(margin=margin / 100)]
    format = "json" if as_json else format
    if table or format != "table" or (html is None and figure is None):
        terminal.show_answer(groups, metrics, console(), table=table, format=format)
    if html is not None or figure is not None:
        from attnexp.report import figures, page  # imports matplotlib

        readers = page.readers_of(run or [], trust_code=trust_code, any_code=any_code)
        readings = [(name, read(text)) for name, read in readers]
        if html is not None:
            page.write(html, groups, metrics, readings)
        if figure is not None:
            drawn = page.draw(show, groups, metrics, readings)
            figures.save(drawn, figure)
    missing = ["Planned seeds are missing."] if any(group.missing() for group in groups) else []
    if left_out or missing:
        stop("\n".join([*left_out, *missing, "attnexp runs lists all runs."]), code=1)


@app.command()
def judge(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="csv, jsonl or parquet.")],
    baseline: Annotated[str | None, typer.Option(metavar="VARIANT", help="Default: first.")] = None,
    columns: Annotated[Words, typer.Option(metavar="NAME,...", help="Metrics; else all.")] = None,
    variant_column: Annotated[str, Name] = "variant",
    seed_column: Annotated[str, Name] = "seed",
    higher: Annotated[Words, Metrics] = None,
    lower: Annotated[Words, Metrics] = None,
    margin: Annotated[
        Words, typer.Option(metavar="[METRIC=]NUMBER", help="Smallest difference that matters.")
    ] = None,
    until: Annotated[Until, typer.Option(help="Exit with 1 if any is undecided.")] = None,
    table: Literal["differences", "metrics", "within", "across"] | None = None,
    format: Format = "table",
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Compare results of any trainer, with variants paired by seed.

    Each row holds a run: variant, seed and its metrics. Or each row holds an answer: variant, seed,
    example and correct (1 or 0). A column dataset separates data sets.

    Example: attnexp judge results.csv --lower loss --margin loss=0.01
    """
    from attnexp.analysis.judge import metrics_of, read_results
    from attnexp.report import tables, terminal

    groups = read_results(
        files,
        split(columns),
        variant_column=variant_column,
        seed_column=seed_column,
        baseline=baseline,
        sequential=until is not None,
    )
    metrics = [*metrics_of(groups, split(higher), split(lower), margin or [])]
    if html is not None:
        from attnexp.report import page  # imports matplotlib

        page.write(html, groups, metrics)
    format = "json" if as_json else format
    if table or format != "table" or html is None:
        terminal.show_answer(groups, metrics, console(), table=table, format=format)
    if until and (names := tables.undecided(groups, metrics)):
        stop(f"not decided: {', '.join(names)}. Add a seed to each variant and judge again.", 1)


def split(words: Iterable[str] | None) -> list[str]:
    """`a,b` and `c` as a, b, c."""
    return [name for word in words or () for name in word.split(",") if name]


@app.command()
def runs(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", autocompletion=completion.studies)
    ] = Path("outputs"),
    forget: Annotated[
        str | None, typer.Option(metavar="ID", help="Take a run out of the study DIR; files stay.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List runs, finished, running, stopped or broken: data, seed, settings, accuracy.

    Accuracy is that of the last epoch, or of the one that held-out data chose.
    """
    from attnexp.report import formats, listing, terminal
    from attnexp.runs import manifest

    if forget:
        manifest.forget_run(folder, forget)
    found = listing.list_runs(folder)
    if as_json:
        emit({"schema": 3, "runs": formats.records(found)})
    else:
        terminal.print_table(listing.as_table(found), console())
    broken = found[found["state"] == "broken"].fillna("")
    if len(broken):
        lines = broken["folder"] + ": " + broken["reason"] + " " + broken["again"]
        stop("\n".join(["Some runs cannot be read.", *lines]), code=1)
