"""Results of `attnexp probe`: `probe.json` in the folder of a run."""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np

from attnexp.base import progress
from attnexp.base.files import atomic_write
from attnexp.runs import predictions, store

SCHEMA = 2
FILE = "probe.json"

ATTENTION = "attention"
"""Name of what is measured of the intact model, beside interventions."""

Results = dict[str, dict[str, Any]]
"""Results by id of intervention, code and number of texts, each with the intervention's name."""

TEXTS = ("won", "lost")
"""What a result lists as numbers of texts; in the file, a bit for each text of the test set."""


def load(folder: Path) -> Results:
    """Stored results of a run; none if there is no file, or, with a note, if it is damaged."""
    try:
        tree = json.loads((folder / FILE).read_bytes())
        if tree["schema"] != SCHEMA:
            return {}
        results: Results = tree["results"]
    except FileNotFoundError:
        return {}
    except store.NOT_A_RESULT:
        progress.note(f"{folder / FILE} is damaged and left out; `attnexp probe` makes it again.")
        return {}
    for result in results.values():
        result |= {key: _texts(result[key], result["n"]) for key in TEXTS if key in result}
    return results


def save(folder: Path, results: Results) -> None:
    """Write the results of a run, whole or not at all."""
    packed = {
        id: result | {key: _bits(result[key], result["n"]) for key in TEXTS if key in result}
        for id, result in results.items()
    }
    with atomic_write(folder / FILE) as file:
        file.write(json.dumps({"schema": SCHEMA, "results": packed}).encode())


def _bits(texts: list[int], n: int) -> str:
    """Numbers of texts out of n as bits, packed and in base64."""
    packed = predictions.pack(np.isin(np.arange(n), texts))
    return base64.b64encode(packed.tobytes()).decode()


def _texts(bits: str, n: int) -> list[int]:
    """What `_bits` packed."""
    packed = np.frombuffer(base64.b64decode(bits), np.uint8)
    return np.flatnonzero(predictions.unpack(packed, n)).tolist()
