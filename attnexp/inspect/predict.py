"""Predictions of a trained model for texts, with the attention of each token."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from rich.console import Console
from rich.text import Text

from attnexp.base.errors import UserError
from attnexp.inspect import insight
from attnexp.inspect.insight import Reading
from attnexp.runs import store
from attnexp.runs.result import Run

SCHEMA = 1

MAX_CLASSES_SHOWN = 5
"""Maximum number of class probabilities printed in a line; `--json` has all of them."""

LIGHT, FULL = (255, 255, 255), (240, 130, 20)
"""RGB background of a token that receives no attention, and of the one that receives most."""


def readings(
    run_dir: Path, texts: Iterable[str], head: int | None = None, *, trust_code: bool = False
) -> Iterator[Reading]:
    """Read each text with the model of a finished run.

    head: attention head, counted from 1; only checked here. Raises `UserError` if the model does
    not have it, or if the run cannot read text.
    """
    run = Run(path=run_dir, result=store.load(run_dir))
    read = insight.reader(run, trust_code=trust_code)
    for text in texts:
        reading = read(text)
        seen = reading.attention
        if head is not None and seen is None:
            raise UserError(f"{run_dir} has no attention, and so no head {head}. Leave out --head.")
        if head is not None and seen is not None and not 1 <= head <= len(seen.weights):
            raise UserError(f"There is no head {head}: {run_dir} has 1 to {len(seen.weights)}.")
        yield reading


def lines(text: str | None, file: Path | None, stdin: BinaryIO) -> Iterator[str]:
    """The text, or else each non-empty line of the file, or else of stdin. Raises `UserError`."""
    if text is not None and file is not None:
        raise UserError(f"Give a text or --file {file}, not both.")
    if text is not None:
        yield from _not_empty([text])
        return
    if file is None:
        yield from _not_empty(line.decode(errors="replace") for line in stdin)
        return
    try:
        with file.open("rb") as opened:
            yield from _not_empty(line.decode(errors="replace") for line in opened)
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}.") from error


def to_json(reading: Reading, head: int | None) -> dict[str, Any]:
    """The reading as plain containers. `attention` is what each token receives, averaged over
    queries."""
    seen = reading.attention
    received = None if seen is None else seen.received(head).tolist()
    return {
        "label": reading.label,
        "probabilities": reading.probabilities,
        "positive": reading.probabilities.get("positive"),
        "tokens": reading.tokens,
        "known": reading.known,
        "attention": received,
        "words_cut": reading.num_cut,
    }


def print_reading(reading: Reading, head: int | None, console: Console) -> None:
    """Print the label, the probabilities, and the tokens: the more attention, the darker."""
    ranked = sorted(reading.probabilities.items(), key=lambda item: -item[1])
    but_last = ranked[:-1]  # the last one follows from the others
    said = ", ".join(
        f"{name} {probability:.4f}" for name, probability in but_last[:MAX_CLASSES_SHOWN]
    )
    line = Text(f"{said} ")
    line.stylize("bold", 0, len(reading.label))
    seen = reading.attention
    shares = [0.0] * len(reading.tokens)
    if seen is not None:
        received = seen.received(head)
        shares = (received / (received.max() or 1.0)).tolist()
    for token, share in zip(reading.marked, shares, strict=True):
        line.append(" ")
        line.append(token, f"black on rgb({_colour(share)})" if seen is not None else "")
    if reading.num_cut:
        line.append(f" (without {reading.num_cut} words that did not fit)", "dim")
    console.print(line)


def _colour(share: float) -> str:
    return ",".join(str(round(a + share * (b - a))) for a, b in zip(LIGHT, FULL, strict=True))


def _not_empty(texts: Iterable[str]) -> Iterator[str]:
    found = False
    for text in texts:
        if stripped := text.strip():
            found = True
            yield stripped
    if not found:
        raise UserError("There is no text to read. Give one that holds a word.")
