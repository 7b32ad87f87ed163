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
    seam = _most_like(cls) if isinstance(cls, type) else None
    if not isinstance(cls, type) or seam is None:
        return ""
    word = f"{ARGUMENTS[seam][0]}={kind}"
    article = "an" if seam is seams.Embedding else "a"
    if issubclass(cls, seam):
        return f" It is {article} {seam.__name__}, chosen by {word}."
    return f" It looks like {article} {seam.__name__}: make it a subclass, and choose it by {word}."


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
    likeness = {}
    for seam, (_, arguments) in ARGUMENTS.items():
        common = names & set(arguments.split())
        likeness[seam] = len(common) / len(names | set(arguments.split()))
    best = max(likeness, key=lambda seam: likeness[seam])
    return best if likeness[best] > 0 else None
