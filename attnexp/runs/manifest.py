"""Manifest of a study: `OUT/STUDY/study.json` holds its plan and the runs of each variant.

The runs are in `OUT/runs/`, where studies share them. A study is one plan: seeds may join it, other
settings, data or kinds of seeds may not.
"""

import glob
import json
import os
import shlex
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from annotated_types import MinLen
from pydantic import TypeAdapter

from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.base.files import atomic_write, reading
from attnexp.runs import store
from attnexp.runs.result import Run
from attnexp.statistics.defaults import MARGIN

FILE = "study.json"
FINGERPRINT = "data.fingerprint"  # of what runs read, among the settings of a plan
LOCK_SECONDS = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedRun:
    """A run that a study planned."""

    variant: str
    seed: str  # its name, as `labels.replicate` gives it
    run_id: str

    @property
    def key(self) -> tuple[str, str]:
        """Equal for runs that replace each other: same variant, settings and data, other code."""
        return self.variant, self.run_id.partition("-")[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """Everything that `study.json` holds, besides its schema."""

    variants: Annotated[dict[str, dict[str, str]], MinLen(1)]
    """Levels of two crossed factors (or nothing), keyed by label; the baseline comes first."""
    settings: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    """Settings of the plan, its kind of seeds left out, by variant, data set and key. Empty in a
    study that was written before plans were recorded."""
    seed_kind: str = "seed"  # keys of the seeds that differ between runs, joined by ` x `
    commands: list[str] = field(default_factory=list)  # that planned these runs, the last one last
    runs: list[PlannedRun] = field(default_factory=list)  # in the order of the variants
    sequential: bool = False  # whether seeds are added because of results
    added_seeds: list[str] = field(default_factory=list)  # after a study was once complete
    metric: str = "accuracy"  # that is judged
    margin: float = MARGIN  # smallest difference that matters, as a share


def load_manifest(folder: Path) -> Manifest | None:
    """Study of a folder; None without one. Raises `UserError` if it cannot be read."""
    file = folder / FILE
    if not file.exists():
        return None
    with reading(file, "Delete it and sweep again: finished runs are kept."):
        tree = json.loads(file.read_bytes())
        if declaration := tree.get("declaration"):  # An earlier version wrote this study.
            tree |= {"sequential": True, "margin": declaration["margin"]}
        return TypeAdapter(Manifest).validate_python(tree)


def describe_other_plan(folder: Path, stored: Manifest, planned: Manifest) -> str:
    """That the study of a folder is of another plan, and in which words its command differs; empty
    where runs may join, such as those of fixed seeds and a sequential study of one plan."""
    if _plan_of(stored) == _plan_of(planned):
        return ""
    differing = set[str]()
    for study in (stored, planned):
        differing ^= {*shlex.split(" ".join(study.commands[-1:]))}
    words = shlex.join(sorted(differing)) or "data, files or default settings"
    return f"{folder} holds another plan (it differs in {words})."


def _plan_of(study: Manifest) -> tuple[object, ...]:
    """What is the same for all runs of a study. The baseline is the first of the variants."""
    baseline = next(iter(study.variants))
    return baseline, study.variants, study.settings, study.seed_kind, study.metric, study.margin


def record_runs(folder: Path, planned: Manifest) -> None:
    """Add the runs of one command, which `planned.commands` holds, to the study of a folder; of
    what other commands planned, finished runs stay. Raises `UserError` for another plan, and where
    the study cannot be read or written."""
    with store.lock(folder, wait=LOCK_SECONDS):  # two sweeps of a study may begin at once
        folder.mkdir(parents=True, exist_ok=True)
        if stored := load_manifest(folder):
            if reason := describe_other_plan(folder, stored, planned):
                raise UserError(f"{reason} Give another name=NAME.")
            planned = _merge(stored, planned, folder)
        with atomic_write(folder / FILE) as file:
            file.write(json.dumps({"schema": 2, **asdict(planned)}, indent=1).encode())


def _merge(stored: Manifest, planned: Manifest, folder: Path) -> Manifest:
    """The stored study with the runs of a new command of the same plan."""
    replaced = {run.key for run in planned.runs}
    out = folder.absolute().parent
    kept = [run for run in stored.runs if run.key not in replaced]
    if stored.commands[-1:] != planned.commands:  # Sweeps of one command may have begun at once.
        kept = [run for run in kept if store.has_finished(store.run_dir(out, run.run_id))]
    order = list(planned.variants)
    other_commands = [command for command in stored.commands if command not in planned.commands]
    return replace(
        planned,
        commands=other_commands + planned.commands,
        runs=sorted(planned.runs + kept, key=lambda run: order.index(run.variant)),
        sequential=planned.sequential or stored.sequential,
        added_seeds=list(dict.fromkeys(stored.added_seeds + planned.added_seeds)),
    )


def load_runs(folder: Path, left_out: Callable[[str], object] = progress.note) -> list[Run]:
    """The finished runs of a study, under its variants' names, or those below another folder.
    left_out: called with a message for each run and study that cannot be read. Raises `UserError`
    where there is no folder, and for a damaged study."""
    runs: list[Run] = []
    for path, label, sequential in _list_runs(check_folder(folder), left_out):
        with store.leaving_out(path, left_out):
            if store.has_finished(path):
                result = store.load_result(path)
                runs.append(Run(path=path, result=result, label=label, sequential=sequential))
    return runs


def _list_runs(folder: Path, left_out: Callable[[str], object]) -> list[tuple[Path, str, bool]]:
    """The runs that `list_folders` finds, in the order of their studies: folder, variant in the
    study of this folder (or nothing), and whether a study that has it is sequential."""
    study = load_manifest(folder)
    if study is not None:
        planned = zip(list_folders(folder), study.runs, strict=True)
        return [(path, run.variant, study.sequential) for path, run in planned]
    sequential: dict[str, bool] = {}
    # Studies lie beside the folder of runs. A later one counts.
    for out in (folder.absolute().parent, folder):
        for file in sorted(out.glob(f"*/{FILE}")):
            with store.leaving_out(file, left_out):
                if study := load_manifest(file.parent):
                    sequential |= {run.run_id: study.sequential for run in study.runs}
    order = {run_id: index for index, run_id in enumerate(sequential)}
    paths = sorted(list_folders(folder), key=lambda path: order.get(path.name, len(order)))
    return [(path, "", sequential.get(path.name, False)) for path in paths]


def list_folders(root: Path) -> list[Path]:
    """Folders of the runs that a study planned, or of those below another folder, finished or not.
    Raises `UserError` for a damaged study."""
    study = load_manifest(root)
    if study is not None:
        return [store.run_dir(root.parent, run.run_id) for run in study.runs]
    results, configs = (
        {(root / file).parent for file in glob.iglob(f"**/{name}", root_dir=root, recursive=True)}
        for name in (store.RESULT, store.CONFIG)
    )
    # Other programs have files of the name of `CONFIG`, too.
    return sorted(results | {path for path in configs if store.RUN_ID.fullmatch(path.name)})


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
    finished = list(filter(store.has_finished, list_folders(folder)))
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
