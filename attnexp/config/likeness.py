"""What a class that does not fit in its place looks like, and where it would be chosen."""

import inspect
from contextlib import suppress

from attnexp.model import seams

ARGUMENTS: dict[type, tuple[str, str]] = {
    seams.Score: ("model.score", "num_heads d_query d_key d_head q k"),
    seams.Pooling: ("model.pooling", "d_input x key_padding_mask"),
    seams.Mixer: ("model.before", "d_input d_model x key_padding_mask"),
    seams.JoinedPosition: ("position", "max_len d_model x positions"),
    seams.Rotation: ("position", "d_head x positions"),
    seams.ScoreBias: ("position", "num_heads positions"),
    seams.Mask: ("mask", "query key"),
    seams.Layers: ("model", "d_input d_model context x key_padding_mask allowed positions"),
    seams.Embedding: ("model", "vocab_size d_model ids"),
    seams.Baseline: ("model", "vocab_size num_classes ids labels"),
}
"""Seams with the place where each is chosen, and the names of what they are given, as in
`attnexp.model.seams`."""


def describe_likeness(cls: object, kind: str) -> str:
    """` It looks like a Mixer: ...`; nothing for what is like no seam. kind: `module:Class`."""
    if not isinstance(cls, type):
        return ""
    seam = _most_like(cls)
    if seam is None:
        return ""
    place, _ = ARGUMENTS[seam]
    word = f"{place}={kind}"
    name = f"a {seam.__name__}"
    if seam is seams.Embedding:
        name = f"an {seam.__name__}"
    if issubclass(cls, seam):
        return f" It is {name}, chosen by {word}."
    return f" It looks like {name}: make it a subclass, and choose it by {word}."


def _most_like(cls: type) -> type | None:
    """The seam that a class fills, or whose arguments are most like those of its constructor and
    its forward; None where no argument has the name of one."""
    for seam in ARGUMENTS:
        if issubclass(cls, seam):
            return seam
    names: set[str] = set()
    for method in ("__init__", "forward", "__call__"):
        with suppress(TypeError, ValueError, AttributeError):  # not there, or compiled
            names |= inspect.signature(getattr(cls, method)).parameters.keys()
    likeness: dict[type, float] = {}
    for seam, (_, words) in ARGUMENTS.items():
        arguments = set(words.split())
        common = names & arguments
        likeness[seam] = len(common) / len(names | arguments)
    best = max(likeness, key=lambda seam: likeness[seam])
    if likeness[best] == 0:
        return None
    return best
