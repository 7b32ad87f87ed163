"""Commands about finished runs and their models."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from attnexp.base.errors import UserError
from attnexp.cli import completion
from attnexp.cli.app import AsJson, Folders, Overrides, RunDir, TrustCode, app, console, emit, stop

Studies = typer.Argument(metavar="DIR", autocompletion=completion.studies)
RunDirs = typer.Argument(metavar="RUN_DIR", autocompletion=completion.runs)
Forget = typer.Option(metavar="ID", help="Take a run out of the study DIR; files stay.")


@app.command()
def runs(
    folder: Annotated[Path, Studies] = Path("outputs"),
    forget: Annotated[str | None, Forget] = None,
    as_json: AsJson = False,
) -> None:
    """List runs, finished, running, stopped or broken: data, seed, settings, accuracy.

    Accuracy is that of the last epoch, or of the one that held-out data chose.
    """
    from attnexp.report.formats import to_records
    from attnexp.report.listing import list_runs, tabulate_runs
    from attnexp.report.print_table import print_table
    from attnexp.runs import manifest

    if forget:
        manifest.forget_run(folder, forget)
    listed = list_runs(folder)
    if as_json:
        emit({"schema": 3, "runs": to_records(listed)})
    else:
        print_table(tabulate_runs(listed), console())
    broken = listed[listed["state"] == "broken"].fillna("")
    if len(broken):
        lines = broken["folder"] + ": " + broken["reason"] + " " + broken["again"]
        stop("\n".join(["Some runs cannot be read.", *lines]), code=1)


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
        for name, metrics in {"stored": stored, "measured": measured}.items():
            numbers = f"accuracy {metrics.accuracy:7.2%}   loss {metrics.loss:.6f}"
            emit(f"{name:8}  {numbers}   n {metrics.n:,}")
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
    from attnexp.inspect.effects import estimate_effects, note_on_heads
    from attnexp.inspect.probe import probe_studies
    from attnexp.report.difference_tables import tabulate_effects
    from attnexp.report.formats import SCHEMA, to_records
    from attnexp.report.print_table import print_table

    words = do.split(",") if do else []
    rows, notes = probe_studies(folders, words, limit=limit, trust_code=trust_code)
    effects = estimate_effects(rows)
    notes += note_on_heads(effects)
    if as_json:
        emit({"schema": SCHEMA, "effects": to_records(effects), "notes": notes})
        return
    for _, effects_of_variant in effects.groupby(["variant", "data", "num_texts"], sort=False):
        print_table(tabulate_effects(effects_of_variant), console())
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
    from attnexp.inspect.insight import make_reader
    from attnexp.report.reading import as_line, as_record
    from attnexp.runs.result import Run
    from attnexp.runs.store import load_result

    run = Run(path=run_dir, result=load_result(run_dir))
    read = make_reader(run, trust_code=trust_code)
    readings = map(read, read_lines(text, sys.stdin.buffer))
    if as_json:
        emit({"schema": 1, "texts": [as_record(reading, head) for reading in readings]})
        return
    for reading in readings:
        console().print(as_line(reading, head), soft_wrap=not console().is_terminal)


def read_lines(text: str | None, stdin: BinaryIO) -> Iterator[str]:
    """The text, or else each line of stdin, without empty ones. Raises `UserError` for none."""
    if text is None and stdin.isatty():
        from attnexp.base import progress

        progress.note("Type a text and press Enter. Ctrl-D ends.")
    is_empty = True
    for line in stdin if text is None else [text.encode(errors="surrogateescape")]:
        # the mark at the start of a file of Windows is no word
        decoded = line.decode("utf-8-sig", errors="replace").strip()
        if decoded:
            is_empty = False
            yield decoded
    if is_empty:
        raise UserError("There is no text to read. Give one that holds a word.")


@app.command()
def explore(
    run_dirs: Annotated[list[Path], RunDirs],
    port: Annotated[int, typer.Option(min=1024, max=65535, help="Port to listen on.")] = 8080,
    trust_code: TrustCode = False,
) -> None:
    """Serve a page, on this machine only, to type a text and see every head of one or more models.

    Example: attnexp explore outputs/runs/RUN_WITHOUT outputs/runs/RUN_WITH
    """
    from attnexp.report.explore import serve

    serve(run_dirs, port, trust_code=trust_code)
