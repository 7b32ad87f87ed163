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
    """The module of a piece: its class, called with its surroundings and its settings.

    seed: of the weights. Raises `UserError` for a piece that cannot be built.
    """
    assert piece.kind is not None
    settings = own_settings(piece) | by_name
    for name, value in settings.items():
        if isinstance(value, Piece):
            settings[name] = partial(build_piece, value, seed=seed)
    make = partial(pieces.load(piece.kind), *surroundings, **settings)
    try:
        if piece.kind.startswith("attnexp."):  # `init_weights` replaces its first draws
            module = make()
        else:  # its weights follow the seed, and the global stream stays where it is
            with torch.random.fork_rng():
                torch.manual_seed(named_seed(seed, piece.kind))
                module = make()
    except UserError:  # of a piece within it
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise UserError(f"{piece.kind} cannot be built: {error}.") from error
    if isinstance(module, nn.Module):
        module.surroundings = surroundings  # type: ignore[assignment]  # read by `check`
        _refuse_odd_weights(module, piece.kind)
    return module


def own_settings(piece: Piece) -> dict[str, Any]:
    """Settings that a piece has beside those of every piece in its place."""
    shared = {f.name for f in fields(piece.base_spec or type(piece))}
    return {f.name: getattr(piece, f.name) for f in fields(piece) if f.name not in shared}


def _refuse_odd_weights(module: nn.Module, kind: str) -> None:
    """Raise `UserError` for a parameter that is no real number, or has no shape yet."""
    for name, weight in module.named_parameters():
        dtype = "lazy" if nn.parameter.is_lazy(weight) else str(weight.dtype)
        if not dtype.startswith(("torch.float", "torch.bfloat")):
            raise UserError(
                f"{kind} cannot be built: its parameter '{name}' is {dtype}, and a weight holds "
                f"real numbers in a shape that the constructor knows."
            )
