"""Published studies: files of `docs/publish.py`, one row a run and epoch."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from attnexp.analysis.naming import kind_of_seeds
from attnexp.base.errors import UserError
from attnexp.runs.manifest import Manifest, PlannedRun

METADATA = b"attnexp"
"""Key of what a file holds besides its rows: the study, and what runs of a variant share."""


def load_published(file: Path, study: str) -> tuple[list[dict[str, Any]], Manifest]:
    """Rows of a published file, as `read_runs.make_rows` gives those of a run, and its study, whose
    key is `study`. Raises `UserError` for another file."""
    table = pq.read_table(file)
    text = (table.schema.metadata or {}).get(METADATA)
    if text is None:
        raise UserError(f"{file} is no published study. For results of your own: attnexp judge.")
    tree = json.loads(text)
    of_study = {"study": study, "declared": tree["declaration"] is not None}
    of_study |= {"default_label": "", "num_departures": 0, "folder": None}
    shared = {}
    for entry in tree["shared"]:
        about = describe_run(entry["config"], entry["data"]) | of_study
        about |= {key: entry[key] for key in ("code", "parameters")}
        shared[entry["data"]["name"], about["protocol"], entry["variant"]] = about
    rows = table.rename_columns({"variant": "label"}).to_pylist()
    runs = [PlannedRun(variant=label, seed=seed, run_id="") for label, seed in tree["planned"]]
    keys = {"variants", "settings", "seed_kind", "added_seeds"} & tree.keys()
    manifest = Manifest(**{key: tree[key] for key in keys}, runs=runs)
    return [row | shared[row["data"], row["protocol"], row["label"]] for row in rows], manifest


def describe_run(config: dict[str, Any], facts: dict[str, Any]) -> dict[str, Any]:
    """What a config and the facts of its data say of a run."""
    return {
        "config": config,
        "protocol": config["train"]["protocol"],
        "seed_kind": kind_of_seeds(config),
        "facts": facts,
        "fingerprint": facts["fingerprint"],
        "n_test": facts["n_test"],
        "vectors": facts.get("vectors"),
    }
