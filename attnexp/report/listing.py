"""The table of `attnexp runs`."""

import json
import os
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnexp.base.progress import duration

DAY = 24 * 3600


def print_list(found: dict[str, Any], console: Console) -> None:
    """Print what `attnexp.analysis.listing.list_runs` returns: a table for the runs of the same
    data and settings."""
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
            view.add_row(*map(Text, (where, seed, _state(run), f"{old} ago")))
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
