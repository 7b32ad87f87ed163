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
    from attnexp.inspect.insight import load_model
    from attnexp.report.reading import as_line, as_record

    trained = load_model(run_dir, trust_code=trust_code, any_code=any_code)
    records = []
    for number, line in read_texts(text, sys.stdin.buffer):
        reading = trained.read(line)
        if as_json:
            records.append({"line": number, **as_record(reading, head)})
        else:
            console().print(as_line(reading, head), soft_wrap=not console().is_terminal)
    if as_json:
        emit({"texts": records})


def read_texts(text: str | None, stdin: BinaryIO) -> Iterator[tuple[int, str]]:
    """The text, or else each line of stdin that holds one, with its number from 1. Raises
    `UserError` where none does."""
    from attnexp.base import progress

    if text is None and stdin.isatty():
        progress.note("Type a text and press Enter. Ctrl-D ends.")
    lines = stdin if text is None else [text.encode(errors="surrogateescape")]
    has_text = False
    for number, line in enumerate(lines, 1):
        # Files of Windows may start with a byte-order mark, which is no word.
        decoded = line.decode("utf-8-sig", errors="replace").strip()
        if decoded:
            has_text = True
            yield number, decoded
    if not has_text:
        raise UserError("There is no text to read. Give one that holds a word.")
