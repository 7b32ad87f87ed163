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
        once, again = _outputs(model, ids, _check_output), _outputs(model, ids)
        alone = [_outputs(model, text[None]) for text in ids]
    for (piece, output), (_, second), *by_text in zip(once, again, *alone, strict=True):
        if _differ(output, second):
            raise UserError(
                f"{_name(piece)} draws at random in evaluation: two passes over the same texts "
                f"differ. Draw only where self.training is true, as nn.Dropout does."
            )
        if output.ndim == 2 and isinstance(piece, seams.Embedding):
            continue  # `pool_words` asks ours for the words of a batch, which are in no text
        is_shared = isinstance(piece, seams.ScoreBias) and (output.ndim < 4 or len(output) == 1)
        for i, (_, own) in enumerate(by_text):
            if _differ(output if is_shared else output[i : i + 1], own):
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
    for (piece, output), (_, second) in zip(_outputs(model, ids), _outputs(anew, ids), strict=True):
        if _differ(output, second):
            raise UserError(
                f"{_name(piece)} keeps state outside its parameters and buffers: built anew from "
                f"the stored weights, it gives something else. Keep it by self.register_buffer."
            )


def explain(error: BaseException, model: nn.Module) -> UserError | None:
    """The same error with the piece, file and line that it comes from; None where it comes from no
    piece, and where memory ran out."""
    within = {*model.layers.modules()} if isinstance(model, Classifier) else set()
    for frame, line in reversed([*traceback.walk_tb(error.__traceback__)]):
        owner = frame.f_locals.get("self")
        is_piece = isinstance(owner, PIECES) or (isinstance(owner, nn.Module) and owner in within)
        if is_piece and not isinstance(error, MemoryError | torch.OutOfMemoryError):
            where = f"{frame.f_code.co_filename}:{line}"
            return UserError(f"{_name(owner)} failed at {where}: {type(error).__name__}: {error}")
    return None


def _outputs(model: nn.Module, ids: Tensor, check: Any = None) -> list[tuple[nn.Module, Tensor]]:
    """Every piece and layer with what it gives, in a forward pass without dropout or gradients."""
    found = []

    def after(module: nn.Module, given: tuple[Any, ...], output: Any) -> None:
        if check is not None:
            check(module, given, output)
        found.append((module, output))

    layers = [*getattr(model, "layers", [])]
    with ExitStack() as stack, torch.no_grad():
        for module in model.modules():
            if isinstance(module, PIECES) or module in layers:
                stack.enter_context(module.register_forward_hook(after))
        stack.callback(model.train, model.training)
        model.eval()(ids)
    return found


def _differ(one: Tensor, other: Tensor) -> bool:
    """Whether two outputs differ beyond rounding."""
    largest = float(other.detach().nan_to_num(0.0, 0.0, 0.0).abs().amax())
    return not torch.allclose(one, other, rtol=0.0, atol=TOLERANCE * largest, equal_nan=True)


def _check_output(piece: Any, given: tuple[Any, ...], output: Any) -> None:
    """Raise `UserError` where an output has not the shape and type that the seam asks for."""
    if not isinstance(output, Tensor):
        raise UserError(f"{_name(piece)} returned {type(output).__name__}, wanted a tensor.")
    shape = tuple(output.shape)
    found = (tuple(WANTED[seam](piece, *given)) for seam in WANTED if isinstance(piece, seam))
    wanted = next(found, (*given[0].shape[:-1], *shape[-1:]))  # a layer may change the width
    fits = shape == wanted
    if isinstance(piece, seams.ScoreBias | seams.Mask):  # which broadcast to the scores
        pairs = zip(reversed(shape), reversed(wanted), strict=False)
        fits = all(size in (1, number) for size, number in pairs)
    if not fits:
        raise UserError(f"{_name(piece)} returned {shape}, wanted {wanted}.")
    is_mask = isinstance(piece, seams.Mask)
    if not (output.dtype is torch.bool if is_mask else output.is_floating_point()):
        kind = "torch.bool" if is_mask else "floating-point numbers"
        raise UserError(f"{_name(piece)} returned {output.dtype}, wanted {kind}.")


def _name(piece: object) -> str:
    """`mine.decay:Decay (ScoreBias)`."""
    of_seams = (c.__name__ for c in type(piece).__mro__ if c.__module__ == seams.__name__)
    return f"{type(piece).__module__}:{type(piece).__qualname__} ({next(of_seams, 'Layers')})"
