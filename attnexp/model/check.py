"""Check the pieces of a model against their seams, and name the piece that an error comes from.

Shapes: B batch, T tokens, D width, H heads, K head width.
"""

import traceback
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from attnexp.base.errors import UserError
from attnexp.config.schema import RunConfig
from attnexp.model import seams
from attnexp.model.classifier import Classifier, build_model
from attnexp.model.fast import take_fast_path
from attnexp.model.scores import grid

PIECES = (
    *(seams.Embedding, seams.JoinedPosition, seams.Rotation, seams.ScoreBias, seams.Mixer),
    *(seams.Pooling, seams.Score, seams.Layers, seams.Mask, seams.Baseline),
)
TOLERANCE = 1e-3
"""Largest difference, as a share of the largest number, that passes as rounding."""


def check_pieces(model: nn.Module, ids: Tensor) -> None:
    """Raise `UserError` where a piece of a network does not give what its seam asks for.

    Its output must have the seam's shape and type, be the same in two passes of evaluation, and be
    for each text what it is for this text alone. ids: a few texts, (B, T). Leaves the model and the
    random state as they are.
    """
    if not isinstance(model, Classifier):
        return
    devices = [ids.device] if ids.device.type == "cuda" else []
    try:
        with torch.random.fork_rng(devices):
            if model.pattern is not None:
                place = grid(ids.shape[-1], ids.device)
                _check_output(model.pattern, place, model.pattern(*place))
            once, again = _outputs(model, ids, is_checked=True), _outputs(model, ids)
            alone = [_outputs(model, text[None]) for text in ids]
    except UserError:
        raise
    except Exception as error:
        if (explained := explain(error, model)) is not None:
            raise explained from error
        raise
    for (piece, output), (_, second), *by_text in zip(once, again, *alone, strict=True):
        if _differ(output, second):
            raise UserError(
                f"{_name(piece)} draws at random in evaluation: two passes over the same texts "
                f"differ. Draw only where self.training is true, as nn.Dropout does."
            )
        is_shared = isinstance(piece, seams.ScoreBias) and (output.ndim < 4 or len(output) == 1)
        for i, (_, own) in enumerate(by_text):
            if _differ(output if is_shared else output[i : i + 1], own):
                raise UserError(
                    f"{_name(piece)} mixes the texts of a batch: what it gives for a text depends "
                    f"on the others. Texts are dimension 0 of what it is given; tokens are not."
                )


def check_rebuilt(model: nn.Module, config: RunConfig, num_classes: int, ids: Tensor) -> None:
    """Raise `UserError` where a trained model is more than its weights.

    A model built anew from the config and these weights must give the same. ids: a few texts,
    (B, T), on the device of the model.
    """
    anew = build_model(config, num_classes).to(ids.device)
    anew.load_state_dict(model.state_dict())
    if config.train.fast:
        take_fast_path(anew)
    pairs = zip(_outputs(model, ids), _outputs(anew, ids), strict=True)
    for (piece, output), (_, expected) in pairs:
        if _differ(output, expected):
            raise UserError(
                f"{_name(piece)} keeps state outside its parameters and buffers: built anew from "
                f"the stored weights, it gives something else. Keep it by self.register_buffer."
            )


def explain(error: BaseException, model: nn.Module) -> UserError | None:
    """The same error with the piece that it comes from: class, seam, file and line.

    None where it comes from no piece, and where memory ran out.
    """
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return None
    within = {*model.layers.modules()} if isinstance(model, Classifier) else set()
    for frame, line in reversed([*traceback.walk_tb(error.__traceback__)]):
        owner = frame.f_locals.get("self")
        if isinstance(owner, PIECES) or (isinstance(owner, nn.Module) and owner in within):
            where = f"{frame.f_code.co_filename}:{line}"
            return UserError(f"{_name(owner)} failed at {where}: {type(error).__name__}: {error}")
    return None


def first_not_finite(model: nn.Module, ids: Tensor) -> str | None:
    """Name of the first piece that gives a NaN or +inf for some texts, ids (B, T), in a forward
    pass without dropout: `layers.0.attention.score (mine:Score)`. None where there is none.

    -inf is left out, since a score may be hidden by it.
    """
    names = {module: name for name, module in model.named_modules()}
    for piece, output in _outputs(model, ids):
        if not (output < torch.inf).all():
            return f"{names[piece]} ({_class_name(piece)})"
    return None


def _outputs(
    model: nn.Module, ids: Tensor, *, is_checked: bool = False
) -> list[tuple[nn.Module, Tensor]]:
    """Every piece and layer with what it gives, in a forward pass without dropout or gradients."""
    found = []

    def after(module: nn.Module, given: tuple[Any, ...], output: Any) -> None:
        if is_checked:
            _check_output(module, given, output)
        found.append((module, output))

    was_training, layers = model.training, [*getattr(model, "layers", [])]
    with ExitStack() as hooks, torch.no_grad():
        for module in model.modules():
            if isinstance(module, PIECES) or module in layers:
                hooks.enter_context(module.register_forward_hook(after))
        hooks.callback(model.train, was_training)
        model.eval()(ids)
    return found


def _differ(one: Tensor, other: Tensor) -> bool:
    """Whether two outputs are different beyond rounding."""
    largest = float(other.nan_to_num(0.0, 0.0, 0.0).abs().amax())
    return not torch.allclose(one, other, rtol=0.0, atol=TOLERANCE * largest, equal_nan=True)


def _check_output(piece: Any, given: tuple[Any, ...], output: Any) -> None:
    """Raise `UserError` where an output has not the shape and type that the seam asks for."""
    if not isinstance(output, Tensor):
        raise UserError(f"{_name(piece)} returned {type(output).__name__}, wanted a tensor.")
    x, shape = tuple(given[0].shape), tuple(output.shape)
    surroundings = getattr(piece, "surroundings", ())
    match piece:
        case seams.Embedding():
            wanted = (*x, surroundings[1])
        case seams.JoinedPosition() | seams.Mixer():
            wanted = (*x[:-1], piece.d_output)
        case seams.Rotation():
            wanted = x
        case seams.Pooling():
            wanted = (x[0], x[-1])
        case seams.Score():
            wanted = (*x[:-1], given[1].shape[-2])
        case seams.ScoreBias():
            wanted = (surroundings[0], x[-1], x[-1])
        case seams.Mask():
            wanted = (len(given[0]), len(given[0]))
        case _:  # a layer, whose width is that of the pooling
            wanted = (*x[:-1], *shape[-1:])
    fits = shape == wanted
    if isinstance(piece, seams.ScoreBias | seams.Mask):  # which broadcast to the scores
        last = shape[-len(wanted) :]
        fits = all(a in (1, b) for a, b in zip(last[::-1], wanted[::-1], strict=False))
    if not fits:
        raise UserError(f"{_name(piece)} returned {shape}, wanted {wanted}.")
    is_right = (
        output.dtype is torch.bool if isinstance(piece, seams.Mask) else output.is_floating_point()
    )
    if not is_right:
        kind = "torch.bool" if isinstance(piece, seams.Mask) else "floating-point numbers"
        raise UserError(f"{_name(piece)} returned {output.dtype}, wanted {kind}.")


def _name(piece: object) -> str:
    """`mine.decay:Decay (ScoreBias)`."""
    of_seams = (c.__name__ for c in type(piece).__mro__ if c.__module__ == seams.__name__)
    return f"{_class_name(piece)} ({next(of_seams, 'Layers')})"


def _class_name(piece: object) -> str:
    return f"{type(piece).__module__}:{type(piece).__qualname__}"
