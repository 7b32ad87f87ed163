"""Finding runs on disk: those of a study or below a folder, and the one that a user means."""

import glob
import os
from collections import defaultdict
from collections.abc import Callable, Iterable
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
    folder = resolve_folder(folder)
    if manifest := load_manifest(folder):
        sequential = manifest.sequential
        found = [
            (store.run_dir(folder.parent, run.run_id), run.variant, sequential)
            for run in manifest.runs
        ]
    else:
        paths = run_folders(folder)
        sequential_by_run = _sequential_by_run(paths, left_out)
        # Runs of studies come first, in the order of the studies.
        order = {run_id: index for index, run_id in enumerate(sequential_by_run)}
        paths.sort(key=lambda path: order.get(path.name, len(order)))
        found = [(path, "", sequential_by_run.get(path.name, False)) for path in paths]
    runs = []
    for path, variant, sequential in found:
        with store.leaving_out(path, left_out):
            if store.has_finished(path):
                result = store.load_result(path)
                runs.append(Run(path=path, result=result, variant=variant, sequential=sequential))
    return runs


def _sequential_by_run(paths: Iterable[Path], left_out: Callable[[str], object]) -> dict[str, bool]:
    """Whether any study that planned a run is sequential, by the run's id, in the order of the
    studies. paths: folders of runs, OUT/runs/ID; studies are OUT/NAME."""
    sequential_by_run = defaultdict[str, bool](bool)
    outs = {path.absolute().parent.parent for path in paths}
    for file in sorted(file for out in outs for file in out.glob(f"*/{FILE}")):
        with store.leaving_out(file, left_out):
            if manifest := load_manifest(file.parent):
                for run in manifest.runs:
                    sequential_by_run[run.run_id] |= manifest.sequential
    return sequential_by_run


def run_folders(folder: Path) -> list[Path]:
    """Folders of the runs, finished or not, that a study planned, or else below a folder."""
    if manifest := load_manifest(folder):
        return [store.run_dir(folder.parent, run.run_id) for run in manifest.runs]
    with_config = _folders_with(store.CONFIG, folder)
    # A run that has begun may have no result yet; other programs have a config.json, too.
    begun = {path for path in with_config if store.RUN_ID.fullmatch(path.name)}
    return sorted(_folders_with(store.RESULT, folder) | begun)


def _folders_with(name: str, folder: Path) -> set[Path]:
    # Unlike `Path.rglob` this follows links, and passes over hidden folders.
    files = glob.iglob(f"**/{name}", root_dir=folder, recursive=True)
    return {(folder / file).parent for file in files}


def load_run(path: Path) -> Run:
    """The finished run that `find_run` finds. Raises `UserError` as that does."""
    folder = find_run(path)
    return Run(path=folder, result=store.load_result(folder))


def find_run(path: Path) -> Path:
    """Folder of the finished run that a user means: by its folder, its id, or a folder with no
    other finished run, such as a study's. Raises `UserError` without any, and for several."""
    folder = resolve_folder(path)
    if store.has_finished(folder):
        return folder
    finished = list(filter(store.has_finished, run_folders(folder)))
    if len(finished) == 1:
        return finished[0]
    raise UserError(
        f"{path} stands for {len(finished) or 'no'} finished runs. Name one by its id: attnexp "
        f"runs lists them."
    )


def resolve_folder(path: Path) -> Path:
    """A folder of the user, or of the run in `outputs` with this id. `.` and `..` become absolute,
    since callers use its name. Raises `UserError` if there is none."""
    folder = path if path.is_dir() else store.run_dir("outputs", str(path))
    if not folder.is_dir():
        raise UserError(
            f"There is no folder {path}. Results are under outputs/, or out=DIR; attnexp runs "
            f"lists them."
        )
    return folder if folder.name not in ("", "..") else Path(os.path.abspath(folder))
