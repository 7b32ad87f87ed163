"""`attnexp doctor`: the installation, the data in reach, and whether stored runs are whole."""

import importlib.metadata
import os
import platform
import re
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from attnexp import __version__
from attnexp.base.errors import UserError
from attnexp.config.words import quoted
from attnexp.runs import checkpoint, manifest, store
from attnexp.runs.result import Run

SCHEMA = 1


def describe_installation() -> dict[str, Any]:
    """Installed packages, devices, and data sets that can be reached."""
    import torch

    gpus = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return {
        "schema": SCHEMA,
        "attnexp": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": _packages(),
        "devices": [
            {"name": "cpu", "cores": os.cpu_count(), "threads": torch.get_num_threads()},
            *({"name": gpu.name, "memory_bytes": gpu.total_memory} for gpu in gpus),
        ],
    }


def _packages() -> list[dict[str, Any]]:
    """Dependencies: name, extra (None if required), installed version (None if missing)."""
    found = []
    for wanted in importlib.metadata.requires("attnexp") or []:
        match = re.match(r"[\w.-]+", wanted)
        extra = re.search(r"extra == ['\"](\w+)", wanted)
        assert match is not None
        try:
            version = importlib.metadata.version(match[0])
        except importlib.metadata.PackageNotFoundError:
            version = None
        found.append({"name": match[0], "extra": extra and extra[1], "version": version})
    return found


def print_installation(found: dict[str, Any], console: Console) -> None:
    """Print the result of `describe_installation`."""

    def line(name: str, text: str) -> None:
        console.print(Text(f"{name:12s}{text}"), soft_wrap=True)

    line("attnexp", f"{found['attnexp']}, Python {found['python']}, {found['platform']}")
    for extra in dict.fromkeys(package["extra"] for package in found["packages"]):
        packages = [one for one in found["packages"] if one["extra"] == extra]
        text = ", ".join(f"{one['name']} {one['version'] or 'missing'}" for one in packages)
        if extra and not all(one["version"] for one in packages):
            text += f" (pip install 'attnexp[{extra}]')"
        line(extra or "packages", text)
    for device in found["devices"]:
        if "cores" in device:
            line("device", f"cpu, {device['cores']} cores, torch uses {device['threads']}")
        else:
            line("device", f"{device['name']}, {device['memory_bytes'] / 2**30:.0f} GiB")


def examine(root: Path) -> dict[str, Any]:
    """Check every run and study in or under a folder: how many are whole, what is to be made again.

    Raises `UserError` if the folder holds none.
    """
    root = manifest.check_folder(root)
    names = (store.RESULT, store.CONFIG, checkpoint.FILE, manifest.FILE)
    files = sorted(file for file in root.rglob("*") if file.name in names)
    if not files:
        raise UserError(f"There is no run and no study in {root}. Results are under outputs/.")
    runs = sorted({path.parent for path in files if path.name != manifest.FILE})
    studies = [path.parent for path in files if path.name == manifest.FILE]
    by_run = {run: _of_run(run) for run in runs}
    num_whole = sum(not found and run.suffix != ".part" for run, found in by_run.items())
    troubles = [trouble for found in by_run.values() for trouble in found]
    troubles += [trouble for study in studies for trouble in _of_study(study)]
    return {
        "schema": SCHEMA,
        "runs": len(runs),
        "whole": num_whole,
        "studies": len(studies),
        "troubles": troubles,
    }


def print_tree(found: dict[str, Any], console: Console) -> None:
    """Print the result of `examine`."""
    studies = "1 study" if found["studies"] == 1 else f"{found['studies']} studies"
    counted = f"{found['whole']} of {found['runs']} runs are whole; {studies}."
    console.print(Text(counted))
    for trouble in found["troubles"]:
        console.print(Text(f"\n{trouble['folder']}\n  {trouble['what']}"), soft_wrap=True)
        console.print(Text(f"  {trouble['command']}"), soft_wrap=True)


def _of_run(folder: Path) -> list[dict[str, str]]:
    """The first problem of a run, if any: one command repairs the whole run."""
    if folder.suffix == ".part":
        with suppress(UserError):  # in a read-only tree no process can be at work
            if store.is_locked(folder.with_suffix("")):
                return []
        try:
            found = checkpoint.load(folder)
            how_far = f": it goes on from {found[1]['at']}" if found else ", at its start"
            what = f"unfinished{how_far}"
        except ValueError:
            what = "unfinished, and its checkpoint is damaged"
        return [_trouble(folder, what, again=False)]
    try:
        run = Run(path=folder, result=store.load(folder))
        for name in run.result.files:
            run.read(name)
    except UserError as error:
        return [_trouble(folder, str(error).partition(" `attnexp")[0], again=True)]
    return []


def _trouble(folder: Path, what: str, *, again: bool) -> dict[str, str]:
    """A run that has to be made again, and the command that does it."""
    import yaml

    try:
        words = yaml.safe_load((folder / store.OVERRIDES).read_bytes())
        is_text = isinstance(words, list) and all(isinstance(word, str) for word in words)
        if not (words and is_text):  # a run that was trained from Python has none
            raise ValueError
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        command = f"rm -r {shlex.quote(str(folder))}  # then train or sweep as before"
    else:
        if folder.parent.name == store.RUNS:
            words = [word for word in words if not word.startswith("out=")]
            words.append(quoted("out", str(folder.parent.parent)))
        command = shlex.join(["attnexp", "train", *(["--again"] if again else []), *words])
    return {"folder": str(folder), "what": what, "command": command}


def _of_study(folder: Path) -> list[dict[str, str]]:
    try:
        study = manifest.load(folder)
    except UserError as error:
        command = f"rm {shlex.quote(str(folder / manifest.FILE))}  # then sweep as before"
        return [{"folder": str(folder), "what": str(error), "command": command}]
    assert study is not None
    ids = {entry.run_id for entry in study.runs}
    missing = [i for i in ids if not store.has_finished(store.run_dir(folder.parent, i))]
    if not missing:
        return []
    what = f"{len(missing)} of {len(ids)} runs are missing"
    return [{"folder": str(folder), "what": what, "command": " && ".join(study.commands)}]
