"""Results of `attnexp probe`: `probe.json` in the folder of a run, not among its checksums."""

import json
from pathlib import Path
from typing import Any

from attnexp.base import progress
from attnexp.base.files import atomic_write, writing
from attnexp.runs import store

SCHEMA = 1
FILE = "probe.json"

ATTENTION = "attention"
"""Name of what is measured of the intact model, beside interventions."""

Results = dict[str, dict[str, Any]]
"""Results by id of intervention, code and number of texts, each with the intervention's name."""


def load(folder: Path) -> Results:
    """Stored results of a run; none if there is no file, or, with a note, if it is damaged."""
    try:
        content = (folder / FILE).read_bytes()
        tree = json.loads(content)
        store.check_seal(content, tree)
        results: Results = tree["results"]
    except FileNotFoundError:
        return {}
    except store.NOT_A_RESULT:
        progress.note(f"{folder / FILE} is damaged and left out; `attnexp probe` makes it again.")
        return {}
    return results


def save(folder: Path, results: Results) -> None:
    """Write the results of a run, whole or not at all, with their checksum."""
    with writing(folder), atomic_write(folder / FILE) as file:
        file.write(store.seal({"schema": SCHEMA, "results": results}, indent=None))
