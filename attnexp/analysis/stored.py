"""Finished runs from where they lie: folders of runs, folders of studies, published files.

A published study is one parquet file of `docs/publish.py`, in `outputs/published/`: a row a run and
epoch. Its schema's metadata holds what the runs of a variant share.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from attnexp.base.errors import UserError
from attnexp.runs import manifest, predictions
from attnexp.runs.identity import replicate
from attnexp.runs.manifest import Declaration, Entry, Manifest
from attnexp.runs.result import Run

Row = dict[str, Any]
"""A run and epoch: label (of its variant, empty without a study), study, config, facts (of the
data), code (digests by file), parameters, seed, run_id, folder, epoch, the metrics, with
`test_loss` etc. in the chosen epoch of a holdout run, and correct: which texts of the test set were
right, as bits (`numpy.packbits`), None where that is not known."""

SHARED = ("config", "code", "parameters")
TEST = ("loss", "accuracy", "brier", "ece")


def read(paths: Sequence[Path], left_out: list[str]) -> tuple[list[Row], dict[str, Manifest]]:
    """Rows of folders and of published files, with or without `.parquet`, and studies by name. Raises
    `UserError` for a path without any finished run. left_out: gets a message for each run that
    cannot be read."""
    rows, studies = list[Row](), dict[str, Manifest]()
    for path in paths:
        file = path if path.suffix == ".parquet" else path.with_name(f"{path.name}.parquet")
        if file.is_file():
            more, study = _read_published(file)
        else:
            runs = manifest.load_runs([path], left_out.append)
            study = manifest.load(path)
            more = [
                row for run in runs for row in rows_of(run, path.absolute().name if study else "")
            ]
        rows += more
        if study is not None:
            studies[more[0]["study"]] = study
    return rows, studies


def rows_of(run: Run, study: str = "") -> Iterator[Row]:
    """The rows of a run. study: name of its study, or empty."""
    result, right = run.result, predictions.right_by_epoch(run)
    shared = {key: getattr(result, key) for key in SHARED}
    is_holdout = result.config["train"]["protocol"] == "holdout"
    for row in result.epochs:
        chosen = is_holdout and row.epoch == result.best.epoch
        yield {
            **{"label": run.label, "study": study, "facts": result.data, **shared},
            **{"seed": replicate(result.config), "run_id": result.run_id, "folder": run.path},
            **asdict(row),
            **({f"test_{name}": getattr(result.test, name) for name in TEST} if chosen else {}),
            "correct": right.get(row.epoch),
        }


def _read_published(file: Path) -> tuple[list[Row], Manifest]:
    about = (pq.read_schema(file).metadata or {}).get(b"attnexp")
    if about is None:
        raise UserError(f"{file} is no published study. For results of your own: attnexp judge.")
    tree = json.loads(about)
    shared = {
        (own["data"]["name"], own["config"]["train"]["protocol"], own["variant"]): {
            **{"label": own["variant"], "study": tree["study"], "facts": own["data"]},
            **{key: own[key] for key in SHARED},
        }
        for own in tree["shared"]
    }
    table = pd.read_parquet(file).to_dict("records")
    rows = [{**shared[r["data"], r["protocol"], r["variant"]], "folder": None, **r} for r in table]
    declared = tree["declaration"]
    study = Manifest(
        variants=tree["variants"],
        commands=tree["commands"],
        runs=[Entry(variant=label, seed=seed, run_id="") for label, seed in tree["planned"]],
        declaration=Declaration(**declared) if declared else None,
    )
    return rows, study
