"""Arrays and weights on disk, in a format that cannot contain code."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from attnexp.base.errors import UserError
from attnexp.base.files import atomic_write, writing
from attnexp.runs.result import Run

if TYPE_CHECKING:
    from torch import Tensor, nn

WEIGHTS = "model.safetensors"

Arrays = Mapping[str, NDArray[Any]]

T = TypeVar("T")


def save(path: Path, arrays: Arrays, about: dict[str, str] | None = None) -> None:
    """Write named arrays atomically. about: texts for the file's header.

    Raises `UserError` where the disk refuses.
    """
    whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    with writing(path), atomic_write(path) as file:
        file.write(safetensors.numpy.save(whole, about))


def load(path: Path, content: bytes) -> dict[str, NDArray[Any]]:
    """Arrays that `save` wrote, from the file's content. Raises `UserError` if it is damaged."""
    try:
        return safetensors.numpy.load(content)
    except SafetensorError as error:
        raise UserError(
            f"{path} cannot be read ({error}). Delete its folder and run again."
        ) from error


def under(prefix: str, named: Mapping[str, T]) -> dict[str, T]:
    """Items whose name begins with the prefix, which is removed."""
    return {k.removeprefix(prefix): v for k, v in named.items() if k.startswith(prefix)}


def save_weights(run_dir: Path, weights: "Mapping[str, Tensor]") -> None:
    """Write a model's `state_dict()`, whole or not at all."""
    save(run_dir / WEIGHTS, {name: tensor.cpu().numpy() for name, tensor in weights.items()})


def load_weights(run: Run, model: "nn.Module") -> None:
    """Fill the model from a finished run. Raises `UserError` when that cannot be done."""
    from torch import from_numpy

    path = run.path / WEIGHTS
    found = load(path, run.read(WEIGHTS))
    try:
        model.load_state_dict({name: from_numpy(array) for name, array in found.items()})
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{path} does not hold this run's weights ({reason}).") from error
