"""The runs of a folder, finished or not, as a frame."""

import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from attnexp.base.errors import UserError
from attnexp.runs import manifest, store
from attnexp.runs.identity import as_word, data_of, departures, replicate, settings

SCHEMA = 2
COLUMNS = "state data seed settings epochs accuracy changed folder reason again".split()


def list_runs(root: Path) -> pd.DataFrame:
    """The runs in or under a folder, oldest first: state, data, seed, settings, epochs, accuracy
    (of the chosen epoch, else of the last), changed, folder, and for a broken run reason and again,
    the command that repeats it. Raises `UserError` if there are none."""
    root = manifest.check_folder(root)
    study = manifest.load(root)
    if study is None:
        folders = {
            file.parent for name in (store.RESULT, store.CONFIG) for file in root.rglob(name)
        }
    else:
        paths = {store.run_dir(root.parent, entry.run_id) for entry in study.runs}
        folders = {path for path in paths if path.is_dir()}
    if not folders:
        raise UserError(f"There is no run in {root}. Results are under outputs/, or out=DIR.")
    found = pd.DataFrame([*map(_describe, folders)]).reindex(columns=COLUMNS).astype(object)
    return found.where(found.notna(), None).sort_values(["changed", "folder"], ignore_index=True)


def _describe(folder: Path) -> dict[str, Any]:
    changed = max(file.stat().st_mtime for file in [folder, *folder.iterdir()])
    when = datetime.fromtimestamp(changed, UTC).isoformat(timespec="seconds")
    found: dict[str, Any] = {"folder": str(folder), "changed": when}
    try:
        if not store.has_finished(folder):
            state = "running" if store.is_locked(folder) else "stopped"
            rows = (folder / store.METRICS).read_text() if (folder / store.METRICS).exists() else ""
            config = yaml.safe_load((folder / store.CONFIG).read_text())
            found |= {"state": state, "epochs": rows.count("\n")}
        else:
            result = store.load(folder)
            config = result.config
            is_holdout = config["train"]["protocol"] == "holdout"
            accuracy = result.test.accuracy if is_holdout else result.final.val_accuracy
            found |= {"state": "finished", "epochs": len(result.epochs), "accuracy": accuracy}
        words = [as_word(key, settings(config)[key]) for key in departures(config)]
        about = {"data": data_of(config).title, "seed": replicate(config), "settings": words}
        return found | about
    except (UserError, OSError, yaml.YAMLError, ValueError, KeyError, TypeError) as error:
        found |= {"state": "broken", "reason": str(error)}
        config = f"experiment={folder / store.CONFIG}"
        return found | {"again": shlex.join(["attnexp", "train", config, "--again"])}


def as_table(found: pd.DataFrame) -> tuple[str, pd.DataFrame]:
    """The frame as texts, with the first eight characters of each run's id."""
    shown = pd.DataFrame({
        "run": found["folder"].map(lambda folder: Path(folder).name[:8]),
        "state": found["state"],
        "data set": found["data"].fillna(""),
        "seed": found["seed"].fillna(""),
        "accuracy": found["accuracy"].map(lambda x: "" if pd.isna(x) else f"{100 * x:.2f}"),
        "settings": found["settings"].map(lambda words: " ".join(words or [])),
    })  # fmt: skip
    counts = ", ".join(f"{n} {state}" for state, n in found["state"].value_counts().items())
    return f"Runs: {counts}", shown
