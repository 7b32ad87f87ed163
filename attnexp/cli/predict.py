"""`attnexp predict`."""

import sys
from typing import Annotated

import typer

from attnexp.cli.app import AnyCode, AsJson, RunDir, TrustCode, app, console, emit


@app.command()
def predict(
    run_dir: RunDir,
    text: Annotated[str | None, typer.Argument(help="Default: each line of stdin.")] = None,
    head: Annotated[int | None, typer.Option(metavar="N", help="Default: mean of heads.")] = None,
    trust_code: TrustCode = False,
    any_code: AnyCode = False,
    as_json: AsJson = False,
) -> None:
    """Classify a text with a trained model and show its attention.

    The more attention a token receives, the darker its colour. Unknown words end in "?".

    Example: attnexp predict outputs/runs/RUN 'the cast was superb but the plot was dreadful'"""
    from attnexp.inspect.insight import load_model
    from attnexp.report.reading import as_line, as_record

    trained = load_model(run_dir, trust_code=trust_code, any_code=any_code)
    records = []
    lines = sys.stdin if text is None else [text]
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        reading = trained.read(line)
        if as_json:
            records.append({"line": number, **as_record(reading, head)})
        else:
            console().print(as_line(reading, head), soft_wrap=not sys.stdout.isatty())
    if as_json:
        emit({"texts": records})
