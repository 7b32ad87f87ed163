"""What a model reads in a text, to be shown: as a line, and as a record."""

from rich.text import Text

from attnexp.inspect.insight import Attention, Reading
from attnexp.report import Record
from attnexp.report.cells import describe_padding

FULL = (240, 130, 20)  # RGB background of the largest weight
MOST_CLASSES = 5


def as_record(reading: Reading, head: int | None) -> Record:
    """The reading as plain containers. attention, padding: of the first layer, or of this head."""
    record: Record = {
        "label": reading.label,
        "probabilities": reading.probabilities,
        "tokens": reading.tokens,
        "known": reading.known,
        "attention": None,
        "maps": [layer.weights.tolist() for layer in reading.layers],  # (H, T, T) each
        "padding": None,
        "words_cut": reading.num_cut,
    }
    attention = _attention_of(reading, head)
    if attention:
        record["attention"] = attention.received.tolist()
        record["padding"] = attention.padding_share
    return record


def _attention_of(reading: Reading, head: int | None) -> Attention | None:
    """Attention of the first layer, if there is any. A head that is not there is refused."""
    if not reading.layers and head is None:
        return None
    return reading.attention(head=head)


def as_line(reading: Reading, head: int | None) -> Text:
    """The most probable classes, and the tokens: the darker, the more attention they receive."""
    ranked = sorted(reading.probabilities.items(), key=lambda item: -item[1])
    ranked.pop()  # The last follows from the rest.
    classes = [f"{name} {p:.4f}" for name, p in ranked[:MOST_CLASSES]]
    line = Text(", ".join(classes) + " ")
    line.stylize("bold", 0, len(reading.label))
    styles = [""] * len(reading.marked)
    remarks = []
    attention = _attention_of(reading, head)
    if attention:
        received = attention.received
        largest = float(received.max(initial=0.0))
        styles = [_style(weight / (largest or 1.0)) for weight in received]
        remarks = [f"darkest: {largest:.3g}", describe_padding(attention.padding_share)]
    if reading.num_cut:
        remarks.append(f"without {reading.num_cut} words beyond what training saw (data.max_len)")
    for token, style in zip(reading.marked, styles, strict=True):
        line.append(" ").append(token, style)
    remark = ", ".join(filter(None, remarks))
    if remark:
        line.append(f" ({remark})", "dim")
    return line


def _style(depth: float) -> str:
    """Black text on white for a depth of 0, on orange for 1."""
    channels = [f"{255 + depth * (full - 255):.0f}" for full in FULL]
    return f"black on rgb({','.join(channels)})"
