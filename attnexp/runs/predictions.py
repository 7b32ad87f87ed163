"""Predictions of a run for every text, enough to compare two runs text by text."""

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnexp.runs import arrays
from attnexp.runs.result import Run

FILE = "predictions.safetensors"

BEST, FINAL, TEST = "best", "final", "test"
"""Logits, (n,) of two classes and (n, C) of more: on the validation set after its best and the last
epoch, and on the test set. Under `protocol: blog` there is no third, for the two sets are one."""

VAL_LABELS, TEST_LABELS = "val_labels", "test_labels"
"""True labels in the same order, (n,), from 0 to C - 1."""

CORRECT = "correct."
"""Prefix of arrays made by `pack`, one bit for each text: whether the most probable class is the
true one. After it stands the number of an epoch, counted from 1 (on the validation set), or, in the
published copy of a run, which has neither logits nor labels, `chosen` (on the test set)."""


def save(run_dir: Path, predicted: Mapping[str, NDArray[Any]]) -> None:
    """Write logits and labels by the names above, whole or not at all."""
    arrays.save(run_dir / FILE, predicted)


def pack(bits: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """(n,) to bytes: eight bits each, then compressed by zlib."""
    return np.frombuffer(zlib.compress(np.packbits(bits).tobytes(), level=9), np.uint8)


def unpack(packed: NDArray[np.uint8], n: int) -> NDArray[np.bool_]:
    """Argument of `pack`, (n,)."""
    whole = np.frombuffer(zlib.decompress(packed.tobytes()), np.uint8)
    return np.unpackbits(whole, count=n).astype(bool)


def load(run: Run) -> dict[str, NDArray[Any]]:
    """Predictions of a finished run. Raises `UserError` if they are missing or damaged."""
    return arrays.load(run.path / FILE, run.read(FILE))


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
    return {
        int(name.removeprefix(CORRECT)): np.packbits(unpack(packed, run.result.data["n_val"])).tobytes()
        for name, packed in stored.items()
        if name.startswith(CORRECT)
    }
