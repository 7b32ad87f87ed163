"""`attnexp runs`: the runs of a folder, finished or not, with their settings and accuracies."""

import json
import os
from contextlib import suppress
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnexp.base.errors import UserError
from attnexp.base.files import find_files
from attnexp.base.progress import duration
from attnexp.config.schema import DataConfig, DataName
from attnexp.runs import checkpoint, manifest, store
from attnexp.runs.identity import as_word, departures, replicate, settings
from attnexp.runs.points import POINTS, best_epoch, metrics_at

SCHEMA = 1
DAY = 24 * 3600


def list_runs(root: Path) -> dict[str, Any]:
    """The runs in or under a folder, or those of a study, oldest first.

    Raises `UserError` if there are none, or if the study's manifest cannot be read.
    """
    if (study := manifest.load(root)) is not None:
        paths = {store.run_dir(root.parent, entry.run_id) for entry in study.runs}
        folders = {one for path in paths for one in (path, store.part_of(path)) if one.is_dir()}
    else:
        files = find_files(root, store.RESULT, store.CONFIG, checkpoint.FILE)
        folders = {file.parent for file in files}
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
            return (
                found
                | _of_config(result.config)
                | {
                    "epochs": len(result.epochs),
                    "accuracies": {at: metrics_at(result, at, best)["accuracy"] for at in points},
                }
            )
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
    data = DataConfig(name=DataName(config["data"]["name"]), path=config["data"].get("path"))
    own = settings(config)
    words = [as_word(key, own[key]) for key in departures(config)]
    words.sort(key=lambda word: "." in word.partition("=")[0])  # choices first
    return {"data": data.title, "seed": replicate(config), "settings": words}


def print_list(found: dict[str, Any], console: Console) -> None:
    """Print the result of `list_runs`: a table for the runs of the same data and settings."""
    now = datetime.now(UTC)

    def group(run: dict[str, Any]) -> str:
        return json.dumps([run["data"], run["settings"]])

    home = os.path.commonpath([os.path.dirname(run["folder"]) for run in found["runs"]])
    console.print(Text(f"In {home}:"), soft_wrap=True)
    order = {group(run): place for place, run in enumerate(found["runs"])}
    ordered = sorted(found["runs"], key=lambda run: order[group(run)])
    for key, runs in groupby(ordered, key=group):
        data, words = json.loads(key)
        console.print(Text(f"{data or 'unknown'}: {' '.join(words) or 'defaults'}", style="bold"))
        view = Table(box=None, show_header=False, pad_edge=False)
        for column in ("folder", "seed", "state", "age"):
            view.add_column(overflow="fold", justify="right" if column == "age" else "left")
        for run in runs:
            age = (now - datetime.fromisoformat(run["changed"])).total_seconds()
            old = f"{age / DAY:.0f} days" if age > 2 * DAY else duration(max(age, 0))
            seed = "" if run["seed"] is None else f"seed {run['seed']}"
            where = f"  {os.path.relpath(run['folder'], home)}"
            view.add_row(*map(Text, (where, seed, _state(run), old)))
        console.print(view)
    counts = [
        f"{count} {state}"
        for state in ("finished", "running", "stopped", "broken")
        if (count := sum(run["state"] == state for run in found["runs"]))
    ]
    console.print(Text(f"{', '.join(counts)}."))


def _state(run: dict[str, Any]) -> str:
    match run["state"]:
        case "finished":
            return ", ".join(f"{at} {100 * value:.2f}" for at, value in run["accuracies"].items())
        case "broken":
            return f"broken: {run['reason']}"
    return f"{run['state']} after epoch {run['epochs']}"
