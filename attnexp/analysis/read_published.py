"""Published studies: files of `docs/publish.py`, one row a run and epoch."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from attnexp.analysis.naming import kind_of_seeds
from attnexp.base.files import reading
from attnexp.runs.manifest import Manifest, PlannedRun

METADATA = b"attnexp"
"""Key of what a file holds besides its rows: the study, and what runs of a variant share."""


def load_published(file: Path, study: str) -> tuple[list[dict[str, Any]], Manifest]:
    """Rows of a published file, as `read_runs.make_rows` gives those of a run, and its study, whose
    key is `study`. Raises `UserError` for another file."""
    with reading(file, "For results of your own: attnexp judge."):
        table = pq.read_table(file)
        tree = json.loads((table.schema.metadata or {})[METADATA])
        rows, manifest = _unpack(table, tree, study)
        check_answers(rows)
    return rows, manifest


def _unpack(
    table: pa.Table, tree: dict[str, Any], study: str
) -> tuple[list[dict[str, Any]], Manifest]:
    of_study = {"study": study, "declared": tree["declaration"] is not None}
    of_study |= {"default_label": "", "num_departures": 0, "folder": None}
    shared = {}
    for entry in tree["shared"]:
        about = describe_run(entry["config"], entry["data"]) | of_study
        about |= {key: entry[key] for key in ("code", "parameters")}
        shared[entry["data"]["name"], about["protocol"], entry["variant"]] = about
    table["val_accuracy"].cast("float64")  # an `ArrowInvalid` where it is another's column
    rows = table.rename_columns({"variant": "label"}).to_pylist()
    runs = [PlannedRun(variant=label, seed=seed, run_id="") for label, seed in tree["planned"]]
    keys = {"variants", "settings", "seed_kind", "added_seeds"} & tree.keys()
    manifest = Manifest(**{key: tree[key] for key in keys}, runs=runs)
    return [row | shared[row["data"], row["protocol"], row["label"]] for row in rows], manifest


def check_answers(rows: Iterable[dict[str, Any]]) -> None:
    """Raise `ValueError` where answers to the test texts are not those of which rows, as
    `read_runs.make_rows` gives them, have the accuracy."""
    for row in rows:
        if row["correct"] is None:
            continue
        accuracy = row["val_accuracy" if row["protocol"] == "blog" else "test_accuracy"]
        num_right = int.from_bytes(row["correct"]).bit_count()
        num_texts = row["n_test"]
        is_long_enough = len(row["correct"]) == -(-num_texts // 8)
        if not is_long_enough or abs(num_right - accuracy * num_texts) > 0.5:
            raise ValueError(f"the answers of epoch {row['epoch']} do not have its accuracy")


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
