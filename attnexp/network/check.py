"""What a model with user code must be: see "What is checked" in docs/extending.md.

Shapes: B batch, T tokens, C classes.
"""

from contextlib import ExitStack, suppress
from typing import Any

import torch
from torch import Tensor, nn

from attnexp.base.errors import UserError
from attnexp.model import seams
from attnexp.model.scores import grid

TOLERANCE = 1e-3  # largest difference, as a share of the largest logit, that passes as rounding


@torch.no_grad()
def check_model(model: nn.Module, ids: Tensor, num_classes: int) -> Tensor:
    """Logits of a few texts (B, T), in evaluation: (B,) or (B, C). Raises `UserError` unless they
    are finite, the same twice, and those of each text alone, and where a piece of the user's does
    not return what its seam asks for."""
    mask = getattr(model, "pattern", None)
    users: list[Any] = [
        piece for piece in (*model.modules(), mask) if hasattr(piece, "surroundings")
    ]
    devices = [ids.device] if ids.is_cuda else []
    with ExitStack() as stack, torch.random.fork_rng(devices):
        stack.callback(model.train, model.training)
        model.eval()
        for piece in users:
            if isinstance(piece, nn.Module):
                stack.enter_context(piece.register_forward_hook(_check_output))
            else:
                _check_mask(piece, ids)
        logits: Tensor = model(ids)
        again = model(ids)
        alone = torch.cat([model(text[None]) for text in ids])
    shape = tuple(logits.shape)
    wanted = (len(ids),) if num_classes == 2 else (len(ids), num_classes)
    problems = {
        f"returned {shape}, wanted {wanted}": shape != wanted,
        "returned logits that are not finite": not logits.isfinite().all(),
        "gives other logits when asked again: it draws, or keeps state, in evaluation": differ(
            logits, again
        ),
        "mixes the texts of a batch: dimension 0 of its input is those": differ(logits, alone),
    }
    for problem, is_there in problems.items():
        if is_there:
            raise UserError(f"The model with {', '.join(map(name_piece, users))} {problem}.")
    return logits


def check_stored(model: nn.Module, fresh: nn.Module, ids: Tensor, num_classes: int) -> None:
    """Raise `UserError` unless a model of the same config with a trained model's weights gives its
    logits."""
    logits = check_model(model, ids, num_classes)
    try:
        fresh.load_state_dict(model.state_dict())
    except RuntimeError as error:
        raise UserError(
            f"The weights do not fit a model that is built anew: {error}. Make them in __init__."
        ) from error
    if differ(check_model(fresh, ids, num_classes), logits):
        raise UserError(
            "A model that is built anew with the trained weights gives other logits: a piece keeps "
            "state outside its parameters and buffers. Keep it by self.register_buffer."
        )


def name_piece(piece: object) -> str:
    """`mine.decay:Decay (ScoreBias)`."""
    cls = type(piece)
    seam = next(base.__name__ for base in cls.__mro__ if base.__module__ == seams.__name__)
    return f"{cls.__module__}:{cls.__qualname__} ({seam})"


def differ(output: Tensor, expected: Tensor) -> bool:
    """Whether two outputs differ beyond rounding, which counts NaNs as equal."""
    if output.shape != expected.shape:
        return True
    tolerance = TOLERANCE * float(expected.nan_to_num().abs().max())
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
    """Raise `UserError` where an output has not the shape and type that the seam asks for."""
    dtype = torch.bool if isinstance(piece, seams.Mask) else torch.float32
    if not isinstance(output, Tensor) or output.dtype is not dtype:
        name = output.dtype if isinstance(output, Tensor) else type(output).__name__
        raise UserError(f"{name_piece(piece)} returned {name}, wanted {dtype}.")
    shape = tuple(output.shape)
    wanted = _wanted_shape(piece, inputs)
    if isinstance(piece, seams.ScoreBias | seams.Mask):  # which broadcast to the scores
        with suppress(RuntimeError):
            shape = tuple(torch.broadcast_shapes(shape, wanted))[-len(wanted) :]
    if wanted and shape != wanted:
        raise UserError(f"{name_piece(piece)} returned {tuple(output.shape)}, wanted {wanted}.")


def _wanted_shape(piece: Any, inputs: Any) -> tuple[int, ...]:
    """Shape that a piece returns for what it is given; empty where that may be any."""
    x = inputs[0]
    *before_last, last = x.shape
    surroundings: Any = getattr(piece, "surroundings", ())
    match piece:
        case seams.Embedding():
            return (*x.shape, surroundings[1])
        case seams.JoinedPosition() | seams.Mixer():
            return (*before_last, piece.d_output)
        case seams.Rotation():
            return tuple(x.shape)
        case seams.ScoreBias():
            return (*surroundings, last, last)  # of positions (T,) or (B, T)
        case seams.Mask():
            return (len(x), len(x))
        case seams.Pooling():
            return (len(x), last)
        case seams.Score():
            return (*before_last, inputs[1].shape[-2])
    return ()


def compare_weights(model: nn.Module, twin: nn.Module) -> None:
    """Raise `UserError` where two models of one seed do not start alike, or keep what is no
    tensor."""
    weights = twin.state_dict()
    for name, weight in model.state_dict().items():
        if not isinstance(weight, Tensor):
            raise UserError(f"{name} is no tensor. Keep state in parameters and buffers.")
        if differ(weights[name].float(), weight.float()):
            raise UserError(
                f"{name} does not start from its seed: built twice, it differs. Draw by torch, "
                f"numpy.random or random, which are seeded, and not when a module is imported."
            )
