"""Predictions of a trained model for texts: where these come from, and how they are shown."""

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, BinaryIO

from rich.text import Text

from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.inspect.insight import Reading

FULL = (240, 130, 20)  # RGB background of a token with the full colour


def lines(text: str | None, stdin: BinaryIO) -> Iterator[str]:
    """The text, or else each line of stdin, without empty ones. Raises `UserError` for none."""
    if text is None and stdin.isatty():
        progress.note("Type a text and press Enter. Ctrl-D ends.")
    given = stdin if text is None else [text.encode()]
    line = ""
    for line in filter(None, (one.decode(errors="replace").strip() for one in given)):
        yield line
    if not line:
        raise UserError("There is no text to read. Give one that holds a word.")


def to_json(reading: Reading, head: int | None) -> dict[str, Any]:
    """The reading as plain containers; label and probabilities are None where no word is known.
    attention: what each token receives, on average over queries; None for a model without."""
    is_there = reading.layers or head
    received = reading.attention(head=head).mean.mean(axis=0).tolist() if is_there else None
    return {
        "label": reading.label,
        "probabilities": reading.label and reading.probabilities,
        "tokens": reading.tokens,
        "known": reading.known,
        "attention": received,
        "words_cut": reading.num_cut,
    }


def to_text(reading: Reading, head: int | None) -> Text:
    """A line with the most probable classes, and the tokens: the more they count, the darker."""
    ranked = sorted(reading.probabilities.items(), key=lambda item: -item[1])
    said = ", ".join(f"{name} {p:.4f}" for name, p in ranked[:-1][:5])  # the last one follows
    line = Text(f"{said if reading.label else 'none of these words is known'} ")
    line.stylize("bold", 0, len(reading.label or line))
    for token, depth in zip_longest(reading.marked, reading.shades(head=head)):
        line.append(" ").append(token, "" if depth is None else f"black on {colour(depth)}")
    if reading.num_cut:
        num_words = f"{reading.num_cut} words beyond what training saw (data.max_len)"
        line.append(f" (without {num_words})", "dim")
    return line


def colour(depth: float) -> str:
    """Background of black text, `rgb(r,g,b)`: white for a depth of 0, orange for 1."""
    return f"rgb({','.join(str(round(255 + depth * (full - 255))) for full in FULL)})"
