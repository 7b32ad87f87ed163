"""Pieces built from their settings."""

import random
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
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
from attnexp.model.seams import Layers
from attnexp.network.guard import place_of


def build_piece(piece: Piece, *surroundings: Any, seed: int, **by_name: Any) -> Any:
    """The module of a piece: its class, called with its surroundings and its settings. A user's
    gets copies of ids, masks and positions, and draws its weights by the seed; ours start by
    `init_weights`. Raises `UserError` for a piece that cannot be built."""
    kind = piece.kind
    assert kind is not None
    is_ours = pieces.is_ours(kind)
    settings = _settings_of(piece, seed) | by_name
    with _named_errors(kind), nullcontext() if is_ours else seeded_draws(named_seed(seed, kind)):
        module = pieces.load(kind)(*surroundings, **settings)
    if not isinstance(module, nn.Module):  # a mask, which is given positions that are made for it
        return module
    _refuse_odd_weights(module, kind)
    if not is_ours:
        module.surroundings = surroundings  # type: ignore[assignment]  # read by `check`
        for part in [*module] if isinstance(module, Layers) else [module]:
            part.register_forward_pre_hook(_copy_inputs)
    return module


def _settings_of(piece: Piece, seed: int) -> dict[str, Any]:
    """Settings beside those of every piece in its place; of a piece within it, how to build it."""
    shared = {f.name for f in fields(piece.base_spec or type(piece))}
    settings: dict[str, Any] = {}
    for f in fields(piece):
        value = getattr(piece, f.name)
        if isinstance(value, Piece):
            value = partial(build_piece, value, seed=seed)
        if f.name not in shared:
            settings[f.name] = value
    return settings


@contextmanager
def _named_errors(kind: str) -> Iterator[None]:
    """Name the class that an error within comes from."""
    try:
        yield
    except UserError:  # of a piece within it
        raise
    except (Exception, SystemExit) as error:  # whatever anyone's code may do
        if not pieces.is_ours(kind):
            message = f"{kind} cannot be built{place_of(error)}: {type(error).__name__}: {error}"
            raise UserError(message) from error
        if isinstance(error, RuntimeError):  # torch's
            raise
        raise UserError(f"{kind} cannot be built: {error}.") from error


def _copy_inputs(_module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copies of ids, masks and positions, so that a user's piece may change them in place."""
    copies: list[Any] = []
    for value in inputs:
        is_whole = isinstance(value, Tensor) and not value.is_floating_point()
        copies.append(value.clone() if is_whole else value)
    return tuple(copies)


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
            if torch.initial_seed() != seed:
                raise UserError("torch.manual_seed is called: draws would not follow the seed")
        finally:
            np.random.set_state(numpy_state)
            random.setstate(python_state)


def _refuse_odd_weights(module: nn.Module, kind: str) -> None:
    """Raise `UserError` for a parameter that is no real number, or has no shape yet."""
    for name, weight in module.named_parameters():
        dtype = "lazy" if nn.parameter.is_lazy(weight) else str(weight.dtype)
        if not dtype.startswith(("torch.float", "torch.bfloat")):
            raise UserError(
                f"{kind} cannot be built: its parameter '{name}' is {dtype}, and a weight holds "
                f"real numbers in a shape that the constructor knows."
            )
