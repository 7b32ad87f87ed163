"""Predictions of a trained model for texts, with the attention of each token."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
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
"""RGB background of a token that does not count, and of the one that counts most."""


def readings(
    run_dir: Path,
    texts: Iterable[str],
    head: int | None = None,
    *,
    why: str = "attention",
    trust_code: bool = False,
) -> Iterator[Reading]:
    """Read each text with the model of a finished run.

    head: attention head, counted from 1; only checked here. why: as in `insight.reader`. Raises
    `UserError` if the model does not have it, or if the run cannot read text.
    """
    if head is not None and why != "attention":
        raise UserError(f"--head {head} is of attention, not of --why {why}. Leave out one.")
    run = Run(path=run_dir, result=store.load(run_dir))
    read = insight.reader(run, trust_code=trust_code)
    for text in texts:
        reading = read(text, why)
        if head is not None:
            reading.attention(head=head)  # or a `UserError`
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
    queries; `relevance` is how much it counts by gradient or erasure."""
    return {
        "label": reading.label,
        "probabilities": reading.probabilities,
        "positive": reading.probabilities.get("positive"),
        "tokens": reading.tokens,
        "known": reading.known,
        "attention": reading.attention(head=head).received if reading.layers else None,
        "relevance": reading.relevance,
        "words_cut": reading.num_cut,
    }


def print_reading(reading: Reading, head: int | None, console: Console) -> None:
    """Print the label, the probabilities, and the tokens: the more they count, the darker."""
    ranked = sorted(reading.probabilities.items(), key=lambda item: -item[1])
    but_last = ranked[:-1]  # the last one follows from the others
    said = ", ".join(
        f"{name} {probability:.4f}" for name, probability in but_last[:MAX_CLASSES_SHOWN]
    )
    line = Text(f"{said} ")
    line.stylize("bold", 0, len(reading.label))
    colours = backgrounds(reading.counts(head=head))
    for token, colour in zip_longest(reading.marked, colours):
        line.append(" ")
        line.append(token, "" if colour is None else f"black on {colour}")
    if reading.num_cut:
        line.append(f" (without {reading.num_cut} words that did not fit)", "dim")
    console.print(line)


def backgrounds(counts: Sequence[float]) -> list[str]:
    """Colours for black tokens, as `rgb(r,g,b)`: the more a token counts, for or against, the
    darker."""
    most = max(map(abs, counts), default=0.0) or 1.0
    mixed = [
        [round(a + abs(count) / most * (b - a)) for a, b in zip(LIGHT, FULL, strict=True)]
        for count in counts
    ]
    return [f"rgb({','.join(map(str, colour))})" for colour in mixed]


def _not_empty(texts: Iterable[str]) -> Iterator[str]:
    found = False
    for text in texts:
        if stripped := text.strip():
            found = True
            yield stripped
    if not found:
        raise UserError("There is no text to read. Give one that holds a word.")
