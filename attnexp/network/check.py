"""What a model with user code must be: see "What is checked" in docs/extending.md.

Shapes: B batch, T tokens, C classes.
"""

from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from attnexp.base.errors import UserError
from attnexp.model import seams
from attnexp.model.scores import grid
from attnexp.network.guard import kept_streams


def check_start(model: nn.Module, fresh: nn.Module) -> None:
    """Raise `UserError` where two models that were built from one seed differ."""
    weights = fresh.state_dict()
    for name, weight in model.state_dict().items():
        if differ(weights[name].float(), weight.float()):
            raise UserError(
                f"{name} does not start from its seed: built twice, it differs. Draw by torch, "
                f"numpy.random or random, which are seeded, and not when a module is imported."
            )


def check_model(model: nn.Module, fresh: nn.Module, ids: Tensor, num_classes: int) -> None:
    """Raise `UserError` unless `check_logits` passes, and a fresh model of the same config gives
    the same logits with the weights of this one."""
    logits = check_logits(model, ids, num_classes)
    fresh.load_state_dict(model.state_dict())
    if differ(check_logits(fresh, ids, num_classes), logits):
        raise UserError(
            "A model that is built anew with the trained weights gives other logits: a piece keeps "
            "state outside its parameters and buffers. Keep it by self.register_buffer."
        )


@torch.no_grad()
def check_logits(model: nn.Module, ids: Tensor, num_classes: int) -> Tensor:
    """Logits of a few texts (B, T), in evaluation: (B,) or (B, C). Raises `UserError` unless they
    are finite, the same twice, and those of each text alone, and where a piece of the user's does
    not return what its seam asks for."""
    pieces: list[Any] = [*model.modules(), getattr(model, "pattern", None)]
    users_pieces = [piece for piece in pieces if hasattr(piece, "surroundings")]
    with ExitStack() as stack, kept_streams():  # The model is left as it was, and so are streams.
        stack.callback(model.train, model.training)
        model.eval()
        for piece in users_pieces:
            if isinstance(piece, nn.Module):
                stack.enter_context(piece.register_forward_hook(_check_output))
            else:
                _check_mask(piece, ids)
        logits: Tensor = model(ids)
        again = model(ids)
        alone = torch.cat([model(text[None]) for text in ids])
    shape = tuple(logits.shape)
    expected = (len(ids),) if num_classes == 2 else (len(ids), num_classes)
    if shape != expected:
        problem = f"returned {shape}, wanted {expected}"
    elif not logits.isfinite().all():
        problem = "returned logits that are not finite"
    elif differ(again, logits):
        problem = "gives other logits when asked again: it draws, or keeps state, in evaluation"
    elif differ(alone, logits):
        problem = "mixes the texts of a batch: dimension 0 of its input is those"
    else:
        return logits
    raise UserError(f"The model with {', '.join(map(name_piece, users_pieces))} {problem}.")


def name_piece(piece: object) -> str:
    """`mine.decay:Decay`."""
    cls = type(piece)
    return f"{cls.__module__}:{cls.__qualname__}"


def differ(output: Tensor, expected: Tensor) -> bool:
    """Whether two outputs of one shape differ by more than rounding, which is a thousandth of the
    largest number. NaNs are equal."""
    tolerance = 1e-3 * float(expected.nan_to_num().abs().max())
    return not torch.allclose(output, expected, rtol=0.0, atol=tolerance, equal_nan=True)


def _check_mask(mask: seams.Mask, ids: Tensor) -> None:
    """Raise `UserError` where a mask does not fit its seam, or leaves a query no key."""
    positions = grid(ids.shape[-1], ids.device)
    pattern = mask(*positions)
    _check_output(mask, positions, pattern)
    if not pattern.any(-1).all():
        raise UserError(
            f"{name_piece(mask)} leaves a query no key to see. True means that the query may see "
            f"the key; in torch.nn it may mean the opposite."
        )


def _check_output(piece: Any, inputs: Any, output: Any) -> None:
    """Raise `UserError` where an output has not the type that the seam asks for, or a wrong shape
    that torch would broadcast."""
    dtype = torch.bool if isinstance(piece, seams.Mask) else torch.float32
    if not isinstance(output, Tensor) or output.dtype is not dtype:
        name = output.dtype if isinstance(output, Tensor) else type(output).__name__
        raise UserError(f"{name_piece(piece)} returned {name}, wanted {dtype}.")
    shape = tuple(output.shape)
    expected = shape  # Torch refuses wrong shapes of the other seams itself.
    match piece:
        case seams.Embedding():
            surroundings: Any = piece.surroundings  # vocab_size and d_model
            expected = (*inputs[0].shape, surroundings[1])
        case seams.JoinedPosition() | seams.Mixer():
            expected = (*inputs[0].shape[:-1], piece.d_output)
        case seams.Rotation():
            expected = tuple(inputs[0].shape)
    if shape != expected:
        raise UserError(f"{name_piece(piece)} returned {shape}, wanted {expected}.")
