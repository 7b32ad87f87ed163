"""What `attnexp probe` found of a run: `probe.json` in its folder, no part of its checksums."""

import json
from pathlib import Path
from typing import Any

from attnexp.base import progress
from attnexp.base.files import atomic_write, writing
from attnexp.runs import store
from attnexp.runs.result import digest

SCHEMA = 1
FILE = "probe.json"

ATTENTION = "attention"
"""Name of what is measured of the intact model, beside interventions."""

Results = dict[str, dict[str, Any]]
"""Results by id of intervention, code and number of texts, each with the intervention's name."""


def load(folder: Path) -> Results:
    """What is stored of a run; nothing where the file is absent, or damaged, which is told."""
    try:
        tree = json.loads((folder / FILE).read_text())
        if tree.pop("sha256") != digest(json.dumps(tree).encode()):
            raise ValueError
        results: Results = tree["results"]
    except FileNotFoundError:
        return {}
    except store.NOT_A_RESULT:
        progress.note(f"{folder / FILE} is damaged and left out; `attnexp probe` makes it again.")
        return {}
    return results


def save(folder: Path, results: Results) -> None:
    """Write what is stored of a run, whole or not at all, with its checksum."""
    tree = {"schema": SCHEMA, "results": results}
    tree["sha256"] = digest(json.dumps(tree).encode())
    with writing(folder), atomic_write(folder / FILE) as file:
        file.write(json.dumps(tree).encode())
