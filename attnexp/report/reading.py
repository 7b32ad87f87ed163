"""What a model reads in a text, to be shown: as a line, as a record, and as depths of colour."""

from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from attnexp.inspect.insight import Reading

FULL = (240, 130, 20)
"""RGB background of a token with the full colour."""

SATURATED = 4.0
"""Attention, in multiples of uniform attention, that has the full colour."""

MOST_CLASSES = 5


def shade(weights: NDArray[Any], num_keys: int | None = None) -> NDArray[np.float64]:
    """Depth of colour, 0 to 1, of attention weights (..., keys), on one scale for all texts.

    Uniform attention, 1 / num_keys, has 0.25, and four times as much or more has 1. num_keys: as in
    `Attention`; the number of weights if None.
    """
    multiples = weights * (num_keys or weights.shape[-1])
    return np.asarray((multiples / SATURATED).clip(0, 1))


def shade_tokens(reading: Reading, head: int | None = None) -> NDArray[np.float64]:
    """Depth of colour of each token, (T,), by the attention that it receives in the first layer;
    empty for a model without attention."""
    if not reading.layers and head is None:
        return np.zeros(0)
    attention = reading.attention(head=head)
    return shade(attention.received, attention.num_keys)


def colour(depth: float) -> str:
    """Background of black text, `rgb(r,g,b)`: white for a depth of 0, orange for 1."""
    channels = [str(round(255 + depth * (full - 255))) for full in FULL]
    return f"rgb({','.join(channels)})"


def as_record(reading: Reading, head: int | None) -> dict[str, Any]:
    """The reading as plain containers; attention is what each token receives from all queries."""
    has_attention = reading.layers or head  # a head that is not there is refused
    received = reading.attention(head=head).received.tolist() if has_attention else None
    return {
        "label": reading.label,
        "probabilities": reading.label and reading.probabilities,
        "tokens": reading.tokens,
        "known": reading.known,
        "attention": received,
        "words_cut": reading.num_cut,
    }


def as_line(reading: Reading, head: int | None) -> Text:
    """A line with the most probable classes, and the tokens: the more they count, the darker."""
    line = _answer(reading)
    for token, depth in zip_longest(reading.marked, shade_tokens(reading, head)):
        style = "" if depth is None else f"black on {colour(depth)}"
        line.append(" ").append(token, style)
    if reading.num_cut:
        num_words = f"{reading.num_cut} words beyond what training saw (data.max_len)"
        line.append(f" (without {num_words})", "dim")
    return line


def _answer(reading: Reading) -> Text:
    """`positive 0.9312 `, the most probable class in bold; of many classes five."""
    if reading.label is None:
        return Text("none of these words is known ", style="bold")
    ranked = sorted(reading.probabilities.items(), key=lambda item: -item[1])
    but_the_last = ranked[:-1]  # which follows from the others
    shown = ", ".join(f"{name} {p:.4f}" for name, p in but_the_last[:MOST_CLASSES])
    answer = Text(f"{shown} ")
    answer.stylize("bold", 0, len(reading.label))
    return answer
