"""What a run's models said of every review: enough to compare two runs review by review."""

from pathlib import Path
from typing import Any

import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from attnexp.errors import UserError
from attnexp.files import atomic_write

FILE = "predictions.safetensors"

BEST, FINAL, TEST = "best", "final", "test"
"""Logits (n,) on the validation set after its best and the last epoch, and on the test set. Under
`protocol: blog` there is no third, for the two sets are one."""

VAL_LABELS, TEST_LABELS = "val_labels", "test_labels"
"""(n,), 0 or 1: the truth in the same order."""


def save(run_dir: Path, arrays: dict[str, NDArray[Any]]) -> None:
    """Write the arrays by the names above, whole or not at all."""
    with atomic_write(run_dir / FILE) as file:
        file.write(safetensors.numpy.save(arrays))


def load(run_dir: Path) -> dict[str, NDArray[Any]]:
    """What `save` wrote. Raises `UserError` when that cannot be read."""
    path = run_dir / FILE
    try:
        return safetensors.numpy.load_file(path)
    except (SafetensorError, OSError) as error:
        raise UserError(
            f"{path} cannot be read ({error}). Delete its folder and run again."
        ) from error
