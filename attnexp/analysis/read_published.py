"""Published studies: files of `docs/publish.py`, one row a run and epoch."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from attnexp.base.errors import UserError
from attnexp.runs.manifest import Manifest, PlannedRun

METADATA = b"attnexp"
"""Key of what a file holds besides its rows: the study, and what runs of a variant share."""


def load_published(file: Path) -> tuple[list[dict[str, Any]], Manifest]:
    """Epochs and study of a published file. An epoch has its columns, label, declared (as in `Run`)
    and `shared`: config, code, parameters and facts of the data. Raises `UserError` for another
    file."""
    table = pq.read_table(file)
    text = (table.schema.metadata or {}).get(METADATA)
    if text is None:
        raise UserError(f"{file} is no published study. For results of your own: attnexp judge.")
    tree = json.loads(text)
    shared = {}
    for entry in tree["shared"]:
        place = (entry["data"]["name"], entry["config"]["train"]["protocol"], entry["variant"])
        shared[place] = entry
    rows = table.rename_columns({"variant": "label"}).to_pylist()
    for row in rows:
        row["shared"] = shared[row["data"], row["protocol"], row["label"]]
        row["declared"] = tree["declaration"] is not None
    return rows, _study(tree)


def _study(tree: dict[str, Any]) -> Manifest:
    return Manifest(
        variants=tree["variants"],
        settings=tree.get("settings", {}),
        seed_kind=tree.get("seed_kind", "seed"),
        runs=[PlannedRun(variant=label, seed=seed, run_id="") for label, seed in tree["planned"]],
        added_seeds=tree.get("added_seeds", []),
    )
