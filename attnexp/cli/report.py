"""Commands on finished runs and results: `report`, `judge`, `export`, `publish`."""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from attnexp.base.errors import UserError
from attnexp.cli import completion
from attnexp.cli.app import AsJson, Folders, Html, Margin, TrustCode, app, console, emit, stop


@app.command()
def report(
    folders: Folders,
    format: Annotated[
        Literal["table", "markdown", "csv", "json", "latex"], typer.Option(help="Output format.")
    ] = "table",
    html: Html = None,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write one figure: FILE.svg, .pdf or .png."),
    ] = None,
    show: Annotated[
        Literal["curves", "forest", "attention", "positions"] | None,
        typer.Option(help="Content of --figure (default: curves, the accuracy by epoch)."),
    ] = None,
    run: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="RUN_DIR",
            help="Run whose attention is shown; repeat once to compare two runs.",
            autocompletion=completion.runs,
        ),
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="Text whose attention is shown on the page or figure.")
    ] = None,
    trust_code: TrustCode = False,
    margin: Margin = 0.25,
    as_json: AsJson = False,
) -> None:
    """Print the tables and verdicts of finished runs.

    Example: attnexp report outputs/blog --format markdown

    Example: attnexp report outputs/blog --html blog.html

    Example: attnexp report outputs/blog --figure forest.svg --show forest

    Example: attnexp report outputs/blog --html a.html --text "not bad, but not good either"
    """
    from attnexp.analysis.comparison import compare
    from attnexp.base.progress import note
    from attnexp.inspect import insight, predict
    from attnexp.report import formats, pictures
    from attnexp.report.tables import missing_seeds
    from attnexp.runs.manifest import load_runs
    from attnexp.runs.store import load

    runs = run or []
    if runs and html is None and show not in ("attention", "positions"):
        raise UserError(
            f"--run {runs[0]} selects the run whose attention is shown. It needs --html FILE, or "
            f"--figure FILE with --show attention or positions."
        )
    if len(runs) > (1 if figure else 2):
        raise UserError(f"A page shows at most two runs, a figure one; got {len(runs)} with --run.")
    if text is not None and html is None and show != "attention":
        raise UserError(
            "--text is the text whose attention is shown. It needs --html FILE, or --figure "
            "FILE with --show attention."
        )
    sentence = (
        insight.SENTENCE if text is None else next(predict.lines(text, None, sys.stdin.buffer))
    )
    if figure is None and show is not None:
        raise UserError(f"--show {show} is the content of a figure. It needs --figure FILE.")
    if figure is not None:
        pictures.kind_of(figure)  # before anything is read
    left_out: list[str] = []
    found = load_runs(folders, left_out.append)
    compared = compare(found, margin=margin)
    left_out += [reason for comparison in compared for reason in comparison.damaged]
    if html is not None or figure is not None:
        from attnexp.report.html import write
        from attnexp.runs.result import Run

        chosen = [Run(path=path, result=load(path)) for path in runs]
        shown: dict[str, Any] = {"chosen": chosen, "sentence": sentence, "trust_code": trust_code}
        if html is not None:
            write(html, found, compared, **shown)
            note(f"Page: {html}")
        if figure is not None:
            pictures.write(figure, show or "curves", found, compared[0], **shown)
            note(f"Figure: {figure}")
    elif format == "table" and not as_json:
        formats.print_comparisons(compared, console())
    else:
        emit(formats.TEXTS["json" if as_json else format](compared).rstrip("\n"))
    lines = ["Some results could not be read and were left out:", *left_out] if left_out else []
    lines += [line for comparison in compared for line in missing_seeds(comparison)]
    if lines:
        stop("\n".join(lines), code=1)


@app.command()
def judge(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="csv, tsv, json, jsonl or parquet.")],
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="VARIANT", help="Variant that others are compared with (default: the first)."
        ),
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="Metric to compare (default: all); may be repeated.")
    ] = None,
    higher: Annotated[
        list[str] | None, typer.Option(metavar="METRIC", help="Metric that is better when higher.")
    ] = None,
    lower: Annotated[
        list[str] | None, typer.Option(metavar="METRIC", help="Metric that is better when lower.")
    ] = None,
    margin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[METRIC=]NUMBER",
            help="Smallest difference that matters (default for accuracies: 0.25 points).",
        ),
    ] = None,
    until: Annotated[
        Literal["decided"] | None,
        typer.Option(help="Exit with 0 if the metric is decided, else with 1; say what to run."),
    ] = None,
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Compare results of any trainer, with variants paired by seed.

    Each row holds a run: variant, seed and its metrics.

    Or each row holds an answer: variant, seed, example, and either correct or prediction and label.

    Example: attnexp judge results.csv

    Example: attnexp judge results.csv --baseline none --lower loss --margin loss=0.01

    Example: attnexp judge results.csv --metric accuracy --until decided
    """
    from attnexp.analysis.other_results import judge_results, next_run, read_results
    from attnexp.base.progress import note
    from attnexp.report import formats

    comparison = judge_results(
        read_results(file, metric or []),
        baseline=baseline,
        higher=higher or [],
        lower=lower or [],
        margins=margin or [],
    )
    if until is not None and len(comparison.judged) > 1:
        raise UserError(
            f"--until decided is about one metric. Choose it before the first run: --metric "
            f"{next(iter(comparison.judged))}."
        )
    if html is not None:
        from attnexp.report.html import write

        write(html, [], [comparison])
        note(f"Page: {html}")
    elif as_json:
        emit(formats.as_json([comparison]))
    else:
        formats.print_comparisons([comparison], console())
    if until is not None:
        (name,) = comparison.judged
        for label, found in comparison.differences.items():
            for difference in found.values():
                note(f"{label}: {difference.anytime[name].line}")
        if (then := next_run(comparison)) is not None:
            note(f"Next: {then}.")
            raise typer.Exit(1)


@app.command()
def export(
    folders: Folders,
    to: Annotated[
        Literal["tensorboard", "mlflow", "wandb", "hub"],
        typer.Option(help="An installed tracker, or the Hugging Face hub."),
    ],
    into: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Output folder (default: outputs/TARGET)."),
    ] = None,
) -> None:
    """Write finished runs into a tracker's folder, or as folders to upload to the hub.

    A tracker gets settings, metrics by epoch and test metrics; a folder for the hub gets the
    model and its card. Nothing leaves the machine; the command that shows or uploads is printed.
    A run exported before is replaced.

    Example: attnexp export outputs/blog --to tensorboard

    Example: attnexp export outputs/runs/RUN --to hub
    """
    from attnexp.report import export
    from attnexp.runs.manifest import load_runs

    into = into or Path("outputs", to)
    found = load_runs(folders)
    command = export.export(found, to, into)
    emit(f"{len(found)} run{'s' if len(found) > 1 else ''} in {into}. Next: {command}")
