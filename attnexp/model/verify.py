"""Check the pieces of a model against their seams, and name the piece that an error comes from.

Shapes: B batch, T tokens, D width, H heads, K head width.
"""

import inspect
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from attnexp.base.errors import UserError
from attnexp.model import seams
from attnexp.model.classifier import Classifier

Hook = Callable[[str, nn.Module, tuple[Any, ...], Any], None]
"""Called with a module's name, the module, its arguments and what it returned."""

Shape = tuple[int | str, ...]
"""A shape; a letter stands for any number."""

PIECES = (
    *(seams.Embedding, seams.JoinedPosition, seams.Rotation, seams.ScoreBias, seams.Mixer),
    *(seams.Pooling, seams.Score, seams.Layers, seams.Mask, seams.Baseline),
)


def check_pieces(model: nn.Module, ids: Tensor) -> None:
    """Raise `UserError` where a piece of a network does not give what its seam asks for.

    ids: a few texts, (B, T). One forward pass without dropout or gradients, which leaves the model
    and the random state as they are.
    """
    if not isinstance(model, Classifier):
        return
    try:
        if model.pattern is not None:
            _check_mask(model.pattern, ids.shape[-1], ids.device)
        with _hooked(model, _check_output):
            model(ids)
    except UserError:
        raise
    except Exception as error:
        if (explained := explain(error, model)) is not None:
            raise explained from error
        raise


def explain(error: BaseException, model: nn.Module) -> UserError | None:
    """The same error with the piece that it comes from: class, seam, file and line.

    None where it comes from no piece, and where memory ran out.
    """
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return None
    layers = model.layers if isinstance(model, Classifier) else None
    within = set(layers.modules()) if layers is not None else set()
    frames = list(traceback.walk_tb(error.__traceback__))
    for index, (frame, line) in reversed([*enumerate(frames)]):
        first = frame.f_code.co_varnames[:1] if frame.f_code.co_argcount else ()
        owner = frame.f_locals.get(*first) if first else None
        piece = owner if isinstance(owner, PIECES) else None
        if piece is None and isinstance(owner, nn.Module) and owner in within:
            piece = layers
        if piece is None:
            continue
        file = frame.f_code.co_filename
        own = inspect.getsourcefile(type(piece))
        for inner, at in frames[index:]:  # the innermost line of the piece's own file
            if inner.f_code.co_filename == own:
                file, line = own, at
        return UserError(f"{_name(piece)} failed at {file}:{line}: {type(error).__name__}: {error}")
    return None


def first_not_finite(model: nn.Module, ids: Tensor) -> str | None:
    """Name of the first piece that gives a NaN or +inf for some texts, ids (B, T), in a forward
    pass without dropout: `layers.0.attention.score (mine:Score)`. None where there is none.

    -inf is left out, since a score may be hidden by it.
    """
    found = []

    def look(name: str, module: nn.Module, _given: tuple[Any, ...], output: Any) -> None:
        if isinstance(output, Tensor) and not (output < torch.inf).all():
            found.append(f"{name} ({_class_name(module)})")

    if isinstance(model, Classifier):
        with _hooked(model, look):
            model(ids)
    return found[0] if found else None


@contextmanager
def _hooked(model: Classifier, hook: Hook) -> Iterator[None]:
    """Call a hook after every piece of a forward pass; leave everything as it was."""
    modes = {module: module.training for module in model.modules()}
    handles = []
    layers = list(model.layers)
    for path, module in model.named_modules():
        if isinstance(module, PIECES) or module in layers:

            def after(module: nn.Module, given: Any, output: Any, path: str = path) -> None:
                hook(path, module, given, output)

            handles.append(module.register_forward_hook(after))
    devices = {p.device for p in model.parameters() if p.device.type == "cuda"}
    try:
        with torch.random.fork_rng(devices=devices), torch.no_grad():
            model.eval()
            yield
    finally:
        for handle in handles:
            handle.remove()
        for module, mode in modes.items():
            module.training = mode


def _check_output(
    _name_in_model: str, module: nn.Module, given: tuple[Any, ...], output: Any
) -> None:
    wanted = _wanted(module, given)
    if not isinstance(output, Tensor):
        raise UserError(f"{_name(module)} returned {type(output).__name__}, wanted a tensor.")
    shapes = " or ".join(_format(shape) for shape in wanted)
    is_bias = isinstance(module, seams.ScoreBias)  # which is added to the scores
    if not any(_fits(tuple(output.shape), shape, broadcasts=is_bias) for shape in wanted):
        raise UserError(f"{_name(module)} returned {_format(output.shape)}, wanted {shapes}.")
    if not output.is_floating_point():
        raise UserError(f"{_name(module)} returned {output.dtype}, wanted floating-point numbers.")


def _wanted(module: nn.Module, given: tuple[Any, ...]) -> list[Shape]:
    """Shapes that a piece may return for what it was given."""
    x = given[0].shape
    surroundings = getattr(module, seams.SURROUNDINGS, ())
    match module:
        case seams.Embedding():
            return [(*x, surroundings[1] if surroundings else "D")]
        case seams.JoinedPosition() | seams.Mixer():
            return [(*x[:-1], module.d_output)]
        case seams.Rotation():
            return [tuple(x)]
        case seams.Pooling():
            return [(x[0], x[-1])]
        case seams.Score():
            return [(*x[:-1], given[1].shape[-2])]
        case seams.ScoreBias():
            map_of_head = (surroundings[0] if surroundings else "H", x[-1], x[-1])
            return [map_of_head, ("B", *map_of_head)]
    return [(*x[:-1], "D")]  # a layer; its width is that of the pooling


def _check_mask(mask: seams.Mask, num_tokens: int, device: torch.device) -> None:
    place = torch.arange(num_tokens, device=device)
    seen: Any = mask(place[:, None], place[None, :])
    kind = seen.dtype if isinstance(seen, Tensor) else type(seen).__name__
    if kind is not torch.bool:
        raise UserError(f"{_name(mask)} returned {kind}, wanted torch.bool.")
    wanted = (num_tokens, num_tokens)
    if not _fits(tuple(seen.shape), wanted, broadcasts=True):
        raise UserError(f"{_name(mask)} returned {_format(seen.shape)}, wanted {_format(wanted)}.")


def _fits(shape: tuple[int, ...], wanted: Shape, *, broadcasts: bool) -> bool:
    """Whether a shape is the wanted one, or gives it when broadcast."""
    lengths = len(shape) <= len(wanted) if broadcasts else len(shape) == len(wanted)
    return lengths and all(
        isinstance(number, str) or size == number or (broadcasts and size == 1)
        for size, number in zip(reversed(shape), reversed(wanted), strict=False)
    )


def _format(shape: Any) -> str:
    return f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"


def _name(piece: object) -> str:
    """`mine.decay:Decay (ScoreBias)`."""
    seam = next(
        (c.__name__ for c in type(piece).__mro__ if c.__module__ == seams.__name__), "Layers"
    )
    return f"{_class_name(piece)} ({seam})"


def _class_name(piece: object) -> str:
    return f"{type(piece).__module__}:{type(piece).__qualname__}"
