"""Publish studies: `python docs/publish.py outputs/blog outputs/data/blog=blog_data`, the second as
`blog_data`. docs/reproduction.md says what is written. Absolute paths are cut to their last name.
"""

import json
import re
import sys
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from attnexp.analysis.make_groups import make_groups
from attnexp.analysis.read_runs import METADATA
from attnexp.analysis.rows import RunRows, as_rows
from attnexp.base.errors import UserError
from attnexp.runs import find, manifest
from attnexp.runs.manifest import Manifest
from attnexp.runs.result import Run

PUBLISHED = Path(__file__).parents[1] / "outputs" / "published"
PLACE = ("data", "protocol", "variant")

NOT_METRICS = ["seconds", "examples_per_second"]

VERSIONS = ("version", "commit", "python", "torch", "numpy", "fpmath", "dtype", "path")

ABSOLUTE = re.compile(r"(?<![\w.])/(?:[^/\s\"']+/)*(?=[^/\s\"'])")
"""The folders of an absolute path."""


def publish(folder: Path, name: str) -> str:
    """Write `NAME.parquet` from the folder of a study; returns a line about it. Raises `UserError`
    where a label of the study stands for two configs or two codes."""
    study = manifest.load_manifest(folder)
    assert study is not None, f"{folder} holds no study"
    runs = find.load_runs(folder)
    rows = [as_rows(run, name) for run in runs]
    refuse_ambiguous_labels(rows)
    table = make_table(rows, {run.result.run_id: run for run in runs})
    about = describe_study(study, name, rows, runs)
    found = pa.Table.from_pandas(table, preserve_index=False)
    metadata = {**found.schema.metadata, METADATA: ABSOLUTE.sub("", json.dumps(about))}
    file = PUBLISHED / f"{name}.parquet"
    pq.write_table(
        found.replace_schema_metadata(metadata), file, compression="zstd", compression_level=19
    )
    return f"{file.name}: {len(runs)} runs"


def place_of(run: RunRows) -> tuple[str, str, str]:
    """Data set, protocol and label of a run."""
    return run.setup.facts["name"], run.setup.settings["train.protocol"], run.label


def refuse_ambiguous_labels(rows: Sequence[RunRows]) -> None:
    """Raise `UserError` for a label that stands for two configs or two codes: a file holds one."""
    first_of: dict[tuple[str, str, str], str] = {}
    for run in rows:
        key = run.setup.key
        if first_of.setdefault(place_of(run), key) != key:
            data, protocol, label = place_of(run)
            raise UserError(
                f"{label} on {data} ({protocol}) stands for runs with different settings or code. "
                "Take those that do not belong out of the study: delete their folders."
            )


def make_table(rows: Sequence[RunRows], runs: dict[str, Run]) -> pd.DataFrame:
    """A row for each run and epoch, with the start of the run, and with the answers to the test
    texts at endpoints alone. runs: by id."""
    at_endpoints = find_endpoints(rows)
    parts = []
    for run in rows:
        about = dict(zip(PLACE, place_of(run), strict=True))
        about |= {"seed": run.seed, "run_id": run.run_id}
        about["started"] = runs[run.run_id].result.provenance["started"]
        part = run.epochs.assign(**about)
        is_endpoint = [(run.run_id, epoch) in at_endpoints for epoch in part["epoch"]]
        parts.append(part.assign(correct=part["correct"].where(is_endpoint, None)))
    table = pd.concat(parts).drop(columns=NOT_METRICS)
    return table.dropna(axis=1, how="all")


def find_endpoints(rows: Sequence[RunRows]) -> set[tuple[str, int]]:
    """Runs and epochs at which any endpoint lies."""
    places = set()
    for group in make_groups(rows):
        ends = group.at_endpoints.merge(group.origin.runs, on=["variant", "seed"])
        places |= set(zip(ends["run_id"], ends["epoch"], strict=True))
    return places


def describe_study(
    study: Manifest, name: str, rows: Sequence[RunRows], runs: Sequence[Run]
) -> dict[str, Any]:
    """What the file holds besides its rows."""
    shared: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row, run in zip(rows, runs, strict=True):
        entry = {"variant": row.label, "data": row.setup.facts, "config": run.result.config}
        entry |= {"code": row.setup.code, "own_code": row.setup.own_code}
        entry["parameters"] = run.result.parameters
        shared.setdefault(place_of(row), entry)
    versions: Counter[str] = Counter()
    for run in runs:
        versions[json.dumps({key: run.result.provenance.get(key) for key in VERSIONS})] += 1
    largest_classes = {
        run.setup.facts["name"]: b64encode(run.largest_class).decode()
        for run in rows
        if run.largest_class and "resample" not in run.seed
    }
    about = asdict(study)
    del about["runs"]
    return about | {
        "study": name,
        "planned": [[run.variant, run.seed] for run in study.runs],
        "shared": list(shared.values()),
        "largest_class": largest_classes,  # bits of the test texts of this class, by data set
        "made_by": [json.loads(text) | {"runs": count} for text, count in versions.items()],
    }


if __name__ == "__main__":
    for word in sys.argv[1:]:
        source, _, published_name = word.partition("=")
        print(publish(Path(source), published_name or Path(source).name))
