"""Published studies: files of `docs/publish.py`, one row a run and epoch."""

import base64
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from attnexp.analysis.rows import MADE_BY, RunRows, Setup
from attnexp.base.files import reading
from attnexp.runs.manifest import Manifest, PlannedRun

METADATA = b"attnexp"
"""Key of what a file holds besides its rows: the study, and what runs of a variant share."""

PLAN = "variants settings seed_kind added_seeds commands metric margin sequential".split()
"""Fields of the study that a file holds; older files lack some of them."""


def load_published(file: Path, study: str) -> tuple[list[RunRows], Manifest]:
    """The runs of a published file, and its study, whose key is `study`. Raises `UserError`."""
    with reading(file, "For results of your own: attnexp judge."):
        table = pq.read_table(file)
        tree = json.loads((table.schema.metadata or {})[METADATA])
        runs = _read_runs(table.to_pandas(), tree, study)
        planned = [PlannedRun(variant=name, seed=seed, run_id="") for name, seed in tree["planned"]]
        plan = {key: tree[key] for key in PLAN if key in tree}
        return runs, Manifest(**plan, runs=planned)


def _read_runs(frame: pd.DataFrame, tree: dict[str, Any], study: str) -> list[RunRows]:
    """The runs of the rows of a file. tree: its metadata."""
    setups = {}
    for entry in tree["shared"]:
        setup = Setup(config=entry["config"], facts=entry["data"], code=entry["code"])
        setups[setup.facts["name"], setup.protocol, entry["variant"]] = setup
    made_by = [{key: made.get(key) for key in MADE_BY} for made in tree["made_by"]]
    metrics = [name for name in frame if name.startswith(("train_", "val_", "test_"))]
    stored = tree.get("largest_class", {})
    largest_classes = {data: base64.b64decode(bits) for data, bits in stored.items()}
    keys = ["run_id", "seed", "data", "protocol", "variant"]
    runs = []
    for (run_id, seed, *place), epochs in frame.groupby(keys, sort=False):
        data, _, label = place
        run = RunRows(
            run_id=run_id,
            label=label,
            study=study,
            seed=seed,
            setup=setups[*place],
            epochs=epochs[["epoch", "correct", *metrics]],
            largest_class=largest_classes.get(data, b""),
            made_by=made_by,
            sequential=tree.get("sequential", tree.get("declaration") is not None),
        )
        runs.append(run)
    return runs
