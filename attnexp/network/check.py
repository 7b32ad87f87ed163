"""Check the pieces of a model against their seams.

Shapes: B batch, T tokens, D width, H heads, K head width.
"""

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
from attnexp.network.classifier import PAD, Classifier
from attnexp.network.fast import take_fast_path
from attnexp.network.guard import name_piece

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
    for each text what it is for this text alone; its input must stay as it was. ids: a few texts,
    (B, T). Leaves all as it is.
    """
    if not isinstance(model, Classifier):
        return
    with torch.random.fork_rng([ids.device] if ids.device.type == "cuda" else []):
        if model.pattern is not None:
            _check_mask(model, model.pattern, ids)
        once = _outputs(model, ids, _check_output)
        again = _outputs(model, ids)
        alone = [_outputs(model, text[None]) for text in ids]
    for (piece, output), (_, second), *by_text in zip(once, again, *alone, strict=True):
        if differ(output, second):
            raise UserError(
                f"{name_piece(piece)} draws at random in evaluation: two passes over the same "
                f"texts differ. Draw only where self.training is true, as nn.Dropout does."
            )
        if output.ndim == 2 and isinstance(piece, seams.Embedding):
            continue  # `pool_words` asks ours for the words of a batch, which are in no text
        _refuse_mixing(piece, output, [output_alone for _, output_alone in by_text])


def check_logits(model: nn.Module, ids: Tensor, num_classes: int) -> None:
    """Raise `UserError` where a model gives no finite logits, (B,) or (B, C), or others for a text
    in a batch than for the text alone. ids: a few texts, (B, T)."""
    wanted: tuple[int, ...] = (len(ids), num_classes)
    if num_classes == 2:
        wanted = (len(ids),)
    with torch.no_grad():
        logits = model.eval()(ids)
        _check_tensor(model, logits)
        if logits.shape != wanted:
            raise UserError(f"{name_piece(model)} returned {tuple(logits.shape)}, wanted {wanted}.")
        if not logits.isfinite().all():
            raise UserError(f"{name_piece(model)} returned logits that are not finite.")
        alone = [model(text[None]) for text in ids]
        _refuse_mixing(model, logits, alone)


def _check_mask(model: Classifier, mask: seams.Mask, ids: Tensor) -> None:
    """Raise `UserError` where a mask does not give what its seam asks for, or leaves a query of
    ids (B, T) no key."""
    place = grid(ids.shape[-1], ids.device)
    pattern = mask(*place)
    _check_output(mask, place, pattern)
    allowed = model.allowed(ids == PAD)
    assert allowed is not None
    is_real = (ids != PAD)[:, None, :]
    sees_no_key = ~allowed.any(-1) & is_real  # (B, 1, T)
    sees_no_key = sees_no_key.flatten(0, 1).any(0)  # (T,)
    sees_no_key |= ~pattern.expand(len(sees_no_key), -1).any(-1)  # in a text that is full
    if sees_no_key.any():
        position = int(sees_no_key.nonzero()[0, -1])
        raise UserError(
            f"{name_piece(mask)} leaves the query at position {position} no key to see. True means "
            f"that the query may see the key; in torch.nn it may mean the opposite."
        )


def _refuse_mixing(piece: nn.Module, output: Tensor, alone: list[Tensor]) -> None:
    """Raise `UserError` where an output for a batch differs from those for each text alone."""
    is_shared = isinstance(piece, seams.ScoreBias) and (output.ndim < 4 or len(output) == 1)
    for i, output_alone in enumerate(alone):
        output_in_batch = output if is_shared else output[i : i + 1]
        if differ(output_in_batch, output_alone):
            raise UserError(
                f"{name_piece(piece)} mixes the texts of a batch: dimension 0 of its input is "
                f"those."
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
        if differ(output, second):
            raise UserError(
                f"{name_piece(piece)} keeps state outside its parameters and buffers: built anew "
                f"from the stored weights, it gives something else. Keep it by "
                f"self.register_buffer."
            )


def _outputs(model: nn.Module, ids: Tensor, check: Any = None) -> list[tuple[nn.Module, Tensor]]:
    """Every piece and layer with what it gives, in a forward pass without dropout or gradients.

    check: called with each piece, its inputs and its output. Raises `UserError` where a piece
    changes its input.
    """
    outputs = []
    copies: dict[nn.Module, list[Any]] = {}

    def before(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        copies[module] = [_copy(value) for value in inputs]

    def after(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        for value, copy in zip(inputs, copies.pop(module), strict=True):
            if isinstance(copy, Tensor) and not torch.equal(value, copy):
                raise UserError(
                    f"{name_piece(module)} changes its input in place. Let it make a new tensor, "
                    f"as by x = x + y in place of x += y."
                )
        if check is not None:
            check(module, inputs, output)
        outputs.append((module, output))

    layers = [*getattr(model, "layers", [])]
    with ExitStack() as stack, torch.no_grad():
        for module in model.modules():
            if isinstance(module, PIECES) or module in layers:
                stack.enter_context(module.register_forward_pre_hook(before))
                stack.enter_context(module.register_forward_hook(after))
        stack.callback(model.train, model.training)
        model.eval()(ids)
    return outputs


def differ(output: Tensor, other: Tensor) -> bool:
    """Whether two outputs differ beyond rounding."""
    finite = other.detach().nan_to_num(0.0, 0.0, 0.0)
    tolerance = TOLERANCE * float(finite.abs().amax())
    return not torch.allclose(output, other, rtol=0.0, atol=tolerance, equal_nan=True)


def _copy(value: Any) -> Any:
    """A copy of what a piece is not to change; ids, masks and positions are copies already, and
    what is no number cannot be compared."""
    is_compared = isinstance(value, Tensor) and value.is_floating_point()
    return value.clone() if is_compared and not value.isnan().any() else None


def _check_output(piece: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """Raise `UserError` where an output has not the shape and type that the seam asks for."""
    _check_tensor(piece, output)
    shape = tuple(output.shape)
    wanted = _wanted_shape(piece, inputs, shape)
    fits = shape == wanted
    if isinstance(piece, seams.ScoreBias | seams.Mask):  # which broadcast to the scores
        sizes = zip(reversed(shape), reversed(wanted), strict=False)
        fits = all(size in (1, wanted_size) for size, wanted_size in sizes)
    if not fits:
        raise UserError(f"{name_piece(piece)} returned {shape}, wanted {wanted}.")
    dtype = torch.bool if isinstance(piece, seams.Mask) else torch.float32
    if output.dtype is not dtype:
        raise UserError(f"{name_piece(piece)} returned {output.dtype}, wanted {dtype}.")


def _check_tensor(piece: Any, output: Any) -> None:
    """Raise `UserError` where what a piece returned is no tensor."""
    if not isinstance(output, Tensor):
        name = type(output).__name__
        raise UserError(f"{name_piece(piece)} returned {name}, wanted a tensor.")


def _wanted_shape(
    piece: Any, inputs: tuple[Any, ...], returned: tuple[int, ...]
) -> tuple[int, ...]:
    """Shape that the seam of a piece asks for. A layer may change the width."""
    for seam, shape in WANTED.items():
        if isinstance(piece, seam):
            return tuple(shape(piece, *inputs))
    return (*inputs[0].shape[:-1], *returned[-1:])
