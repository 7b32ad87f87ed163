"""What a run's models said of every text: enough to compare two runs text by text."""

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnexp.base.errors import UserError
from attnexp.runs import arrays
from attnexp.runs.result import Run

FILE = "predictions.safetensors"

BEST, FINAL, TEST = "best", "final", "test"
"""Logits, (n,) of two classes and (n, C) of more: on the validation set after its best and the last
epoch, and on the test set. Under `protocol: blog` there is no third, for the two sets are one."""

VAL_LABELS, TEST_LABELS = "val_labels", "test_labels"
"""(n,), 0 to C - 1: the truth in the same order."""

CORRECT = "correct."
"""Prefix of arrays made by `pack`, one bit for each text: whether the most probable class is the
true one. After it stands the number of an epoch, counted from 1 (on the validation set), or, in the
published copy of a run, which has neither logits nor labels, `chosen` (on the test set). Older
copies have `peak`, the run's own best epoch, and `final`."""


def save(run_dir: Path, predicted: Mapping[str, NDArray[Any]]) -> None:
    """Write logits and labels by the names above, whole or not at all."""
    arrays.save(run_dir / FILE, predicted)


def pack(bits: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """(n,) to bytes: eight bits each, then compressed by zlib."""
    return np.frombuffer(zlib.compress(np.packbits(bits).tobytes(), level=9), np.uint8)


def unpack(packed: NDArray[np.uint8], n: int) -> NDArray[np.bool_]:
    """What `pack` was given: (n,). Raises `UserError` for anything else."""
    try:
        whole = np.frombuffer(zlib.decompress(packed.tobytes()), np.uint8)
    except zlib.error:
        raise UserError(
            "What a run had right was published by another attnexp, uncompressed. Publish it "
            "again: python docs/publish.py outputs/STUDY."
        ) from None
    return np.unpackbits(whole, count=n).astype(bool)


def load(run: Run) -> dict[str, NDArray[Any]]:
    """Those of a finished run. Raises `UserError` when they are not to be had."""
    return arrays.load(run.path / FILE, run.read(FILE))
