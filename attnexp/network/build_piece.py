"""A piece of the model, built from its settings."""

from dataclasses import fields
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attnexp.base.errors import UserError
from attnexp.config import pieces
from attnexp.config.settings import Tree
from attnexp.model.init import named_seed
from attnexp.model.seams import Layers, Mask
from attnexp.network.guard import guard, kept_streams, seed_beside_torch

Args = tuple[Any, ...]  # positional arguments


def build_piece(piece: pieces.Piece, *surroundings: Any, seed: int) -> Any:
    """The module of a piece: its class, called with what its seam lists (`surroundings`) and its
    settings. Raises `UserError` for a piece that cannot be built."""
    kind = piece.kind
    assert kind is not None
    not_arguments = {f.name for f in fields(piece.base_spec)}  # kind, and what the classifier reads
    settings = {name: value for name, value in vars(piece).items() if name not in not_arguments}
    for name, value in settings.items():
        if isinstance(value, pieces.Piece):  # A piece within it is given as a function.
            settings[name] = partial(build_piece, value, seed=seed)
    if not pieces.is_ours(kind):
        return _build_users(kind, surroundings, settings, seed)
    try:
        return pieces.load(kind)(*surroundings, **settings)
    except UserError:  # This is a `ValueError`, too. A piece within it has said what is wrong.
        raise
    except ValueError as error:
        raise UserError(f"{kind} cannot be built: {error}.") from error


def _build_users(kind: str, surroundings: Args, settings: Tree, seed: int) -> Any:
    """A user's piece. The weights that its constructor draws depend on the seed and its own name
    alone. Whenever it is called, it is given copies of ids, masks and positions."""
    own_seed = named_seed(seed, kind)
    with guard([kind]), kept_streams():
        torch.manual_seed(own_seed)
        seed_beside_torch(own_seed)
        module = pieces.load(kind)(*surroundings, **settings)
        if torch.initial_seed() != own_seed:
            raise UserError(f"{kind} seeds torch: it would start alike with every seed.")
    if not isinstance(module, nn.Module):  # A mask, which has no weights and is given no ids.
        return module
    for name, value in module.named_parameters():
        if value.dtype not in (torch.float32, torch.float64):
            raise UserError(f"{kind}: parameter '{name}' is {value.dtype}, not float32 or float64.")
    for part in called_modules(module):
        part.register_forward_pre_hook(_copy_inputs)
    return module


def called_modules(piece: Any) -> list[nn.Module]:
    """Modules of a piece that the model calls: of layers each, of a mask none."""
    if isinstance(piece, Mask):
        return []
    return [*piece] if isinstance(piece, Layers) else [piece]


def _copy_inputs(_module: nn.Module, inputs: Args) -> Args:
    """Inputs with copies of ids, masks and positions, which other pieces get, too: a piece may
    change what it is given in place. Vectors go on to no other piece."""
    copies = []
    for value in inputs:
        is_shared = isinstance(value, Tensor) and not value.is_floating_point()
        copies.append(value.clone() if is_shared else value)
    return tuple(copies)
