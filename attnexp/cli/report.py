"""Commands on stored runs and results: `report`, `runs`, `judge`, `export`."""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from attnexp.base.errors import UserError
from attnexp.cli import completion
from attnexp.cli.app import AsJson, Folders, Html, TrustCode, app, console, emit, stop

Higher = Annotated[
    list[str] | None,
    typer.Option(metavar="METRIC", help="Metric that is judged and better when higher."),
]
Lower = Annotated[
    list[str] | None,
    typer.Option(
        metavar="METRIC", help="Metric that is judged and better when lower (losses are known)."
    ),
]
Margins = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[METRIC=]NUMBER",
        help="Smallest difference that matters (default for accuracies: 0.25 points).",
    ),
]


@app.command()
def report(
    folders: Folders,
    format: Annotated[
        Literal["table", "markdown", "csv", "json", "latex"], typer.Option(help="Output format.")
    ] = "table",
    table: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Print one table: differences (a line for each), accuracy, epochs, "
            "probabilities, statistics, within, interactions, variance or published.",
        ),
    ] = None,
    html: Html = None,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one figure: FILE.svg, .pdf or .png.")
    ] = None,
    show: Annotated[
        Literal["curves", "forest", "attention", "positions"] | None,
        typer.Option(help="Content of --figure (default: curves, a metric by epoch)."),
    ] = None,
    metric: Annotated[
        Literal["accuracy", "loss", "train_loss"] | None,
        typer.Option(help="Metric of --show curves (default: accuracy, on validation as loss is)."),
    ] = None,
    across: Annotated[
        Literal["data"] | None,
        typer.Option(help="Combine studies on several data sets: mean and prediction interval."),
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
    layer: Annotated[
        int | None,
        typer.Option(metavar="N", help="Layer whose attention is drawn (default: the first)."),
    ] = None,
    head: Annotated[
        int | None,
        typer.Option(metavar="N", help="Head whose attention is drawn (default: mean of heads)."),
    ] = None,
    trust_code: TrustCode = False,
    higher: Higher = None,
    lower: Lower = None,
    margin: Margins = None,
    as_json: AsJson = False,
) -> None:
    """Print the tables and verdicts of finished runs.

    Example: attnexp report outputs/blog --format markdown

    Example: attnexp report outputs/blog --table differences --format latex

    Example: attnexp report outputs/blog --margin 0.5 --margin loss=0.01

    Example: attnexp report outputs/blog --html blog.html

    Example: attnexp report outputs/blog --figure loss.svg --show curves --metric loss

    Example: attnexp report outputs/blog --figure forest.svg --show forest

    Example: attnexp report outputs/blog --figure attention.png --show attention --head 3

    Example: attnexp report outputs/blog --html a.html --text "not bad, but not good either"

    Example: attnexp report outputs/imdb outputs/sst2 outputs/subj --across data
    """
    from dataclasses import asdict

    from attnexp.analysis.across import SCHEMA, across_data
    from attnexp.analysis.comparison import compare
    from attnexp.analysis.metrics import OF_RUNS, choose_metrics
    from attnexp.base.progress import note
    from attnexp.inspect import insight, predict
    from attnexp.report import formats, pictures, tables, verdicts
    from attnexp.runs.manifest import load_runs
    from attnexp.runs.store import load

    runs = run or []
    drawn = "--figure FILE with --show"
    needs = (
        ("--run", runs, html or show in ("attention", "positions"),
         f"--html FILE, or {drawn} attention or positions"),
        ("--text", text, html or show == "attention", f"--html FILE, or {drawn} attention"),
        ("--metric", metric, figure and show in (None, "curves"), f"{drawn} curves"),
        ("--layer", layer, show == "attention", f"{drawn} attention"),
        ("--head", head, show == "attention", f"{drawn} attention"),
        ("--show", show, figure, "--figure FILE"),
    )  # fmt: skip
    for option, value, has_it, needed in needs:
        if value not in (None, []) and not has_it:
            raise UserError(f"{option} needs {needed}.")
    if len(runs) > (1 if figure else 2):
        raise UserError(f"A page shows at most two runs, a figure one; got {len(runs)} with --run.")
    sentence = (
        insight.SENTENCE if text is None else next(predict.lines(text, None, sys.stdin.buffer))
    )
    if across and (html is not None or format == "csv" or show not in (None, "forest")):
        raise UserError(
            "--across data prints a table, or draws a forest plot with --figure FILE. It knows no "
            "--html, --format csv or other --show."
        )
    others = {"--html": html, "--figure": figure, "--across": across}
    if table is not None and (given := [name for name, value in others.items() if value]):
        raise UserError(f"--table {table} prints a table. Leave out {', '.join(given)}.")
    if figure is not None:
        pictures.kind_of(figure)  # before anything is read
    metrics = choose_metrics(OF_RUNS, higher=higher or [], lower=lower or [], margins=margin or [])
    left_out: list[str] = []
    found = load_runs(folders, left_out.append)
    compared = compare(found, metrics)
    left_out += [reason for comparison in compared for reason in comparison.damaged]
    as_text = "json" if as_json else format
    combined = across_data(compared) if across is not None else []
    if combined and figure is not None:
        pictures.write_across(figure, combined)
        note(f"Figure: {figure}")
    elif html is not None or figure is not None:
        from attnexp.report.html import write
        from attnexp.runs.result import Run

        chosen = [Run(path=path, result=load(path)) for path in runs]
        shown: dict[str, Any] = {"chosen": chosen, "sentence": sentence, "trust_code": trust_code}
        if html is not None:
            write(html, found, compared, **shown)
            note(f"Page: {html}")
        if figure is not None:
            pictures.write(
                figure,
                show or "curves",
                found,
                compared[0],
                layer=1 if layer is None else layer,
                head=head,
                metric=metric or "accuracy",
                **shown,
            )
            note(f"Figure: {figure}")
    chosen_tables = [*map(tables.across_table, combined)]
    if table is not None:
        chosen_tables = tables.tables_named(table, compared)
    if as_text == "table" and (html is not None or figure is not None):
        pass  # the file shows it
    elif as_text == "table" and chosen_tables:
        formats.print_tables(chosen_tables, console())
    elif as_text == "table":
        formats.print_comparisons(compared, console())
    elif as_text == "json" and combined:
        emit({"schema": SCHEMA, "across": [asdict(one) for one in combined]})
    else:
        text = formats.TABLE_TEXTS[as_text](chosen_tables) if chosen_tables else ""
        emit((text or formats.TEXTS[as_text](compared)).rstrip("\n"))
    lines = ["Some results could not be read and were left out:", *left_out] if left_out else []
    lines += [line for comparison in compared for line in verdicts.missing_seeds(comparison)]
    if lines:
        stop("\n".join(lines), code=1)


@app.command()
def runs(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="Folder that contains runs, or a study.",
            autocompletion=completion.studies,
        ),
    ] = Path("outputs"),
    as_json: AsJson = False,
) -> None:
    """List runs, finished, running, stopped or broken: settings, data, seed, accuracies and age.

    Settings are those that differ from the defaults; accuracies are in %. best is each run's own
    best epoch; compare variants with attnexp report.

    Example: attnexp runs

    Example: attnexp runs outputs/blog
    """
    from attnexp.analysis.listing import list_runs
    from attnexp.report.listing import print_list

    found = list_runs(folder)
    emit(found) if as_json else print_list(found, console())
    if broken := sum(run["state"] == "broken" for run in found["runs"]):
        stop(f"{broken} broken: `attnexp doctor {folder}` says how to make them again.", code=1)


@app.command()
def judge(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE", help="csv, tsv, json, jsonl or parquet; or a folder of samples."
        ),
    ],
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="VARIANT", help="Variant that others are compared with (default: the first)."
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--columns", "--metric", metavar="NAME,...", help="Metrics to compare (default: all)."
        ),
    ] = None,
    variant_column: Annotated[
        str, typer.Option(metavar="NAME", help="Column with the variants.")
    ] = "variant",
    seed_column: Annotated[
        str, typer.Option(metavar="NAME", help="Column with the seeds.")
    ] = "seed",
    higher: Higher = None,
    lower: Lower = None,
    margin: Margins = None,
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

    A column dataset gives a comparison for each data set, and the mean difference over them.

    Logs are read as they are: samples of lm-evaluation-harness (files or their folder), samples_df
    of Inspect as csv, runs of MLflow or Weights & Biases as csv.

    Example: attnexp judge results.csv

    Example: attnexp judge results.csv --baseline none --margin loss=0.01

    Example: attnexp judge runs.csv --variant-column model --seed-column run --columns acc,loss

    Example: attnexp judge results.csv --metric accuracy --until decided

    Example: attnexp judge harness_output --columns acc_norm
    """
    from attnexp.analysis.other_results import judge_results, next_run, read_results
    from attnexp.base.progress import note
    from attnexp.report import formats

    compared = judge_results(
        read_results(
            files,
            [name for words in columns or [] for name in words.split(",")],
            variant_column=variant_column,
            seed_column=seed_column,
        ),
        baseline=baseline,
        higher=higher or [],
        lower=lower or [],
        margins=margin or [],
        sequential=until is not None,
    )
    metric, *others = compared[0].judged
    if until is not None and others:
        raise UserError(
            f"--until decided is about one metric. Choose it before the first run: --metric "
            f"{metric}."
        )
    if html is not None:
        from attnexp.report.html import write

        write(html, [], compared)
        note(f"Page: {html}")
    if as_json:
        emit(formats.as_json(compared))
    elif html is None:
        formats.print_over_data(compared, console())
    if until is not None:
        waiting = {comparison.data: next_run(comparison) for comparison in compared}
        for data, then in waiting.items():
            if then is not None:
                note(f"Next: {then}{f' on {data}' if len(compared) > 1 else ''}.")
        if any(waiting.values()):
            raise typer.Exit(1)


@app.command()
def export(
    folders: Folders,
    to: Annotated[
        Literal["tensorboard", "mlflow", "wandb", "hub"],
        typer.Option(help="An installed tracker, or the Hugging Face hub."),
    ],
    into: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Output folder (default: outputs/TARGET).")
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
