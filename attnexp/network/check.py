"""What a model with user code must be: see "What is checked" in docs/extending.md."""

from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attnexp.base.errors import UserError
from attnexp.config import pieces
from attnexp.model import seams
from attnexp.model.scores import grid
from attnexp.network.build_piece import Args, called_modules
from attnexp.network.guard import kept_streams


def check_start(model: nn.Module, fresh: nn.Module) -> None:
    """Raise `UserError` where two models that were built from one seed differ."""
    weights = fresh.state_dict()
    for name, weight in model.state_dict().items():
        if _differ(weights[name].float(), weight.float()):
            raise UserError(
                f"{name} does not start from its seed: built twice, it differs. Draw by torch, "
                f"numpy.random or random, which are seeded, and not when a module is imported."
            )


def check_model(model: nn.Module, fresh: nn.Module, ids: Tensor, num_classes: int) -> None:
    """Raise `UserError` unless `_check_logits` passes, and a fresh model of the same config gives
    the same logits with the weights of this one."""
    logits = _check_logits(model, ids, num_classes)
    fresh.load_state_dict(model.state_dict())
    if _differ(_check_logits(fresh, ids, num_classes), logits):
        raise UserError(
            "A second model with the same weights gives other logits: a piece keeps state outside "
            "its parameters and buffers. Keep it by self.register_buffer."
        )


@torch.no_grad()
def _check_logits(model: nn.Module, ids: Tensor, num_classes: int) -> Tensor:
    """Logits of a few texts in evaluation: (B,) or (B, C). Raises `UserError` unless they are
    finite, the same twice and those of each text alone, and a user's pieces fit their seams."""
    users_pieces = _find_users_pieces(model)
    with ExitStack() as stack, kept_streams():  # The model is left as it was, and so are streams.
        stack.callback(model.train, model.training)
        model.eval()
        mask = getattr(model, "mask", None)
        if isinstance(mask, seams.Mask):
            _check_mask(mask, ids)
        for piece in users_pieces:
            hook = partial(_check_output, piece)
            for module in called_modules(piece):
                stack.enter_context(module.register_forward_hook(hook))
        logits: Tensor = model(ids)
        again = model(ids)
        alone = [model(text) for text in ids.split(1)]
    problem = _describe_problem(logits, again, alone, num_classes)
    if problem:
        raise UserError(f"The model with {', '.join(map(_name_piece, users_pieces))} {problem}.")
    return logits


def _describe_problem(logits: Tensor, again: Tensor, alone: list[Tensor], num_classes: int) -> str:
    """What is wrong with logits, or with those of a second time and of each text alone, if any."""
    classes = () if num_classes == 2 else (num_classes,)
    for output, num_texts in [(logits, len(alone)), *((text, 1) for text in alone)]:
        expected = (num_texts, *classes)
        if output.shape != expected:
            return f"returned {tuple(output.shape)}, wanted {expected}"
    if not logits.isfinite().all():
        return "returned logits that are not finite"
    if _differ(again, logits):
        return "gives other logits when asked again: it draws, or keeps state, in evaluation"
    if _differ(torch.cat(alone), logits):
        return "mixes the texts of a batch: dimension 0 of its input is those"
    return ""


def _find_users_pieces(model: nn.Module) -> list[Any]:
    """Pieces of a model whose class a user wrote: modules, and the mask."""
    users_pieces = []
    for part in [*model.modules(), getattr(model, "mask", None)]:
        is_piece = any(cls.__module__ == seams.__name__ for cls in type(part).__mro__)
        if is_piece and not pieces.is_ours(_name_piece(part)):
            users_pieces.append(part)
    return users_pieces


def _name_piece(piece: object) -> str:
    """`mine.decay:Decay`."""
    cls = type(piece)
    return f"{cls.__module__}:{cls.__qualname__}"


def _differ(output: Tensor, expected: Tensor) -> bool:
    """Whether outputs of one shape differ by more than rounding: 1e-3 of the largest finite one."""
    finite = expected[expected.isfinite()]
    largest = float(finite.abs().max()) if len(finite) else 0.0
    return not torch.allclose(output, expected, rtol=0.0, atol=1e-3 * largest, equal_nan=True)


def _check_mask(mask: seams.Mask, ids: Tensor) -> None:
    """Raise `UserError` where a mask is not boolean, or leaves a query no key."""
    pattern = mask(*grid(ids.shape[-1], ids.device))
    _check_type(mask, pattern, torch.bool)
    if not pattern.any(-1).all():
        raise UserError(
            f"{_name_piece(mask)} leaves a query no key to see. True means that the query may see "
            f"the key; in torch.nn it may mean the opposite."
        )


def _check_type(piece: Any, output: Any, *dtypes: torch.dtype) -> None:
    """Raise `UserError` where a piece has returned anything but a tensor of one of these types."""
    returned = output.dtype if isinstance(output, Tensor) else type(output).__name__
    if returned not in dtypes:
        raise UserError(f"{_name_piece(piece)} returned {returned}, wanted {dtypes[0]}.")


def _check_output(piece: Any, _module: nn.Module, inputs: Args, output: Any) -> None:
    """Forward hook of a piece, or of each of its layers. piece: the one that has the module. Raises
    `UserError` for a type other than its seam's, or a wrong shape that torch might accept."""
    is_baseline = isinstance(piece, seams.Baseline)  # It may be fitted in float64.
    dtypes = [torch.float32, torch.float64] if is_baseline else [torch.float32]
    _check_type(piece, output, *dtypes)
    shape = tuple(output.shape)
    has_width = hasattr(piece, "d_output")  # A piece within a user's piece may have none.
    match piece:
        case seams.Embedding() | seams.JoinedPosition() | seams.Mixer() if has_width:
            expected = (*inputs[0].shape[:2], piece.d_output)
        case seams.Rotation():
            expected = tuple(inputs[0].shape)
        case seams.Score():
            expected = (*inputs[0].shape[:-1], inputs[1].shape[-2])
        case seams.Layers():  # Each may have a width of its own.
            expected = (*inputs[0].shape[:2], *shape[-1:])
        case _:  # Biases may be broadcast. The logits show the shape of other pieces.
            return
    if shape != expected:
        raise UserError(f"{_name_piece(piece)} returned {shape}, wanted {expected}.")
