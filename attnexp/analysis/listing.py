"""The runs of a folder, finished or not, with their settings and accuracies."""

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from attnexp.base.errors import UserError
from attnexp.runs import checkpoint, manifest, store
from attnexp.runs.identity import as_word, data_of, departures, replicate, settings
from attnexp.runs.points import POINTS, best_epoch, metrics_at

SCHEMA = 1


def list_runs(root: Path) -> dict[str, Any]:
    """The runs in or under a folder, or those of a study, oldest first.

    Raises `UserError` if there are none, or if the study's manifest cannot be read.
    """
    root = manifest.check_folder(root)
    if (study := manifest.load(root)) is not None:
        paths = {store.run_dir(root.parent, entry.run_id) for entry in study.runs}
        folders = {one for path in paths for one in (path, store.part_of(path)) if one.is_dir()}
    else:
        names = {store.RESULT, store.METRICS, store.CONFIG, checkpoint.FILE}
        files = sorted(file for file in root.rglob("*") if file.name in names)
        folders = {
            file.parent
            for file in files
            if file.name != store.CONFIG or file.parent.suffix == ".part"
        }
    if not folders:
        raise UserError(f"There is no run in {root}. Results are under outputs/, or out=DIR.")
    runs = sorted((_describe(folder) for folder in folders), key=lambda run: run["changed"])
    return {"schema": SCHEMA, "runs": runs}


def _describe(folder: Path) -> dict[str, Any]:
    """State, settings and accuracies of the run in a folder."""
    files = [file for file in folder.iterdir() if not file.name.startswith(".")]
    changed = max((file.stat().st_mtime for file in files), default=folder.stat().st_mtime)
    found: dict[str, Any] = {
        "folder": str(folder),
        "state": "finished",
        "reason": None,
        "data": None,
        "seed": None,
        "settings": [],
        "epochs": 0,
        "accuracies": {},
        "changed": datetime.fromtimestamp(changed, UTC).isoformat(timespec="seconds"),
    }
    try:
        if folder.suffix != ".part":
            result = store.load(folder)
            best = best_epoch([result])
            points = POINTS[result.config["train"]["protocol"]]
            accuracies = {at: metrics_at(result, at, best)["accuracy"] for at in points}
            measured = {"epochs": len(result.epochs), "accuracies": accuracies}
            return found | _of_config(result.config) | measured
        found["state"] = "stopped"
        with suppress(UserError):  # in a read-only tree no process can be at work
            found["state"] = "running" if store.is_locked(folder.with_suffix("")) else "stopped"
        rows = (folder / store.METRICS).read_text() if (folder / store.METRICS).exists() else ""
        of_config = _of_config(yaml.safe_load((folder / store.CONFIG).read_text()))
        return found | of_config | {"epochs": rows.count("\n")}
    except (UserError, OSError, yaml.YAMLError, *store.NOT_A_RESULT) as error:
        reason = str(error).partition(" `attnexp")[0]
        return found | {"state": "broken", "reason": reason}


def _of_config(config: dict[str, Any]) -> dict[str, Any]:
    """Data set, seed and the settings that differ from the defaults of what is chosen, as words."""
    own = settings(config)
    words = [as_word(key, own[key]) for key in departures(config)]
    words.sort(key=lambda word: "." in word.partition("=")[0])  # choices first
    return {"data": data_of(config).title, "seed": replicate(config), "settings": words}
