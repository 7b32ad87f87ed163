"""Arrays on disk, in a format that holds numbers and nothing that runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from attnexp.base.errors import UserError
from attnexp.base.files import atomic_write, writing

Arrays = Mapping[str, NDArray[Any]]

T = TypeVar("T")


def save(path: Path, arrays: Arrays, about: dict[str, str] | None = None) -> None:
    """Write arrays by name, whole or not at all. about: said of them in the file's head.

    Raises `UserError` where the disk refuses.
    """
    whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    with writing(path), atomic_write(path) as file:
        file.write(safetensors.numpy.save(whole, about))


def load(path: Path, content: bytes) -> dict[str, NDArray[Any]]:
    """What `save` wrote to `path`, from its content. Raises `UserError` for anything else."""
    try:
        return safetensors.numpy.load(content)
    except SafetensorError as error:
        raise UserError(
            f"{path} cannot be read ({error}). Delete its folder and run again."
        ) from error


def under(prefix: str, named: Mapping[str, T]) -> dict[str, T]:
    """Those whose name begins with the prefix, without it."""
    return {k.removeprefix(prefix): v for k, v in named.items() if k.startswith(prefix)}
