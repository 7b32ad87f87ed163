"""Manifest of a study or sweep: `OUT/STUDY/study.json` says which runs are which variant.

The runs themselves are in `OUT/runs/`, where several studies may share them.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from filelock import FileLock

from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.base.files import atomic_write, writing
from attnexp.runs import store
from attnexp.runs.result import Run

FILE = "study.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """Planned run."""

    variant: str
    seed: str  # its name, as `identity.replicate` gives it
    run_id: str

    @property
    def place(self) -> tuple[str, str]:
        """Key of runs that replace each other: same variant, settings and data, other code."""
        return self.variant, self.run_id.partition("-")[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class Declaration:
    """Rule of a study that adds seeds until it is decided, declared before its first run."""

    metric: str  # endpoint at which accuracy decides, such as `final`
    margin: float = 0.0025  # smallest difference of accuracy that matters, as a share
    alpha: float = 0.05
    g: float = 0.25  # parameter of the anytime-valid interval


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """Everything that `study.json` holds, besides its schema."""

    variants: dict[str, dict[str, str]]
    """Levels of two crossed factors (or nothing), keyed by label; the baseline comes first."""
    commands: list[str] = field(default_factory=list)  # that planned these runs, the last one last
    runs: list[Entry] = field(default_factory=list)  # planned, in the order of the variants
    declaration: Declaration | None = None


def load(folder: Path) -> Manifest | None:
    """Study of a folder; None without one. Raises `UserError` if it cannot be read."""
    file = folder / FILE
    try:
        tree = json.loads(file.read_bytes())
        declared = tree["declaration"]
        return Manifest(
            variants=tree["variants"],
            commands=tree["commands"],
            runs=[Entry(**{k: one[k] for k in Entry.__slots__}) for one in tree["runs"]],
            declaration=declared and Declaration(**declared),
        )
    except FileNotFoundError:
        return None
    except (OSError, *store.NOT_A_RESULT) as error:
        raise UserError(
            f"{file} cannot be read ({error}). Delete it and sweep again: finished runs are kept."
        ) from error


def record(folder: Path, planned: Manifest) -> None:
    """Add the runs of one command, which `planned.commands` holds, to the study of a folder.

    Where both have a variant, the new plan counts. Of what other commands planned, finished runs
    stay. Raises `UserError` if the study cannot be read or written.
    """
    with _editing(folder):
        old, out = load(folder) or planned, folder.absolute().parent
        if planned.declaration and old.declaration not in (None, planned.declaration):
            raise UserError(f"{folder} has declared {old.declaration}. Give another out=DIR.")
        done = [one for one in old.runs if store.has_finished(store.run_dir(out, one.run_id))]
        is_same = old.commands[-1:] == planned.commands  # one that adds seeds plans several times
        places = {entry.place for entry in planned.runs}
        kept = [one for one in (old.runs if is_same else done) if one.place not in places]
        order = list(variants := {**planned.variants, **old.variants, **planned.variants})
        study = Manifest(
            variants=variants,
            commands=[c for c in old.commands if c not in planned.commands] + planned.commands,
            runs=sorted([*planned.runs, *kept], key=lambda entry: order.index(entry.variant)),
            declaration=planned.declaration or old.declaration,
        )
        _write(folder, study)


def forget(folder: Path, run_id: str) -> None:
    """Take a run out of a study, whose files stay. Raises `UserError` if it is not there."""
    with _editing(check_folder(folder)):
        study = load(folder)
        kept = [one for one in study.runs if one.run_id != run_id] if study else []
        if study is None or len(kept) == len(study.runs):
            raise UserError(f"{folder} is no study with a run {run_id}. Name the study's folder.")
        _write(folder, replace(study, runs=kept))


def load_runs(folder: Path, left_out: Callable[[str], object] = progress.note) -> list[Run]:
    """The finished runs of a study, under its variants' names, or of another folder, under those of
    a study beside them, if any. left_out: called with a message for each run that cannot be read.
    Raises `UserError` for a folder without any run that can, and for a study that cannot be read.
    """
    folder = check_folder(folder)
    found = list[Run]()
    if study := load(folder):
        declared = study.declaration is not None
        paths = [(store.run_dir(folder.parent, e.run_id), e.variant, declared) for e in study.runs]
    else:
        paths = _named(folder)
    for path, label, declared in paths:
        if store.has_finished(path):
            try:
                result = store.load(path)
                found.append(Run(path=path, result=result, label=label, declared=declared))
            except UserError as error:
                left_out(str(error))
    if not found:
        raise UserError(f"There is no finished run in {folder} that can be read.")
    return found


def _named(folder: Path) -> list[tuple[Path, str, bool]]:
    """Runs in a folder, each with its name and whether it is declared, by the studies near it."""
    outs = [*reversed(folder.absolute().parents[:2]), folder]  # the nearest study, last, counts
    near = (load(file.parent) for out in outs for file in sorted(out.glob(f"*/{FILE}")))
    studies = [study for study in near if study]
    labels = {entry.run_id: entry.variant for study in studies for entry in study.runs}
    declared = {entry.run_id for study in studies if study.declaration for entry in study.runs}
    places = {run_id: place for place, run_id in enumerate(labels)}
    paths = sorted(file.parent for file in folder.rglob(store.RESULT))
    paths.sort(key=lambda path: places.get(path.name, len(places)))
    return [(path, labels.get(path.name, ""), path.name in declared) for path in paths]


def check_folder(folder: Path) -> Path:
    """A folder that the user names; `.` and `..` in full, since runs lie beside a study. Raises
    `UserError` if it is none."""
    if not folder.is_dir():
        raise UserError(f"There is no folder {folder}. Results are under outputs/, or out=DIR.")
    return Path(os.path.abspath(folder)) if folder.name in ("", "..") else folder


@contextmanager
def _editing(folder: Path) -> Iterator[None]:
    """Lock the study of a folder, which is made if need be: two sweeps of it may begin at once."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):
            yield


def _write(folder: Path, study: Manifest) -> None:
    with atomic_write(folder / FILE) as file:
        file.write(json.dumps({"schema": 1, **asdict(study)}, indent=1).encode())
