"""Commands on trained models: `evaluate`, `probe`, `predict`, `explore`."""

import sys
from pathlib import Path
from typing import Annotated

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

    Settings: data.path, data.text, data.label, data.limit_test, train.device, train.threads.

    Example: attnexp evaluate outputs/runs/RUN data.path=my_texts/
    """
    from dataclasses import asdict

    from attnexp.training.evaluate import evaluate_run

    stored, measured = evaluate_run(run_dir, overrides or [], trust_code=trust_code)
    if as_json:
        emit({"schema": 1, "stored": asdict(stored), "measured": asdict(measured)})
    else:
        for name, one in (("stored", stored), ("measured", measured)):
            emit(f"{name:9s} accuracy {one.accuracy:7.2%}   loss {one.loss:.6f}   n {one.n:,}")
    if not overrides and stored != measured:
        stop("stored and measured differ: another processor or torch, else code or data.", code=1)


@app.command()
def probe(
    folders: Folders,
    do: Annotated[str, typer.Option(metavar="NAME,...", help="As shuffle=3 (default: all).")] = "",
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="Texts; else all.")] = None,
    trust_code: TrustCode = False,
    as_json: AsJson = False,
) -> None:
    """Evaluate finished runs under interventions: what does a trained model use?

    Results are kept in the folders of the runs; DIR may be a published study, too.

    Example: attnexp probe outputs/blog --do shuffle,no_positions,no_head --limit 2000
    """
    from attnexp.inspect.probe import probe
    from attnexp.inspect.probed import effects
    from attnexp.report import formats, tables, terminal

    rows, notes = probe(folders, do.split(",") if do else (), limit, trust_code)
    found = effects(rows)
    if as_json:
        emit({"schema": formats.SCHEMA, "effects": formats.records(found), "notes": notes})
        return
    for _, own in found.groupby(["variant", "data", "num_texts"], sort=False):
        terminal.print_table(tables.effects(own), console())
    emit("\n".join(notes))


@app.command()
def predict(
    run_dir: RunDir,
    text: Annotated[str | None, typer.Argument(help="Default: each line of stdin.")] = None,
    head: Annotated[int | None, typer.Option(metavar="N", help="Default: mean of heads.")] = None,
    trust_code: TrustCode = False,
    as_json: AsJson = False,
) -> None:
    """Classify a text with a trained model and show its attention.

    The more attention a token receives, the darker its colour. Unknown words end in "?".

    Example: attnexp predict outputs/runs/RUN "the cast was superb but the plot was dreadful"
    """
    from attnexp.inspect import insight
    from attnexp.runs.result import Run
    from attnexp.runs.store import load_result

    read = insight.reader(Run(path=run_dir, result=load_result(run_dir)), trust_code=trust_code)
    found = (read(line) for line in insight.lines(text, sys.stdin.buffer))
    if as_json:
        emit({"schema": 1, "texts": [insight.to_json(one, head) for one in found]})
    else:
        for one in found:
            console().print(insight.to_text(one, head), soft_wrap=not console().is_terminal)


@app.command()
def explore(
    run_dirs: Annotated[
        list[Path], typer.Argument(metavar="RUN_DIR", autocompletion=completion.runs)
    ],
    port: Annotated[int, typer.Option(min=1024, max=65535, help="Port to listen on.")] = 8080,
    trust_code: TrustCode = False,
) -> None:
    """Serve a page, on this machine only, to type a text and see every head of one or more models.

    Example: attnexp explore outputs/runs/RUN_WITHOUT outputs/runs/RUN_WITH
    """
    from attnexp.report.explore import serve

    serve(run_dirs, port, trust_code=trust_code)
