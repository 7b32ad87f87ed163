"""Places for pieces in a config, and which base classes, seams, fit there."""

import inspect
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from attnexp.base.errors import UserError
from attnexp.config.pieces import Piece, kind_of, load
from attnexp.config.schema import MaskConfig, ModelConfig, PositionConfig
from attnexp.model.seams import (
    Baseline,
    Embedding,
    JoinedPosition,
    Layers,
    Mask,
    Mixer,
    Pooling,
    Rotation,
    Score,
    ScoreBias,
)

Allowed = Mapping[type | None, Any]
"""Seams that a piece may fill in a place, with the settings that come with it. None is no piece."""

PLACES: dict[str, Allowed] = {
    "model": {
        Layers: ModelConfig,
        Mixer: ModelConfig,
        Embedding: ModelConfig,
        Baseline: Piece,
    },
    "position": {
        JoinedPosition: PositionConfig,
        Rotation: PositionConfig,
        ScoreBias: PositionConfig,
        None: Piece,
    },
    "mask": {Mask: MaskConfig, None: MaskConfig},
}


ARGUMENTS: dict[type, tuple[str, str]] = {
    Score: ("model.score", "num_heads d_query d_key d_head q k"),
    Pooling: ("model.pooling", "d_input x key_padding_mask"),
    Mixer: ("model.before", "d_input d_model x key_padding_mask"),
    JoinedPosition: ("position", "max_len d_model x positions"),
    Rotation: ("position", "d_head x positions"),
    ScoreBias: ("position", "num_heads positions"),
    Mask: ("mask", "query key"),
    Layers: ("model", "d_input d_model context x key_padding_mask allowed positions"),
    Embedding: ("model", "vocab_size d_model ids"),
    Baseline: ("model", "vocab_size num_classes ids labels"),
}
"""Seams with the place where each is chosen, and the names of what they are given, as in
`attnexp.model.seams`."""


def common_settings(kind: str | None, key: str, allowed: Allowed) -> Any:
    """Settings that come with a class in its place. Raises `UserError` where it does not fit."""
    if kind is None and None in allowed:
        return allowed[None]
    cls = None if kind is None else load(kind)
    for seam, settings in allowed.items():
        if seam is not None and isinstance(cls, type) and issubclass(cls, seam):
            return settings
    wanted = ", ".join(seam.__name__ for seam in allowed if seam is not None)
    message = f"{key}={kind}: wanted a subclass of one of attnexp.model.seams: {wanted}."
    if isinstance(cls, type):
        message += _describe_seam(cls)
    raise UserError(f"{message} docs/extending.md has an example of each.")


def _describe_seam(cls: type) -> str:
    """Which seam a class fills or looks like, and the word that chooses it; else nothing."""
    seam = _most_like(cls)
    if seam is None:
        return ""
    word = f"{ARGUMENTS[seam][0]}={kind_of(cls)}"
    article = "an" if seam is Embedding else "a"
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
