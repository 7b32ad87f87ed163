"""Where a piece may stand: the seams that each place takes, and what a class that does not fit is
like."""

import inspect
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from attnexp.config.pieces import Piece
from attnexp.config.schema import MaskConfig, ModelConfig, PositionConfig
from attnexp.model import seams

Allowed = Mapping[type | None, Any]
"""Seams that a piece may fill in a place, with the settings that come with it. None is no piece."""

PLACES: dict[str, Allowed] = {
    "model": {
        seams.Layers: ModelConfig,
        seams.Mixer: ModelConfig,
        seams.Embedding: ModelConfig,
        seams.Network: Piece,
        seams.Baseline: Piece,
    },
    "model.before": {seams.Mixer: Piece, None: Piece},
    "model.pooling": {seams.Pooling: Piece},
    "model.score": {seams.Score: Piece},
    "position": {
        seams.JoinedPosition: PositionConfig,
        seams.Rotation: PositionConfig,
        seams.ScoreBias: PositionConfig,
        None: Piece,
    },
    "mask": {seams.Mask: MaskConfig, None: MaskConfig},
}

ARGUMENTS: dict[type, str] = {
    seams.Score: "num_heads d_query d_key d_head q k",
    seams.Pooling: "d_input x key_padding_mask",
    seams.Mixer: "d_input d_model x key_padding_mask",
    seams.JoinedPosition: "max_len d_model x positions",
    seams.Rotation: "d_head x positions",
    seams.ScoreBias: "num_heads positions",
    seams.Mask: "query key",
    seams.Layers: "d_input d_model context x key_padding_mask allowed positions",
    seams.Embedding: "vocab_size d_model ids",
    seams.Network: "vocab_size num_tokens num_classes ids",
    seams.Baseline: "vocab_size num_classes ids labels",
}
"""Names of what a piece of each seam is given, as in `attnexp.model.seams`."""


def describe_likeness(cls: Any, kind: str) -> str:
    """` It looks like a Mixer: ...`: the seam that a class fills, or whose arguments are most like
    its own; nothing for what is like none. kind: `module:Class`."""
    if not isinstance(cls, type):
        return ""
    names: set[str] = set()
    for method in ("__init__", "forward", "__call__"):
        with suppress(TypeError, ValueError, AttributeError):  # not there, or compiled
            names.update(inspect.signature(getattr(cls, method)).parameters)
    likeness: dict[type, float] = {}
    for seam, words in ARGUMENTS.items():
        arguments = set(words.split())
        likeness[seam] = len(names & arguments) / len(names | arguments)
        if issubclass(cls, seam):
            likeness[seam] = 2.0
    seam = max(likeness, key=lambda seam: likeness[seam])
    if likeness[seam] == 0:
        return ""
    place = [place for place, allowed in PLACES.items() if seam in allowed][-1]
    article = "an" if seam is seams.Embedding else "a"
    name = f"{article} {seam.__name__}"
    if issubclass(cls, seam):
        return f" It is {name}, chosen by {place}={kind}."
    return f" It looks like {name}: make it a subclass, and choose it by {place}={kind}."
