"""Check the pieces of a model against their seams, and name the piece that an error comes from.

Shapes: B batch, T tokens, D width, H heads, K head width.
"""

import traceback
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from attnexp.base.errors import UserError
from attnexp.config.schema import RunConfig
from attnexp.model import seams
from attnexp.model.scores import grid
from attnexp.network.build import build_model
from attnexp.network.classifier import Classifier
from attnexp.network.fast import take_fast_path

WANTED: dict[type, Callable[..., tuple[int, ...]]] = {
    seams.Embedding: lambda piece, ids: (*ids.shape, piece.surroundings[1]),
    seams.JoinedPosition: lambda piece, x, _: (*x.shape[:-1], piece.d_output),
    seams.Rotation: lambda piece, x, _: x.shape,
    seams.ScoreBias: lambda piece, positions: (piece.surroundings[0], *2 * positions.shape[-1:]),
    seams.Mask: lambda piece, query, key: (len(query), len(query)),
    seams.Mixer: lambda piece, x, _: (*x.shape[:-1], piece.d_output),
    seams.Pooling: lambda piece, x, _: (x.shape[0], x.shape[-1]),
    seams.Score: lambda piece, q, k: (*q.shape[:-1], k.shape[-2]),
}
"""Shape that a piece of each seam returns for what it is given."""

PIECES = (*WANTED, seams.Layers, seams.Baseline)

TOLERANCE = 1e-3
"""Largest difference, as a share of the largest number, that passes as rounding."""


def check_pieces(model: nn.Module, ids: Tensor) -> None:
    """Raise `UserError` where a piece of a network does not give what its seam asks for.

    Its output must have the right shape and type, be the same in two passes of evaluation, and be
    for each text what it is for this text alone. ids: a few texts, (B, T). Leaves all as it is.
    """
    if not isinstance(model, Classifier):
        return
    with torch.random.fork_rng([ids.device] if ids.device.type == "cuda" else []):
        if model.pattern is not None:
            place = grid(ids.shape[-1], ids.device)
            _check_output(model.pattern, place, model.pattern(*place))
        once = _outputs(model, ids, _check_output)
        again = _outputs(model, ids)
        alone = [_outputs(model, text[None]) for text in ids]
    for (piece, output), (_, second), *by_text in zip(once, again, *alone, strict=True):
        if _differ(output, second):
            raise UserError(
                f"{_name(piece)} draws at random in evaluation: two passes over the same texts "
                f"differ. Draw only where self.training is true, as nn.Dropout does."
            )
        if output.ndim == 2 and isinstance(piece, seams.Embedding):
            continue  # `pool_words` asks ours for the words of a batch, which are in no text
        _refuse_mixing(piece, output, [output_alone for _, output_alone in by_text])


def _refuse_mixing(piece: nn.Module, output: Tensor, alone: list[Tensor]) -> None:
    """Raise `UserError` where an output for a batch differs from those for each text alone."""
    is_shared = isinstance(piece, seams.ScoreBias) and (output.ndim < 4 or len(output) == 1)
    for i, output_alone in enumerate(alone):
        output_in_batch = output if is_shared else output[i : i + 1]
        if _differ(output_in_batch, output_alone):
            raise UserError(
                f"{_name(piece)} mixes the texts of a batch: dimension 0 of its input is those."
            )


def check_rebuilt(model: nn.Module, config: RunConfig, num_classes: int, ids: Tensor) -> None:
    """Raise `UserError` where a trained model is more than its weights: built anew from them and
    the config, it must give the same for ids (B, T), a few texts on its device."""
    anew = build_model(config, num_classes).to(ids.device)
    anew.load_state_dict(model.state_dict())
    if config.train.fast:
        take_fast_path(anew, config.train.precision)
    outputs = _outputs(model, ids)
    outputs_anew = _outputs(anew, ids)
    for (piece, output), (_, second) in zip(outputs, outputs_anew, strict=True):
        if _differ(output, second):
            raise UserError(
                f"{_name(piece)} keeps state outside its parameters and buffers: built anew from "
                f"the stored weights, it gives something else. Keep it by self.register_buffer."
            )


def explain(error: BaseException, model: nn.Module) -> UserError | None:
    """The same error with the piece, file and line that it comes from; None where it comes from no
    piece, and where memory ran out."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return None
    layers = {*model.layers.modules()} if isinstance(model, Classifier) else set()
    from_outside_in = [*traceback.walk_tb(error.__traceback__)]
    for frame, line in reversed(from_outside_in):
        owner = frame.f_locals.get("self")
        is_in_layers = isinstance(owner, nn.Module) and owner in layers
        if is_in_layers or isinstance(owner, PIECES):
            place = f"{frame.f_code.co_filename}:{line}"
            what = f"{type(error).__name__}: {error}"
            return UserError(f"{_name(owner)} failed at {place}: {what}")
    return None


def _outputs(model: nn.Module, ids: Tensor, check: Any = None) -> list[tuple[nn.Module, Tensor]]:
    """Every piece and layer with what it gives, in a forward pass without dropout or gradients.

    check: called with each piece, its inputs and its output.
    """
    outputs = []

    def after(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if check is not None:
            check(module, inputs, output)
        outputs.append((module, output))

    layers = [*getattr(model, "layers", [])]
    with ExitStack() as stack, torch.no_grad():
        for module in model.modules():
            if isinstance(module, PIECES) or module in layers:
                hook = module.register_forward_hook(after)
                stack.enter_context(hook)
        stack.callback(model.train, model.training)
        model.eval()(ids)
    return outputs


def _differ(output: Tensor, other: Tensor) -> bool:
    """Whether two outputs differ beyond rounding."""
    finite = other.detach().nan_to_num(0.0, 0.0, 0.0)
    tolerance = TOLERANCE * float(finite.abs().amax())
    return not torch.allclose(output, other, rtol=0.0, atol=tolerance, equal_nan=True)


def _check_output(piece: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """Raise `UserError` where an output has not the shape and type that the seam asks for."""
    if not isinstance(output, Tensor):
        raise UserError(f"{_name(piece)} returned {type(output).__name__}, wanted a tensor.")
    shape = tuple(output.shape)
    wanted = _wanted_shape(piece, inputs, shape)
    fits = shape == wanted
    if isinstance(piece, seams.ScoreBias | seams.Mask):  # which broadcast to the scores
        sizes = zip(reversed(shape), reversed(wanted), strict=False)
        fits = all(size in (1, wanted_size) for size, wanted_size in sizes)
    if not fits:
        raise UserError(f"{_name(piece)} returned {shape}, wanted {wanted}.")
    kind = "floating-point numbers"
    has_kind = output.is_floating_point()
    if isinstance(piece, seams.Mask):
        kind = "torch.bool"
        has_kind = output.dtype is torch.bool
    if not has_kind:
        raise UserError(f"{_name(piece)} returned {output.dtype}, wanted {kind}.")


def _wanted_shape(
    piece: Any, inputs: tuple[Any, ...], returned: tuple[int, ...]
) -> tuple[int, ...]:
    """Shape that the seam of a piece asks for. A layer may change the width."""
    for seam, shape in WANTED.items():
        if isinstance(piece, seam):
            return tuple(shape(piece, *inputs))
    return (*inputs[0].shape[:-1], *returned[-1:])


def _name(piece: object) -> str:
    """`mine.decay:Decay (ScoreBias)`."""
    cls = type(piece)
    seam = "Layers"  # a layer within fills no seam itself
    for base in reversed(cls.__mro__):
        if base.__module__ == seams.__name__:
            seam = base.__name__
    return f"{cls.__module__}:{cls.__qualname__} ({seam})"
