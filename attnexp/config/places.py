"""Places for pieces in a config, and which base classes, seams, fit there."""

from collections.abc import Mapping
from typing import Any

from attnexp.base.errors import UserError
from attnexp.config.pieces import Piece, load
from attnexp.config.schema import MaskConfig, ModelConfig, PositionConfig
from attnexp.model import seams

Allowed = Mapping[type | None, Any]
"""Seams that a piece may fill in a place, with the settings that come with it. None is no piece."""

NETWORKS = (seams.Layers, seams.Mixer, seams.Embedding)
POSITIONS = (seams.JoinedPosition, seams.Rotation, seams.ScoreBias)
PLACES: dict[str, Allowed] = {
    "model": {**dict.fromkeys(NETWORKS, ModelConfig), seams.Baseline: Piece},
    "position": {**dict.fromkeys(POSITIONS, PositionConfig), None: Piece},
    "mask": {seams.Mask: MaskConfig, None: MaskConfig},
}


def common_settings(kind: str | None, key: str, allowed: Allowed) -> Any:
    """Settings that come with a class in its place. Raises `UserError` where it does not fit."""
    if kind is None and None in allowed:
        return allowed[None]
    cls = None if kind is None else load(kind)
    for seam, settings in allowed.items():
        if seam is not None and isinstance(cls, type) and issubclass(cls, seam):
            return settings
    wanted = ", ".join(seam.__name__ for seam in allowed if seam is not None)
    raise UserError(f"{key}={kind}: wanted a subclass of one of attnexp.model.seams: {wanted}.")
