"""The runs of a folder, finished or not, as a frame."""

import shlex
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from attnexp.base.errors import UserError
from attnexp.report import tables
from attnexp.runs import manifest, store
from attnexp.runs.labels import as_word, data_of, departures, replicate, settings

SHOWN = ["run", "state", "data", "seed", "accuracy", "settings"]


def list_runs(root: Path) -> pd.DataFrame:
    """The runs in or under a folder, oldest first: `SHOWN`, with the accuracy of the chosen epoch,
    else of the last, then folder, and for a broken run reason and again, the command that repeats
    it. Raises `UserError` if there are none."""
    root = manifest.check_folder(root)
    if study := manifest.load_manifest(root):
        paths = {store.run_dir(root.parent, entry.run_id) for entry in study.runs}
        folders = {path for path in paths if path.is_dir()}
    else:
        folders = {
            file.parent for name in (store.RESULT, store.CONFIG) for file in root.rglob(name)
        }
    if not folders:
        raise UserError(f"There is no run in {root}. Results are under outputs/, or out=DIR.")
    runs = [_describe(folder) for folder in sorted(folders, key=lambda one: one.stat().st_mtime)]
    return pd.DataFrame(runs, columns=[*SHOWN, "folder", "reason", "again"], dtype=object)


def _describe(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {"run": folder.name, "folder": str(folder)}
    try:
        if not store.has_finished(folder):
            found["state"] = "running" if store.is_locked(folder) else "stopped"
            config = yaml.safe_load((folder / store.CONFIG).read_text())
            departing = departures(config)
        else:
            result = store.load_result(folder)
            departing = result.departures
            config, is_holdout = result.config, result.config["train"]["protocol"] == "holdout"
            accuracy = result.test.accuracy if is_holdout else result.final.val_accuracy
            found |= {"state": "finished", "accuracy": accuracy}
        found |= {"data": data_of(config).title, "seed": replicate(config)}
        words = [as_word(key, settings(config)[key]) for key in departing]
        return found | {"settings": " ".join(words)}
    except (OSError, yaml.YAMLError, *store.NOT_A_RESULT) as error:  # among them `UserError`
        found |= {"state": "broken", "reason": str(error)}
        config = f"experiment={folder / store.CONFIG}"
        return found | {"again": shlex.join(["attnexp", "train", config, "--again"])}


def as_table(found: pd.DataFrame) -> tables.Table:
    """What a terminal shows of the frame."""
    counts = ", ".join(f"{n} {state}" for state, n in found["state"].value_counts().items())
    shown = found[SHOWN].rename(columns={"data": "data set"}).fillna("")
    shown["accuracy"] = [tables.number(value, True) for value in found["accuracy"].astype(float)]
    return f"Runs: {counts}", shown
