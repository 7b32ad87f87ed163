"""Check the pieces of a model against their seams.

Shapes: B batch, T tokens, D width, H heads, K head width.
"""

import copy
from contextlib import ExitStack, suppress
from typing import Any, NoReturn

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnexp.base.errors import UserError
from attnexp.model import seams
from attnexp.model.scores import grid
from attnexp.network.classifier import PAD, Classifier
from attnexp.network.guard import name_piece

PIECES = (seams.Embedding, seams.JoinedPosition, seams.Rotation, seams.ScoreBias, seams.Mask,
          seams.Mixer, seams.Pooling, seams.Score, seams.Layers,
          seams.Network, seams.Baseline)  # fmt: skip
"""Every seam; a layer within `Layers` fills none itself."""
TOLERANCE = 1e-3  # largest difference, as a share of the largest number, that passes as rounding


def check_pieces(model: nn.Module, ids: Tensor) -> None:
    """Raise `UserError` where what a piece of a network gives for ids (B, T) has not the shape and
    type that its seam asks for, differs between two passes of evaluation, or from what it is for
    each text alone, and where a piece changes its input, or what is stored of the model."""
    if not isinstance(model, Classifier | seams.Network):
        return
    devices = [ids.device] if ids.is_cuda else []
    with torch.random.fork_rng(devices):
        _check_mask(model, ids)
        stored = copy.deepcopy(model.state_dict())
        first = _outputs(model, ids)
        alone = [_outputs(model, text[None]) for text in ids]
        second = _outputs(model, ids)
    for i, (piece, output) in enumerate(first):
        _, repeated = second[i]
        _refuse_chance(piece, output, repeated)
        if output.ndim == 2 and isinstance(piece, seams.Embedding):
            continue  # `pool_words` asks ours for the words of a batch, which are in no text
        outputs_alone = [outputs[i][1] for outputs in alone]
        _refuse_mixing(piece, output, outputs_alone)
    _refuse_changes(model, stored)


def check_logits(model: nn.Module, ids: Tensor, num_classes: int) -> None:
    """Raise `UserError` where a model gives no finite logits, (B,) or (B, C), for texts, (B, T), or
    others for a text in a batch than for it alone."""
    wanted_shape = _logits_shape(ids, num_classes)
    with torch.no_grad():
        logits = model.eval()(ids)
        _check_tensor(model, logits)
        if logits.shape != wanted_shape:
            _refuse_shape(model, logits, wanted_shape)
        if not logits.isfinite().all():
            raise UserError(f"{name_piece(model)} returned logits that are not finite.")
        alone = [model(text[None]) for text in ids]
        _refuse_chance(model, logits, model(ids))
        _refuse_mixing(model, logits, alone)


def _logits_shape(ids: Tensor, num_classes: int) -> tuple[int, ...]:
    """Shape of the logits for ids (B, T)."""
    return (len(ids),) if num_classes == 2 else (len(ids), num_classes)


def differ(output: Tensor, expected: Tensor) -> bool:
    """Whether two outputs differ beyond rounding."""
    finite = expected.detach().nan_to_num(0.0, 0.0, 0.0)
    largest = float(finite.abs().amax())
    tolerance = TOLERANCE * largest
    return not torch.allclose(output, expected, rtol=0.0, atol=tolerance, equal_nan=True)


def _check_mask(model: nn.Module, ids: Tensor) -> None:
    """Raise `UserError` where a mask, if any, does not fit its seam or leaves a query no key."""
    if not isinstance(model, Classifier) or model.pattern is None:
        return
    mask = model.pattern
    place = grid(ids.shape[-1], ids.device)
    pattern = mask(*place)
    _check_output(mask, place, pattern)
    place = grid(ids.shape[-1], ids.device)  # anew: it may change what it gets
    repeated = mask(*place)
    _refuse_chance(mask, pattern.float(), repeated.float())
    is_padding = F.pad(ids == PAD, (0, 0, 0, 1))  # with a text that is full
    allowed: Any = model.allowed(is_padding)
    sees_a_key = allowed.any(-1).squeeze(1)  # (B + 1 or 1, T)
    is_blind = ~sees_a_key & ~is_padding
    if is_blind.any():
        positions = is_blind.any(0).nonzero()
        position = int(positions[0])
        raise UserError(
            f"{name_piece(mask)} leaves the query at position {position} no key to see. True means "
            f"that the query may see the key; in torch.nn it may mean the opposite."
        )


def _refuse_changes(model: nn.Module, stored: dict[str, Any]) -> None:
    """Raise `UserError` where evaluation changed what is stored of a model."""
    for name, value in model.state_dict().items():
        if not isinstance(value, Tensor):
            continue
        value = value.nan_to_num()
        first = stored.get(name, value)
        before = first.nan_to_num()
        if not torch.equal(value, before):
            raise UserError(f"{name} changes in evaluation. Change it where self.training is true.")


def _refuse_chance(piece: object, output: Tensor, repeated: Tensor) -> None:
    """Raise `UserError` where two passes over the same texts differ."""
    if differ(output, repeated):
        raise UserError(
            f"{name_piece(piece)} draws at random in evaluation, or keeps state: two passes over "
            f"the same texts differ. Do so only where self.training is true, as nn.Dropout does."
        )


def _refuse_mixing(piece: nn.Module, output: Tensor, alone: list[Tensor]) -> None:
    """Raise `UserError` where an output for a batch differs from those for each text alone."""
    is_bias = isinstance(piece, seams.ScoreBias)
    is_shared = is_bias and (output.ndim < 4 or len(output) == 1)
    if is_shared:
        is_mixed = any(differ(output, output_alone) for output_alone in alone)
    else:  # together: of a logit near 0 rounding is a large share
        is_mixed = differ(output, torch.cat(alone))
    if is_mixed:
        raise UserError(
            f"{name_piece(piece)} mixes the texts of a batch: dimension 0 of its input is those."
        )


def _outputs(model: nn.Module, ids: Tensor) -> list[tuple[nn.Module, Tensor]]:
    """Every piece and layer with what it gives, in a forward pass without dropout or gradients.
    Raises `UserError` where that does not fit, and where a piece changes its input."""
    outputs: list[tuple[nn.Module, Tensor]] = []
    inputs_before: dict[nn.Module, list[Tensor]] = {}

    def real_inputs(inputs: Any) -> list[Tensor]:
        """Those that hold real numbers: ids, masks and positions are copies already."""
        tensors = [x for x in inputs if isinstance(x, Tensor)]
        return [x for x in tensors if x.is_floating_point()]

    def before(module: nn.Module, inputs: Any) -> None:
        inputs_before[module] = [x.clone() for x in real_inputs(inputs)]

    def after(module: nn.Module, inputs: Any, output: Any) -> None:
        inputs_after = real_inputs(inputs)
        for x, x_before in zip(inputs_after, inputs_before.pop(module), strict=True):
            if not torch.equal(x.nan_to_num(), x_before.nan_to_num()):
                raise UserError(
                    f"{name_piece(module)} changes its input in place. Let it make a new tensor, "
                    f"as by x = x + y in place of x += y."
                )
        _check_output(module, inputs, output)
        outputs.append((module, output))

    checked = [model]  # a network is one piece, whatever it is made of
    if isinstance(model, Classifier):
        checked = [m for m in model.modules() if isinstance(m, PIECES) or m in model.layers]
    with ExitStack() as stack, torch.no_grad():
        for module in checked:
            stack.enter_context(module.register_forward_pre_hook(before))
            stack.enter_context(module.register_forward_hook(after))
        stack.callback(model.train, model.training)
        model.eval()(ids)
    return outputs


def _check_output(piece: Any, inputs: Any, output: Any) -> None:
    """Raise `UserError` where an output has not the shape and type that the seam asks for."""
    _check_tensor(piece, output)
    shape: tuple[int, ...] = tuple(output.shape)
    wanted_shape = _wanted_shape(piece, inputs, shape)
    if isinstance(piece, seams.ScoreBias | seams.Mask):  # which broadcast to the scores
        with suppress(RuntimeError):
            shape = torch.broadcast_shapes(shape, wanted_shape)
            shape = shape[-len(wanted_shape) :]  # they may have a batch in front
    if shape != wanted_shape:
        _refuse_shape(piece, output, wanted_shape)
    dtype = torch.bool if isinstance(piece, seams.Mask) else torch.float32
    if output.dtype is not dtype:
        raise UserError(f"{name_piece(piece)} returned {output.dtype}, wanted {dtype}.")


def _refuse_shape(piece: Any, output: Tensor, wanted_shape: tuple[int, ...]) -> NoReturn:
    shape = tuple(output.shape)
    wanted = str(wanted_shape)
    if isinstance(piece, seams.Network) and len(wanted_shape) == 1:
        wanted += f" or {(*wanted_shape, 2)}"
    raise UserError(f"{name_piece(piece)} returned {shape}, wanted {wanted}.")


def _check_tensor(piece: Any, output: Any) -> None:
    """Raise `UserError` where what a piece returned is no tensor."""
    if not isinstance(output, Tensor):
        name = type(output).__name__
        raise UserError(f"{name_piece(piece)} returned {name}, wanted a tensor.")


def _wanted_shape(piece: Any, inputs: Any, returned: tuple[int, ...]) -> tuple[int, ...]:
    """Shape that a piece returns for what it is given. A layer may change the width."""
    x = inputs[0]
    *before_last, last = x.shape
    surroundings: Any = getattr(piece, "surroundings", None)
    match piece:
        case seams.Embedding():
            _, d_model = surroundings
            return (*x.shape, d_model)
        case seams.JoinedPosition() | seams.Mixer():
            return (*before_last, piece.d_output)
        case seams.Rotation():
            return tuple(x.shape)
        case seams.ScoreBias():
            (num_heads,) = surroundings
            return (num_heads, last, last)  # of positions (T,) or (B, T)
        case seams.Mask():
            return (len(x), len(x))
        case seams.Pooling():
            return (len(x), last)
        case seams.Score():
            num_keys = inputs[1].shape[-2]
            return (*before_last, num_keys)
        case seams.Network():
            *_, num_classes = surroundings
            return _logits_shape(x, num_classes)
    return (*before_last, *returned[-1:])
