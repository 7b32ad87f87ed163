"""The runs of a folder, finished or not, as a frame."""

import json
from pathlib import Path

import pandas as pd
from rich.filesize import decimal

from attnexp.analysis.metrics import ACCURACY
from attnexp.base.errors import UserError
from attnexp.report import Record
from attnexp.report.cells import format_number
from attnexp.report.table import Table
from attnexp.report.titles import only
from attnexp.runs import find, store
from attnexp.runs.labels import as_word, data_of, departures, seed_name, variant_settings

SHOWN_COLUMNS = ["run", "state", "data", "seed", "accuracy", "bytes", "settings"]


def list_runs(root: Path) -> pd.DataFrame:
    """The runs in or under a folder, oldest first. Raises `UserError` if there are none."""
    root = find.resolve_folder(root)
    folders = list(filter(Path.is_dir, find.run_folders(root)))
    if not folders:
        raise UserError(f"There is no run in {root}. Results are under outputs/, or out=DIR.")
    folders.sort(key=lambda folder: folder.stat().st_mtime)
    runs = [_describe_run(folder) for folder in folders]
    return pd.DataFrame(runs, columns=[*SHOWN_COLUMNS, "folder", "reason"], dtype=object)


def _describe_run(folder: Path) -> Record:
    row: Record = {"run": folder.name, "folder": str(folder)}
    reasons: list[str] = []
    with store.leaving_out(folder, reasons.append):  # An error ends the block, and is a reason.
        files = filter(Path.is_file, folder.rglob("*"))
        row["bytes"] = sum(file.stat().st_size for file in files)
        if store.has_finished(folder):
            result = store.load_result(folder)
            config = result.config
            departing = result.departures
            row |= {"state": "finished", "accuracy": result.test.accuracy}
        else:
            row["state"] = "running" if store.is_locked(folder) else "stopped"
            config = json.loads((folder / store.CONFIG).read_bytes())
            departing = departures(config)
        values = variant_settings(config)
        row["settings"] = " ".join(as_word(key, values[key]) for key in departing)
        row["data"] = data_of(config).title
        row["seed"] = seed_name(config)
    if reasons:
        row |= {"state": "broken", "reason": reasons[0]}
    return row


def tabulate_runs(runs: pd.DataFrame) -> Table:
    """What a terminal shows of the frame."""
    lines = runs[SHOWN_COLUMNS].fillna({"bytes": 0}).to_dict("records")
    for line in lines:
        line["accuracy"] = format_number(line["accuracy"], ACCURACY)
        line["bytes"] = decimal(line["bytes"], precision=0)
    title = "Runs"
    data = only(runs["data"].fillna(""))
    if data:
        title += f" on {data}"
    counts = runs["state"].value_counts()
    states = [f"{count} {state}" for state, count in counts.items()]
    size = decimal(int(runs["bytes"].sum()))
    return Table(
        title=f"{title}: {', '.join(states)}; {size}",
        frame=runs,
        lines=lines,
        context=["data"],
    )
