"""Modules made from the settings of pieces."""

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
from attnexp.model.seams import Layers
from attnexp.network.guard import guard


def build_piece(piece: Piece, *surroundings: Any, seed: int) -> Any:
    """The module of a piece: its class, called with its surroundings and its settings. Raises
    `UserError` for a piece that cannot be built."""
    kind = piece.kind
    assert kind is not None
    settings = _settings_of(piece, seed)
    if not pieces.is_ours(kind):
        return _build_users(kind, surroundings, settings, seed)
    try:
        return pieces.load(kind)(*surroundings, **settings)
    except UserError:  # A piece within it has said what is wrong.
        raise
    except ValueError as error:
        raise UserError(f"{kind} cannot be built: {error}.") from error


def _build_users(
    kind: str, surroundings: tuple[Any, ...], settings: dict[str, Any], seed: int
) -> Any:
    """A user's piece, which draws its weights by the seed (ours start by `init_weights`), and gets
    copies of ids, masks and positions."""
    draws = named_seed(seed, kind)
    with guard([kind]), kept_streams():
        torch.manual_seed(draws)
        seed_beside_torch(draws)
        module = pieces.load(kind)(*surroundings, **settings)
        if torch.initial_seed() != draws:
            raise UserError(f"{kind} seeds torch: it would start alike with every seed.")
    module.surroundings = surroundings  # read by `check`
    if not isinstance(module, nn.Module):  # A mask is given positions that are made for it alone.
        return module
    for name, weight in module.named_parameters():
        if weight.dtype not in (torch.float32, torch.float64):
            raise UserError(f"{kind}: parameter '{name}' is {weight.dtype}, not torch.float32.")
    for part in [*module] if isinstance(module, Layers) else [module]:
        part.register_forward_pre_hook(_copy_inputs)
    return module


def _settings_of(piece: Piece, seed: int) -> dict[str, Any]:
    """Settings beside those of every piece in its place; of a piece within it, how to build it."""
    shared = {f.name for f in fields(piece.base_spec)}
    settings: dict[str, Any] = {}
    for f in fields(piece):
        value = getattr(piece, f.name)
        if isinstance(value, Piece):
            value = partial(build_piece, value, seed=seed)
        if f.name not in shared:
            settings[f.name] = value
    return settings


def _copy_inputs(_module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copies of ids, masks and positions, so that a user's piece may change them in place."""
    copies: list[Any] = []
    for value in inputs:
        is_whole = isinstance(value, Tensor) and not value.is_floating_point()
        copies.append(value.clone() if is_whole else value)
    return tuple(copies)


@contextmanager
def kept_streams() -> Iterator[None]:
    """Set the random streams of torch, numpy and `random` back at the end."""
    numpy_state = np.random.get_state()
    python_state = random.getstate()
    gpus = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(gpus):
        try:
            yield
        finally:
            np.random.set_state(numpy_state)
            random.setstate(python_state)


def seed_beside_torch(seed: int) -> None:
    """Seed numpy and `random`, from which user code may draw."""
    np.random.seed(seed % 2**32)
    random.seed(seed)
