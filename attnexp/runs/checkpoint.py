"""Checkpoint of an unfinished run: its state at the end of an epoch."""

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from attnexp.runs import arrays

FILE = "checkpoint.safetensors"


def save(part: Path, tensors: arrays.Arrays, about: dict[str, Any]) -> None:
    """Replace the earlier checkpoint; one of the two is there whole at any time."""
    text = json.dumps(about)
    arrays.save(part / FILE, tensors, {"about": text, "sum": _sum(text, tensors)})


def load(part: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]] | None:
    """Arguments of `save`; None without a file. Raises `ValueError` for a damaged file."""
    try:
        with safe_open(part / FILE, framework="np") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            text, expected = file.metadata()["about"], file.metadata()["sum"]
    except FileNotFoundError:
        return None
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise ValueError("it is damaged") from error
    if _sum(text, tensors) != expected:
        raise ValueError("it is damaged")
    return tensors, json.loads(text)


def of_other_code(path: Path) -> Iterator[Path]:
    """Folders of unfinished runs with the same settings and data as `path` but other code."""
    settings = path.name.partition("-")[0]
    for file in sorted(path.parent.glob(f"{settings}-*.part/{FILE}")):
        if file.parent.stem != path.name:
            yield file.parent


def _sum(text: str, tensors: arrays.Arrays) -> str:
    """Checksum that detects any damage; faster than a digest, for 30 MB after every epoch."""
    total = zlib.crc32(text.encode())
    for name, tensor in sorted(tensors.items()):
        total = zlib.crc32(np.ascontiguousarray(tensor).data, zlib.crc32(name.encode(), total))
    return f"{total:08x}"
