"""Published studies: files of `docs/publish.py`, one row a run and epoch."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from attnexp.base.files import reading
from attnexp.runs.labels import settings
from attnexp.runs.manifest import Manifest, PlannedRun

MADE_BY = ("version", "commit", "torch", "python", "processor", "device", "platform")

METADATA = b"attnexp"
"""Key of what a file holds besides its rows: the study, and what runs of a variant share."""


def load_published(file: Path, study: str) -> tuple[list[dict[str, Any]], Manifest]:
    """Rows of a published file, as `read_runs.make_rows` gives those of a run, and its study, whose
    key is `study`. Raises `UserError` for another file."""
    with reading(file, "For results of your own: attnexp judge."):
        table = pq.read_table(file)
        table["val_accuracy"].cast("float64")  # another program's may be texts
        tree = json.loads((table.schema.metadata or {})[METADATA])
        about_variants = {}
        for entry in tree["shared"]:
            about = describe_run(entry["config"], entry["data"], entry["code"])
            place = (entry["data"]["name"], about["protocol"], entry["variant"])
            about["parameters"] = entry["parameters"]
            about_variants[place] = about
        about_study = {"study": study, "declared": tree["declaration"] is not None}
        about_study |= {"default_label": "", "num_departures": 0}
        made_by = [tuple(made.get(key) for key in MADE_BY) for made in tree["made_by"]]
        about_study |= {"folder": None, "command": "", "made_by": made_by}
        rows = []
        for row in table.rename_columns({"variant": "label"}).to_pylist():
            about = about_variants[row["data"], row["protocol"], row["label"]]
            rows.append(row | about | about_study)
        check_answers(rows)
        runs = [PlannedRun(variant=label, seed=seed, run_id="") for label, seed in tree["planned"]]
        keys = {*"variants settings seed_kind added_seeds commands metric".split()} & tree.keys()
        return rows, Manifest(**{key: tree[key] for key in keys}, runs=runs)


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


def describe_run(
    config: dict[str, Any], facts: dict[str, Any], code: dict[str, str]
) -> dict[str, Any]:
    """What a config, the facts of its data and its code say of a run. key: what runs of one variant
    have in common, but for their seeds."""
    values = settings(config)
    return {
        "config": config,
        "settings": values,
        "protocol": config["train"]["protocol"],
        "seed_kind": kind_of_seeds(config),
        "facts": facts,
        "fingerprint": facts["fingerprint"],
        "n_test": facts["n_test"],
        "code": code,
        "key": json.dumps([values, code, facts.get("vectors")], sort_keys=True),
    }


def kind_of_seeds(config: dict[str, Any]) -> str:
    """The source of chance that differs between runs: `seed`, or those of `seeds.` that a config
    sets, such as `seeds.init`. Runs of different kinds are never pooled."""
    sources = [f"seeds.{name}" for name, number in config["seeds"].items() if number is not None]
    return " ".join(sources) or "seed"
