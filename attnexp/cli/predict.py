"""`attnexp predict`."""

import sys
from collections.abc import Iterator
from typing import Annotated, BinaryIO

import typer

from attnexp.base.errors import UserError
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

    Example: attnexp predict outputs/runs/RUN "the cast was superb but the plot was dreadful"
    """
    from attnexp.inspect.insight import make_reader
    from attnexp.report.reading import as_line, as_record
    from attnexp.runs.manifest import load_run

    read = make_reader(load_run(run_dir), trust_code=trust_code, any_code=any_code)
    readings = (read(line) for line in read_lines(text, sys.stdin.buffer))
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
    lines = stdin if text is None else [text.encode(errors="surrogateescape")]
    is_empty = True
    for line in lines:
        # the mark at the start of a file of Windows is no word
        decoded = line.decode("utf-8-sig", errors="replace").strip()
        if decoded:
            is_empty = False
            yield decoded
    if is_empty:
        raise UserError("There is no text to read. Give one that holds a word.")
