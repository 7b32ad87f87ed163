"""Arrays of a run on disk, in a format that cannot contain code: its weights, and its predictions
for every text, enough to compare two runs text by text."""

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from attnexp.base.errors import UserError
from attnexp.base.files import atomic_write, writing
from attnexp.runs.result import Run

if TYPE_CHECKING:
    from torch import Tensor, nn

FILE, WEIGHTS = "predictions.safetensors", "model.safetensors"

BEST, FINAL, TEST = "best", "final", "test"
"""Logits, (n,) of two classes and (n, C) of more: on the validation set after its best and the last
epoch, and on the test set. Under `protocol: blog` there is no third, for the two sets are one."""

VAL_LABELS, TEST_LABELS = "val_labels", "test_labels"
"""True labels in the same order, (n,), from 0 to C - 1."""

CORRECT = "correct."
"""Prefix of arrays made by `pack`, one bit for each text of the validation set: whether the most
probable class is the true one. After it stands the number of an epoch, counted from 1."""


def save(file: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays by name, whole or not at all. Raises `UserError` where the disk refuses."""
    # safetensors writes the memory of an array, whatever its strides
    in_order = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    with writing(file), atomic_write(file) as opened:
        opened.write(safetensors.numpy.save(in_order))


def load(run: Run, name: str = FILE) -> dict[str, NDArray[Any]]:
    """Arrays in a file of a finished run, by name. Raises `UserError` if they cannot be read."""
    try:
        return safetensors.numpy.load(run.read(name))
    except SafetensorError as error:
        raise UserError(f"{run.path / name} cannot be read ({error}). Train again.") from error


def save_weights(folder: Path, weights: "Mapping[str, Tensor]") -> None:
    """Write a model's `state_dict()`, whole or not at all."""
    save(folder / WEIGHTS, {name: tensor.cpu().numpy() for name, tensor in weights.items()})


def load_weights(run: Run, model: "nn.Module") -> None:
    """Fill the model from a finished run. Raises `UserError` if it is another model's."""
    from torch import from_numpy

    try:
        model.load_state_dict({k: from_numpy(array) for k, array in load(run, WEIGHTS).items()})
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"The weights of {run.path} are not of this model ({reason}).") from error


def pack(bits: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """(n,) to bytes: eight bits each, then compressed by zlib."""
    return np.frombuffer(bytearray(zlib.compress(np.packbits(bits).tobytes())), np.uint8)


def unpack(packed: NDArray[np.uint8], n: int) -> NDArray[np.bool_]:
    """Argument of `pack`, (n,)."""
    whole = np.frombuffer(zlib.decompress(packed.tobytes()), np.uint8)
    return np.unpackbits(whole, count=n).astype(bool)


def at_endpoint(run: Run, point: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Logits, (n,) or (n, C), and true labels, (n,), of a run at `final` or `chosen`. At `best`,
    whose epoch all seeds of a variant share, no logits are stored. Raises `UserError` if the
    predictions cannot be read."""
    stored, is_test = load(run), point == "chosen"
    return stored[TEST if is_test else FINAL], stored[TEST_LABELS if is_test else VAL_LABELS]


def right_by_epoch(run: Run) -> dict[int, bytes]:
    """Which texts of the test set a run had right, as bits (`numpy.packbits`), by epoch; of a
    holdout run after the chosen epoch alone. Empty where a run has no predictions."""
    stored = load(run) if (run.path / FILE).exists() else {}
    if run.result.config["train"]["protocol"] == "holdout":
        if TEST not in stored:
            return {}
        logits, labels = stored[TEST], stored[TEST_LABELS]
        right = (logits > 0 if logits.ndim == 1 else logits.argmax(1)) == labels
        return {run.result.best.epoch: np.packbits(right).tobytes()}
    n = run.result.data["n_val"]
    return {
        int(name.removeprefix(CORRECT)): np.packbits(unpack(packed, n)).tobytes()
        for name, packed in stored.items()
        if name.startswith(CORRECT)
    }
