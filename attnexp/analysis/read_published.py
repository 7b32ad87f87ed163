"""Published studies: files of `docs/publish.py`, one row a run and epoch."""

import json
from pathlib import Path

import pyarrow.parquet as pq

from attnexp.analysis.rows import MADE_BY, Row, check_answers, describe_run
from attnexp.base.files import reading
from attnexp.runs.manifest import Manifest, PlannedRun

METADATA = b"attnexp"
"""Key of what a file holds besides its rows: the study, and what runs of a variant share."""


def load_published(file: Path, study: str) -> tuple[list[Row], Manifest]:
    """Rows of a published file, with the key of its study, and the study. Raises `UserError`."""
    with reading(file, "For results of your own: attnexp judge."):
        table = pq.read_table(file)
        table["val_accuracy"].cast("float64")  # another program's may be texts
        tree = json.loads((table.schema.metadata or {})[METADATA])
        about_variants = {}
        for entry in tree["shared"]:
            about = describe_run(entry["config"], entry["data"], entry["code"])
            about["parameters"] = entry["parameters"]
            key = (entry["data"]["name"], about["protocol"], entry["variant"])
            about_variants[key] = about
        about_study: Row = {
            "study": study,
            "declared": tree["declaration"] is not None,
            "default_label": "",
            "num_departures": 0,
            "folder": None,
            "command": "",
            "made_by": [tuple(made.get(key) for key in MADE_BY) for made in tree["made_by"]],
        }
        rows = []
        for row in table.rename_columns({"variant": "label"}).to_pylist():
            about = about_variants[row["data"], row["protocol"], row["label"]]
            rows.append(row | about | about_study)
        check_answers(rows)
        runs = [PlannedRun(variant=label, seed=seed, run_id="") for label, seed in tree["planned"]]
        # files of before lack some of these keys
        keys = "variants settings seed_kind added_seeds commands metric".split()
        plan = {key: tree[key] for key in keys if key in tree}
        return rows, Manifest(**plan, runs=runs)
