"""What a model reads in a text, to be shown: as a line, as a record, and as depths of colour."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from attnexp.inspect.insight import Attention, Reading
from attnexp.report.cells import describe_padding

FULL = (240, 130, 20)  # RGB background of the largest weight
MOST_CLASSES = 5


def shade(weights: NDArray[Any]) -> NDArray[np.float64]:
    """Depth of colour of the weights that are shown together: 0 for none, 1 for the largest."""
    depths = np.asarray(weights, np.float64)
    largest = float(weights.max(initial=0.0))
    return depths / largest if largest else depths


def colour(depth: float) -> str:
    """Background of black text, `rgb(r,g,b)`: white for a depth of 0, orange for 1."""
    channels = [round(255 + depth * (full - 255)) for full in FULL]
    listed = ",".join(map(str, channels))
    return f"rgb({listed})"


def describe_colours(weights: NDArray[Any], attention: Attention) -> str:
    """`darkest: 0.0312, padding: 68 %`: the largest weight shown, and the share not shown."""
    text = f"darkest: {weights.max():.3g}"
    padding = describe_padding(attention.padding_share)
    return f"{text}, {padding}" if padding else text


def as_record(reading: Reading, head: int | None) -> dict[str, Any]:
    """The reading as plain containers; attention is what each token receives from all queries, and
    padding the share of attention that tokens do not receive."""
    attention = _attention_of(reading, head)
    return {
        "label": reading.label,
        "probabilities": None if reading.label is None else reading.probabilities,
        "tokens": reading.tokens,
        "known": reading.known,
        "attention": attention.received.tolist() if attention else None,
        "padding": attention.padding_share if attention else None,
        "words_cut": reading.num_cut,
    }


def _attention_of(reading: Reading, head: int | None) -> Attention | None:
    """Attention of the first layer, if there is any. A head that is not there is refused."""
    if not reading.layers and head is None:
        return None
    return reading.attention(head=head)


def as_line(reading: Reading, head: int | None) -> Text:
    """The most probable classes, and the tokens: the darker, the more attention they receive."""
    if reading.label is None:
        line = Text("none of these words is known ", style="bold")
    else:
        ranked = sorted(reading.probabilities.items(), key=lambda item: -item[1])
        but_the_last = ranked[:-1]  # which follows from the rest
        classes = [f"{name} {p:.4f}" for name, p in but_the_last[:MOST_CLASSES]]
        line = Text(", ".join(classes) + " ")
        line.stylize("bold", 0, len(reading.label))
    styles = [""] * len(reading.marked)
    remarks = []
    attention = _attention_of(reading, head)
    if attention:
        received = attention.received
        styles = [f"black on {colour(depth)}" for depth in shade(received)]
        remarks.append(describe_colours(received, attention))
    if reading.num_cut:
        remarks.append(f"without {reading.num_cut} words beyond what training saw (data.max_len)")
    for token, style in zip(reading.marked, styles, strict=True):
        line.append(" ").append(token, style)
    for remark in remarks:
        line.append(f" ({remark})", "dim")
    return line
