"""Finished runs from where they lie: folders of runs, folders of studies, published files.

A published study is one parquet file of `docs/publish.py`, in `outputs/published/`: a row a run and
epoch. Its schema's metadata holds what the runs of a variant share.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from attnexp.base.errors import UserError
from attnexp.runs import manifest, predictions
from attnexp.runs.identity import replicate
from attnexp.runs.manifest import Declaration, Entry, Manifest
from attnexp.runs.result import Run

Row = dict[str, Any]
"""A run and epoch: label (of its variant, empty without a study), study (key of its manifest),
config, facts (of the data), code (digests by file), parameters, seed, run_id, folder, epoch, the
metrics, with `test_loss` etc. in the chosen epoch of a holdout run, and correct: which texts of the
test set were right, as bits (`numpy.packbits`), None where that is not known."""

SHARED = ("config", "code", "parameters")


def read(paths: Sequence[Path], left_out: list[str]) -> tuple[list[Row], dict[str, Manifest]]:
    """Rows of folders and of published files, with or without `.parquet`, and their studies.

    left_out: gets a message for each run that cannot be read. Raises `UserError` for a path without
    any finished run.
    """
    rows, studies = list[Row](), dict[str, Manifest]()
    for path in dict.fromkeys(paths):
        file = path if path.suffix == ".parquet" else Path(f"{path}.parquet")
        if file.is_file():
            more, study = _published(file, str(path))
        else:
            runs, study = manifest.load_runs([path], left_out.append), manifest.load(path)
            more = [row for run in runs for row in rows_of(run, str(path))]
        rows += more
        studies |= {str(path): study} if study else {}
    return rows, studies


def rows_of(run: Run, study: str = "") -> Iterator[Row]:
    """The rows of a run. study: key of the manifest that planned it, or empty."""
    result, right = run.result, predictions.right_by_epoch(run)
    of_run = {"label": run.label, "study": study, "facts": result.data, "folder": run.path}
    of_run |= {"seed": replicate(result.config), "run_id": result.run_id}
    of_run |= {key: getattr(result, key) for key in SHARED}
    chosen = result.best.epoch if result.config["train"]["protocol"] == "holdout" else None
    test = {f"test_{name}": value for name, value in asdict(result.test).items() if name != "n"}
    for row in result.epochs:
        measured = asdict(row) | (test if row.epoch == chosen else {})
        yield {**of_run, **measured, "correct": right.get(row.epoch)}


def _published(file: Path, study: str) -> tuple[list[Row], Manifest | None]:
    """Rows of a published file with what they share, and its study."""
    table = pq.read_table(file)
    tree = json.loads((table.schema.metadata or {}).get(b"attnexp", b"{}"))
    if not tree:
        raise UserError(f"{file} is no published study. For results of your own: attnexp judge.")
    shared = dict[tuple[str, str, str], Row]()
    for own in tree["shared"]:
        place = (own["data"]["name"], own["config"]["train"]["protocol"], own["variant"])
        more = {"study": study, "facts": own["data"], "folder": None}
        shared[place] = more | {key: own[key] for key in SHARED}
    rows = table.rename_columns({"variant": "label"}).to_pylist()
    return [shared[r["data"], r["protocol"], r["label"]] | r for r in rows], Manifest(
        variants=tree["variants"],
        runs=[Entry(variant=label, seed=seed, run_id="") for label, seed in tree["planned"]],
        declaration=Declaration(**tree["declaration"]) if tree["declaration"] else None,
    )
