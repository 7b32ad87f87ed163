"""Pieces built from their settings."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attnexp.base.errors import UserError
from attnexp.config import pieces
from attnexp.config.pieces import Piece
from attnexp.model.init import named_seed
from attnexp.model.seams import Layers, Mask
from attnexp.network.guard import place_of


def build_piece(piece: Piece, *surroundings: Any, seed: int, **by_name: Any) -> Any:
    """The module of a piece: its class, called with its surroundings and its settings.

    seed: of the weights. Raises `UserError` for a piece that cannot be built.
    """
    kind = piece.kind
    assert kind is not None
    settings = own_settings(piece) | by_name
    for name, value in settings.items():
        if isinstance(value, Piece):
            settings[name] = partial(build_piece, value, seed=seed)
    make = partial(pieces.load(kind), *surroundings, **settings)
    if pieces.is_ours(kind):  # `init_weights` replaces its first draws
        try:
            module = make()
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
            if isinstance(error, UserError):  # of a piece within it
                raise
            raise UserError(f"{kind} cannot be built: {error}.") from error
    else:
        module = _build_users(kind, make, seed)
    if isinstance(module, nn.Module):
        module.surroundings = surroundings  # type: ignore[assignment]  # read by `check`
        _refuse_odd_weights(module, kind)
    return module


def _build_users(kind: str, make: Any, seed: int) -> Any:
    """The module of a user's piece, which gets copies of what it is given."""
    try:
        with seeded_draws(named_seed(seed, kind)):
            module = make()
    except UserError:  # of a piece within it
        raise
    except (Exception, SystemExit) as error:  # whatever anyone's code may do
        what = f"{type(error).__name__}: {error}"
        place = place_of(error, kind)
        raise UserError(f"{kind} cannot be built at {place}: {what}") from error
    if isinstance(module, Mask):
        return module  # which is given positions that are made for it
    for part in [*module] if isinstance(module, Layers) else [module]:
        part.register_forward_pre_hook(_copy_inputs)
    return module


def _copy_inputs(_module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copies of ids, masks and positions, so that a user's piece may change them in place."""
    return tuple(
        value.clone() if isinstance(value, Tensor) and not value.is_floating_point() else value
        for value in inputs
    )


@contextmanager
def seeded_draws(seed: int) -> Iterator[None]:
    """Let torch, numpy and `random` draw by a seed within; their streams stay where they are."""
    numpy_state = np.random.get_state()
    python_state = random.getstate()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        np.random.seed(seed % 2**32)
        random.seed(seed)
        try:
            yield
        finally:
            np.random.set_state(numpy_state)
            random.setstate(python_state)


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
