"""NumPy arrays on disk, in a format that holds numbers and nothing that runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from attnexp.errors import UserError
from attnexp.files import atomic_write


def save(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays by name, whole or not at all."""
    with atomic_write(path) as file:
        file.write(safetensors.numpy.save(dict(arrays)))


def load(path: Path) -> dict[str, NDArray[Any]]:
    """What `save` wrote. Raises `UserError` when that cannot be read."""
    try:
        return safetensors.numpy.load_file(path)
    except (SafetensorError, OSError) as error:
        raise UserError(
            f"{path} cannot be read ({error}). Delete its folder and run again."
        ) from error
