"""Keras's `imdb.npz`, read without trusting it.

The file holds object arrays, which NumPy stores as pickles; `numpy.load(allow_pickle=True)` would
run whatever such a pickle asks for. Here the pickle may rebuild arrays and nothing else, and none
that is larger than the bytes it is made of.
"""

import math
import pickle
import re
import reprlib
import zipfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from attnexp.base.errors import UserError

ARRAYS = ("x_train", "y_train", "x_test", "y_test")


def load(path: Path) -> dict[str, tuple[list[NDArray[np.int32]], NDArray[Any]]]:
    """Word ranks (one array a review, 1 = most frequent) and labels (n,), by split.

    Raises `UserError` for a missing or unsafe array or rows that are not word ranks, and
    `zipfile.BadZipFile` for a damaged archive.
    """
    with zipfile.ZipFile(path) as archive:
        held = [name.removesuffix(".npy") for name in archive.namelist()]
        if missing := [name for name in ARRAYS if name not in held]:
            raise UserError(
                f"{path} has no array {', '.join(missing)}; it holds {', '.join(held) or 'none'}. "
                f"Keras's imdb.npz holds {', '.join(ARRAYS)}."
            )
        contents = {name: archive.read(f"{name}.npy") for name in ARRAYS}
    arrays = {name: _array(content, f"{name} in {path}") for name, content in contents.items()}
    return {
        split: (
            _ranks(arrays[x], f"{x} in {path}", num_bytes=len(contents[x])),
            arrays[f"y_{split}"],
        )
        for split in ("train", "test")
        for x in [f"x_{split}"]
    }


def _array(content: bytes, where: str) -> NDArray[Any]:
    file = BytesIO(content)
    try:
        old = npy.read_magic(file) == (1, 0)
        header = npy.read_array_header_1_0(file) if old else npy.read_array_header_2_0(file)
        shape, _, dtype = header
        _check_shape(shape, len(content))
        if dtype.hasobject:
            array = _ArrayUnpickler(file, encoding="latin1").load()
        else:
            file.seek(0)
            array = npy.read_array(file, allow_pickle=False)
    except UserError as error:
        raise UserError(f"{where} {error}") from None
    except Exception as error:  # a malformed pickle may raise anything
        raise UserError(f"{where} is damaged ({error}). Fetch the file again.") from None
    if not isinstance(array, np.ndarray) or array.ndim == 0:
        raise UserError(f"{where} is not an array of reviews or labels. Fetch the file again.")
    return array


def _check_shape(shape: Sequence[int], num_bytes: int) -> None:
    """Raise `UserError` for more numbers, or more rows of none, than there are bytes for."""
    if min(shape, default=0) < 0 or max(math.prod(shape), *shape[:1], 0) > num_bytes:
        raise UserError(
            f"says it is of shape {tuple(shape)}, but holds {num_bytes} bytes. Fetch the file "
            f"again."
        )


def _ranks(array: NDArray[Any], where: str, *, num_bytes: int) -> list[NDArray[np.int32]]:
    rows: list[NDArray[np.int32]] = []
    total = 0
    for index, row in enumerate(array):
        ranks = _as_ranks(row)
        if ranks is None:
            raise UserError(
                f"{where}, row {index} is not a list of word ranks (whole numbers from 0): "
                f"{reprlib.repr(row)}. Keras's imdb.npz has word ranks only."
            )
        total += len(ranks)
        if total > num_bytes:  # a pickle may name one row many times
            raise UserError(
                f"{where}: its {num_bytes} bytes unfold to more ranks than bytes. Do not trust "
                f"this file: fetch Keras's imdb.npz again."
            )
        rows.append(ranks)
    return rows


def _as_ranks(row: Any) -> NDArray[np.int32] | None:
    """A row as it is kept; None where it holds anything but whole numbers from 0."""
    # Types come first: lists within lists may unfold without end.
    if not isinstance(row, np.ndarray) and not (
        isinstance(row, list) and set(map(type, row)) <= {int}
    ):
        return None
    try:
        ranks = np.asarray(row)
    except OverflowError:
        return None
    if ranks.size == 0 and ranks.ndim == 1:  # an empty list comes out as float
        return np.zeros(0, np.int32)
    if ranks.ndim != 1 or ranks.dtype.kind not in "iu":
        return None
    in_range = ranks.min() >= 0 and ranks.max() <= np.iinfo(np.int32).max
    return ranks.astype(np.int32) if in_range else None


def _latin1(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise UserError(f"asks for the codec {encoding!r}, which word ranks do not need.")
    return text.encode("latin1")


class _Kind:
    """Stands for `numpy.dtype`: a kind of number, or objects."""

    def __init__(self, name: str, *_: Any) -> None:
        if not re.fullmatch(r"[biufO]\d?", name):
            raise UserError(f"holds {reprlib.repr(name)}, where word ranks are whole numbers.")
        self.dtype = np.dtype(name)

    def __setstate__(self, state: Sequence[Any]) -> None:
        self.dtype = self.dtype.newbyteorder(state[1])


class _Array(np.ndarray[Any, np.dtype[Any]]):
    """Stands for `numpy.ndarray`, and is as large as the data that fill it."""

    def __setstate__(self, state: Sequence[Any], /) -> None:
        _, shape, kind, in_fortran_order, data = state
        _check_shape(shape, len(data))
        super().__setstate__((1, shape, kind.dtype, in_fortran_order, data))


def _reconstruct(*_: Any) -> _Array:
    return _Array(0, np.int8)


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): "an argument of _reconstruct, and not to be called",
    ("numpy", "dtype"): _Kind,
    ("_codecs", "encode"): _latin1,
}


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise UserError(
                f"asks to run {module}.{name}, which word ranks do not need; nothing was run. "
                f"Do not trust this file: fetch Keras's imdb.npz again."
            )
        return _ALLOWED[module, name]
