"""Finding runs on disk: those of a study or below a folder, and the one that a user means."""

import glob
import os
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.runs import store
from attnexp.runs.manifest import FILE, load_manifest
from attnexp.runs.result import Run


def load_runs(folder: Path, left_out: Callable[[str], object] = progress.note) -> list[Run]:
    """The finished runs of a study, under its variants' names, or those below another folder.
    left_out: called with a message for each run and study that cannot be read. Raises `UserError`
    where there is no folder, and for a damaged study."""
    folder = check_folder(folder)
    if manifest := load_manifest(folder):
        sequential = {run.run_id: manifest.sequential for run in manifest.runs}
        found = [(store.run_dir(folder.parent, run.run_id), run.variant) for run in manifest.runs]
    else:
        sequential = _sequential_by_id(folder, left_out)
        order = {run_id: index for index, run_id in enumerate(sequential)}  # that of the studies
        paths = sorted(run_folders(folder), key=lambda path: order.get(path.name, len(order)))
        found = [(path, "") for path in paths]
    runs = []
    for path, variant in found:
        with store.leaving_out(path, left_out):
            if store.has_finished(path):
                result = store.load_result(path)
                adds_seeds = sequential.get(path.name, False)
                runs.append(Run(path=path, result=result, variant=variant, sequential=adds_seeds))
    return runs


def _sequential_by_id(folder: Path, left_out: Callable[[str], object]) -> dict[str, bool]:
    """Whether any study in OUT that planned a run adds seeds, by id in the order of the studies."""
    sequential = defaultdict[str, bool](bool)
    folder = folder.absolute()
    outs = [folder.parent, folder] if folder.name == store.RUNS else [folder]  # or OUT is "runs"
    files = [file for out in outs for file in sorted(out.glob(f"*/{FILE}"))]
    for file in files:
        with store.leaving_out(file, left_out):
            if manifest := load_manifest(file.parent):
                for run in manifest.runs:
                    sequential[run.run_id] |= manifest.sequential
    return sequential


def run_folders(folder: Path) -> list[Path]:
    """Folders of the runs that a study planned, or of those below another folder, finished or not.
    Raises `UserError` for a damaged study."""
    if manifest := load_manifest(folder):
        return [store.run_dir(folder.parent, run.run_id) for run in manifest.runs]
    folders = _folders_with(store.RESULT, folder)
    for path in _folders_with(store.CONFIG, folder):
        if store.RUN_ID.fullmatch(path.name):  # Other programs have a config.json, too.
            folders.add(path)  # This run may have begun and have no result yet.
    return sorted(folders)


def _folders_with(name: str, folder: Path) -> set[Path]:
    # Unlike `Path.rglob` this follows links, and passes over hidden folders.
    files = glob.iglob(f"**/{name}", root_dir=folder, recursive=True)
    return {(folder / file).parent for file in files}


def load_run(path: Path) -> Run:
    """The finished run that a user means, as `find_run` does. Raises `UserError` without any."""
    folder = find_run(path)
    return Run(path=folder, result=store.load_result(folder))


def find_run(path: Path) -> Path:
    """Folder of the finished run that a user means: by its folder, its id, or a folder with no
    other run in it, such as a study's. Raises `UserError` without any, and for several."""
    folder = check_folder(path)
    if store.has_finished(folder):
        return folder
    finished = list(filter(store.has_finished, run_folders(folder)))
    if len(finished) == 1:
        return finished[0]
    raise UserError(
        f"{path} stands for {len(finished) or 'no'} finished runs. Name one by its id: attnexp "
        f"runs lists them."
    )


def check_folder(path: Path) -> Path:
    """A folder of the user, `.` and `..` in full, or that of the run in `outputs` whose id this is.
    Raises `UserError` if there is none."""
    for folder in (path, store.run_dir("outputs", str(path))):
        if folder.is_dir():
            return folder if folder.name not in ("", "..") else Path(os.path.abspath(folder))
    raise UserError(
        f"There is no folder {path}. Results are under outputs/, or out=DIR; attnexp runs lists "
        f"them."
    )
