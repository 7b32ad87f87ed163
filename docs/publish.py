"""Publish studies: `python docs/publish.py outputs/blog outputs/data/blog=blog_data`, the second as
`blog_data`. docs/reproduction.md says what is written. Absolute paths are cut to their last name.
"""

import json
import re
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from attnexp.analysis.frames import SHARED, groups_of, rows_of
from attnexp.runs import manifest

PUBLISHED = Path(__file__).parents[1] / "outputs" / "published"
PLACE = ("data", "protocol", "variant")
NOT_METRICS = ["label", "study", "facts", *SHARED, "folder", "seconds", "examples_per_second"]
VERSIONS = ("version", "commit", "python", "torch", "numpy", "fpmath", "dtype", "products", "path")


def publish(folder: Path, name: str) -> str:
    """Write `NAME.parquet` from the folder of a study; returns a line about it."""
    study, runs = manifest.load_manifest(folder), manifest.load_runs(folder)
    assert study is not None, f"{folder} holds no study"
    rows = [row for run in runs for row in rows_of(run, name)]
    ends = pd.concat(
        group.endpoints.merge(group.runs, on=["variant", "seed"]) for group in groups_of(rows, {})
    )
    at_endpoints = {*zip(ends["run_id"], ends["epoch"], strict=True)}
    shared, tables = {}, []
    for row in rows:
        place = (row["facts"]["name"], row["config"]["train"]["protocol"], row["label"])
        own = {"variant": row["label"], "data": row["facts"], **{key: row[key] for key in SHARED}}
        shared.setdefault(place, own)
        bits = row["correct"] if (row["run_id"], row["epoch"]) in at_endpoints else None
        tables.append(dict(zip(PLACE, place, strict=True)) | row | {"correct": bits})
    table = pd.DataFrame(tables).drop(columns=NOT_METRICS).dropna(axis=1, how="all")
    made_by = Counter(json.dumps({k: r.result.provenance.get(k) for k in VERSIONS}) for r in runs)
    about = {key: value for key, value in asdict(study).items() if key != "runs"} | {
        "study": name,
        "planned": [[entry.variant, entry.seed] for entry in study.runs],
        "shared": [*shared.values()],
        "made_by": [json.loads(versions) | {"runs": n} for versions, n in made_by.items()],
    }
    text = re.sub(r"(?<![\w.])/(?:[^/\s\"']+/)*(?=[^/\s\"'])", "", json.dumps(about))
    found = pa.Table.from_pandas(table, preserve_index=False)
    found = found.replace_schema_metadata({**found.schema.metadata, "attnexp": text})
    pq.write_table(found, PUBLISHED / f"{name}.parquet", compression="zstd", compression_level=19)
    return f"{name}.parquet: {len(runs)} runs"


if __name__ == "__main__":
    for given in sys.argv[1:]:
        source, _, called = given.partition("=")
        print(publish(Path(source), called or Path(source).name))
