"""Pieces built from their settings."""

from dataclasses import fields
from functools import partial
from typing import Any

import torch
from torch import nn

from attnexp.base.errors import UserError
from attnexp.config import pieces
from attnexp.config.pieces import Piece
from attnexp.model.init import named_seed


def build_piece(piece: Piece, *surroundings: Any, seed: int, **by_name: Any) -> Any:
    """Import a piece's class, and call it with its surroundings and its settings."""
    assert piece.kind is not None
    shared = {f.name for f in fields(piece.frame or type(piece))}
    own = by_name | {f.name: getattr(piece, f.name) for f in fields(piece) if f.name not in shared}
    for name, value in own.items():
        if isinstance(value, Piece):
            own[name] = partial(build_piece, value, seed=seed)
    make = pieces.load(piece.kind)
    try:
        if piece.kind.startswith("attnexp."):  # `init_weights` replaces its first draws
            made = make(*surroundings, **own)
        else:  # its weights follow the seed, and the global stream stays where it is
            with torch.random.fork_rng():
                torch.manual_seed(named_seed(seed, piece.kind))
                made = make(*surroundings, **own)
    except UserError:  # of a piece within it
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise UserError(f"{piece.kind} cannot be built: {error}.") from error
    if isinstance(made, nn.Module):
        made.surroundings = surroundings  # type: ignore[assignment]  # read by `check`
        for name, weight in made.named_parameters():
            kind = "lazy" if nn.parameter.is_lazy(weight) else str(weight.dtype)
            if not kind.startswith(("torch.float", "torch.bfloat")):
                raise UserError(
                    f"{piece.kind} cannot be built: its parameter '{name}' is {kind}, and a weight "
                    f"holds real numbers in a shape that the constructor knows."
                )
    return made
