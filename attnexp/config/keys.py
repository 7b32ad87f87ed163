"""The keys that there are, whatever is chosen: those of the pieces, each with who has it."""

from dataclasses import Field, fields
from functools import lru_cache
from typing import Any

from attnexp.config import pieces
from attnexp.config.options import groups, read
from attnexp.config.pieces import Piece
from attnexp.config.schema import PLACES


def of_option(group: str, option: str) -> dict[str, Field[Any]]:
    """The settings of the piece that an option of `conf/` chooses, by key."""
    kind = read(group, option)["kind"]
    frame: Any = PLACES.get(group, {}).get(pieces.seam(kind), Piece)
    return {f"{group}.{f.name}": f for f in fields(pieces.spec(kind, frame))}


@lru_cache
def owners() -> dict[str, list[str]]:
    """The settings of pieces, each with the choices that have it."""
    found: dict[str, list[str]] = {}
    for group, options in groups().items():
        if group.split(".")[0] in PLACES:
            for option in options:
                for key in of_option(group, option):
                    found.setdefault(key, []).append(f"{group}={option}")
    return found
