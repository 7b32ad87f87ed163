"""Commands on trained models: `evaluate`, `probe`, `predict`, `explore`."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from attnexp.cli import completion
from attnexp.cli.app import AsJson, Folders, Overrides, RunDir, TrustCode, app, console, emit, stop


@app.command()
def evaluate(
    run_dir: RunDir,
    overrides: Overrides = None,
    trust_code: TrustCode = False,
    as_json: AsJson = False,
) -> None:
    """Evaluate a finished run on its test set, or on other texts.

    Allowed settings: data.path, data.text, data.label, data.limit_test,
    train.device, train.threads.

    Example: attnexp evaluate outputs/runs/RUN data.path=my_texts/
    """
    from dataclasses import asdict

    from attnexp.training.evaluate import evaluate_run

    stored, measured = evaluate_run(run_dir, overrides or [], trust_code=trust_code)
    if as_json:
        emit({"schema": 1, "stored": asdict(stored), "measured": asdict(measured)})
    else:
        for name, figures in (("stored", stored), ("measured", measured)):
            emit(
                f"{name:9s} accuracy {100 * figures.accuracy:6.2f} %   loss {figures.loss:.6f}   "
                f"n {figures.n:,}"
            )
    if overrides:
        return
    if stored != measured:
        stop(
            f"stored and measured differ: accuracy {stored.accuracy} and {measured.accuracy}, loss "
            f"{stored.loss} and {measured.loss}. Another processor or torch rounds differently; "
            f"beyond that, code or data are not those of the run.",
            code=1,
        )
    if not as_json:
        emit("The same to the last bit.")


@app.command()
def probe(
    folders: Folders,
    do: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="Interventions, as shuffle=3 or my_pkg.mod:function (default: all).",
            show_default=False,
        ),
    ] = "",
    limit: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Texts of the test set (default: all).")
    ] = None,
    format: Annotated[
        Literal["table", "markdown", "csv", "json", "latex"], typer.Option(help="Output format.")
    ] = "table",
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a forest plot: FILE.svg, .pdf or .png."),
    ] = None,
    trust_code: TrustCode = False,
    as_json: AsJson = False,
) -> None:
    """Evaluate finished runs under interventions: what does a trained model use?

    Results are kept in the folders of the runs; `attnexp report --html` shows them.

    Example: attnexp probe outputs/blog

    Example: attnexp probe outputs/blog --do shuffle,no_positions,no_head --limit 2000
    """
    from dataclasses import asdict

    from attnexp.analysis.probed import summarise
    from attnexp.base.progress import note
    from attnexp.inspect import probe
    from attnexp.report import formats, pictures, probed
    from attnexp.runs.manifest import load_runs

    if figure is not None:
        pictures.kind_of(figure)  # before anything is computed
    runs, words = load_runs(folders), [word for word in do.split(",") if word]
    ids, reasons = probe.probe(runs, words, limit=limit, trust_code=trust_code)
    found = summarise(runs, ids)
    if figure is not None:
        pictures.write_probed(figure, found)
        note(f"Figure: {figure}")
    if as_json or format == "json":
        emit({"schema": probed.SCHEMA, "variants": [asdict(one) for one in found]})
    elif format != "table":
        emit(formats.TABLE_TEXTS[format](probed.tables(found)).rstrip("\n"))
    elif figure is None:
        formats.print_tables(probed.tables(found), console())
    if reasons:
        stop("\n".join(["Some was left out:", *reasons]), code=max(reasons.values()))


@app.command()
def predict(
    run_dir: RunDir,
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="TEXT",
            help="Text to classify (default: each line of stdin).",
            show_default=False,
        ),
    ] = None,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Classify each line of this file instead.")
    ] = None,
    head: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Show the attention of this head, counted from 1 (default: mean of heads).",
        ),
    ] = None,
    why: Annotated[
        Literal["attention", "gradient", "erasure"],
        typer.Option(
            help="What colours tokens: attention received, gradient × embedding, or what the "
            "answer loses without the token."
        ),
    ] = "attention",
    trust_code: TrustCode = False,
    as_json: AsJson = False,
) -> None:
    """Classify a text with a trained model and show its attention.

    The more attention a token receives, or the more it counts by gradient × embedding or by
    erasure, the darker its colour. Unknown words end in "?".

    Example: attnexp predict outputs/runs/RUN "the cast was superb but the plot was dreadful"

    Example: attnexp predict outputs/runs/RUN "the cast was dreadful but the plot was superb"
    """
    from attnexp.inspect import predict

    texts = predict.lines(text, file, sys.stdin.buffer)
    found = predict.readings(run_dir, texts, head, why=why, trust_code=trust_code)
    if as_json:
        read = [predict.to_json(reading, head) for reading in found]
        emit({"schema": predict.SCHEMA, "texts": read})
    else:
        for reading in found:
            predict.print_reading(reading, head, console())


@app.command()
def explore(
    run_dirs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN_DIR",
            help="Finished runs to show side by side.",
            autocompletion=completion.runs,
        ),
    ],
    port: Annotated[int, typer.Option(min=1024, max=65535, help="Port to listen on.")] = 8080,
    trust_code: TrustCode = False,
) -> None:
    """Serve a page where you type a text and see every head of one or more models.

    A click on a head opens its map. Tokens are coloured as by `attnexp predict --why`, which is
    chosen on the page, as is the layer. The page is reachable from this machine only and needs no
    network.

    Example: attnexp explore outputs/runs/RUN_WITHOUT outputs/runs/RUN_WITH
    """
    from attnexp.report.explore import serve

    serve(run_dirs, port, trust_code=trust_code)
