"""Arrays of a run on disk, in a format that holds no code: weights, and predictions by text."""

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from attnexp.base.files import atomic_write, reading
from attnexp.runs.result import Run

FILE = "predictions.safetensors"
WEIGHTS = "model.safetensors"

OWN_BEST, FINAL, TEST = "best", "final", "test"
"""Logits, (n,) of two classes and (n, C) of more: on the validation set after the run's best and
its last epoch, and on the test set. Under `protocol: blog` there is no third: the sets are one."""

VAL_LABELS, TEST_LABELS = "val_labels", "test_labels"
"""True labels in the same order, (n,), from 0 to C - 1."""

CORRECT = "correct."
"""Prefix of arrays made by `pack_and_compress`, a bit for each text of the validation set: whether
the most probable class is the true one. After it stands the number of an epoch, counted from 1."""


def save_arrays(file: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays by name, whole or not at all."""
    # safetensors writes the memory of an array, whatever its strides.
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    with atomic_write(file) as opened:
        opened.write(safetensors.numpy.save(contiguous))


def load_arrays(run: Run, name: str) -> dict[str, NDArray[Any]]:
    """Arrays of a file of a run, by name. Raises `UserError` if they cannot be read."""
    with reading(run.path / name, "Train again."):
        return safetensors.numpy.load((run.path / name).read_bytes())


def pack_and_compress(bits: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Bits (n,) as bytes: eight each by `numpy.packbits`, then compressed by zlib."""
    content = zlib.compress(np.packbits(bits).tobytes())
    return np.frombuffer(bytearray(content), np.uint8)  # Torch warns of memory that is read-only.


def unpack_bits(packed: bytes, num_texts: int) -> NDArray[np.bool_]:
    """Bits (n,) from the bytes of `numpy.packbits`, as `read_answers` returns them."""
    return np.unpackbits(np.frombuffer(packed, np.uint8), count=num_texts).astype(bool)


def at_endpoint(run: Run, point: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Logits, (n,) or (n, C), and true labels, (n,), at `final` or `chosen`. None are stored at
    `best`, one epoch for all seeds: KeyError. Raises `UserError` if they cannot be read."""
    logits, labels = {"final": (FINAL, VAL_LABELS), "chosen": (TEST, TEST_LABELS)}[point]
    with reading(run.path / FILE, "Train again."):  # An array may be missing.
        arrays = load_arrays(run, FILE)
        return arrays[logits], arrays[labels]


def most_probable(logits: Any) -> Any:
    """The class that arrays or tensors of logits (n,) or (n, C) find most probable; of equals the
    first, so a probability of 0.5 counts as class 0. Returns (n,). A change raises `SCHEMA`."""
    return logits > 0 if logits.ndim == 1 else logits.argmax(-1)


def read_answers(run: Run) -> tuple[dict[int, bytes], bytes]:
    """Which texts of the test set a run had right, by epoch (of a holdout run after the chosen one
    alone), and which are of its largest class, as bits (`numpy.packbits`). Empty where a run has no
    predictions; raises `UserError` if they cannot be read."""
    if not (run.path / FILE).exists():
        return {}, b""
    with reading(run.path / FILE, "Train again."):  # An array may be missing.
        arrays = load_arrays(run, FILE)
        if TEST in arrays:
            labels = arrays[TEST_LABELS]
            is_right = most_probable(arrays[TEST]) == labels
            right = {run.result.own_best.epoch: np.packbits(is_right).tobytes()}
        else:
            labels = arrays[VAL_LABELS]
            right = {}
            for name, packed in arrays.items():
                if name.startswith(CORRECT):
                    epoch = int(name.removeprefix(CORRECT))
                    right[epoch] = zlib.decompress(packed.tobytes())
        is_largest = labels == np.bincount(labels.astype(int)).argmax()
        return right, np.packbits(is_largest).tobytes()
