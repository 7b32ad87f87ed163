"""Keras's `imdb.npz`, read without trusting it.

The file holds object arrays, which NumPy stores as pickles; `numpy.load(allow_pickle=True)` would
run whatever such a pickle asks for. Here the pickle may rebuild arrays and nothing else.
"""

import pickle
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from attnexp.errors import UserError

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
        arrays = {name: _array(archive.read(f"{name}.npy"), f"{name} in {path}") for name in ARRAYS}
    return {
        split: (_ranks(arrays[f"x_{split}"], f"x_{split} in {path}"), arrays[f"y_{split}"])
        for split in ("train", "test")
    }


def _array(content: bytes, where: str) -> NDArray[Any]:
    file = BytesIO(content)
    try:
        old = npy.read_magic(file) == (1, 0)
        *_, dtype = npy.read_array_header_1_0(file) if old else npy.read_array_header_2_0(file)
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


def _ranks(array: NDArray[Any], where: str) -> list[NDArray[np.int32]]:
    rows = []
    for index, row in enumerate(array):
        ranks = np.asarray(row)
        if ranks.size == 0:  # an empty list comes out as float
            ranks = np.zeros(0, np.int32)
        if ranks.ndim != 1 or ranks.dtype.kind not in "iu" or not _in_range(ranks):
            raise UserError(
                f"{where}, row {index} is not a list of word ranks (whole numbers from 0): "
                f"{str(row)[:60]}. Keras's imdb.npz has word ranks only."
            )
        rows.append(ranks.astype(np.int32))
    return rows


def _in_range(ranks: NDArray[Any]) -> bool:
    return ranks.size == 0 or bool(ranks.min() >= 0 and ranks.max() <= np.iinfo(np.int32).max)


def _latin1(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise UserError(f"asks for the codec {encoding!r}, which word ranks do not need.")
    return text.encode("latin1")


_RECONSTRUCT = np.zeros(0).__reduce__()[0]  # its module is private and moved between versions
_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
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
