"""Manifest of a study or sweep: `OUT/STUDY/study.json` says which runs are which variant.

The runs themselves are in `OUT/runs/`, where several studies may share them.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from filelock import FileLock

from attnexp.base import progress
from attnexp.base.errors import UserError, check_name
from attnexp.base.files import atomic_write, writing
from attnexp.runs import store
from attnexp.runs.result import Run

FILE = "study.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """Planned run."""

    variant: str
    seed: str
    """Name of the seed, as `identity.replicate` gives it."""
    run_id: str
    is_wanted: bool = True
    """Whether the last command planned it; nobody misses a run that only earlier ones planned."""

    @property
    def place(self) -> tuple[str, str]:
        """Key of runs that replace each other: same variant, settings and data, other code."""
        return self.variant, self.run_id.partition("-")[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class Declaration:
    """Rule of a study that adds seeds until it is decided, declared before its first run."""

    metric: str
    """Endpoint: the evaluation point at which accuracy decides, such as `final`."""
    margin: float = 0.0025
    """Smallest difference of accuracy that matters, as a share."""
    alpha: float = 0.05
    g: float = 0.25
    """Parameter of the anytime-valid interval."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """Everything that `study.json` holds, besides its schema."""

    variants: dict[str, dict[str, str]]
    """Levels of two crossed factors (or nothing), keyed by label; the baseline comes first."""
    commands: list[str] = field(default_factory=list)
    """Commands that planned these runs, the last one last."""
    runs: list[Entry] = field(default_factory=list)
    """Planned runs, in the order of the variants."""
    declaration: Declaration | None = None


def load(folder: Path) -> Manifest | None:
    """Study of a folder: the runs that its last command planned, and finished ones of earlier
    commands. None without a study. Raises `UserError` if it cannot be read."""
    if (study := _read(folder)) is None:
        return None
    out = folder.absolute().parent
    paths = [store.run_dir(out, one.run_id) for one in study.runs]
    pairs = zip(study.runs, paths, strict=True)
    return replace(study, runs=[e for e, path in pairs if e.is_wanted or store.has_finished(path)])


def record(folder: Path, planned: Manifest) -> None:
    """Add the runs that a command plans, the only one of `planned`, to the study of a folder.

    Where the two differ in a variant, the new plan counts; what was declared stays. Raises
    `UserError` if it cannot be written, and where something else was declared before.
    """
    with _editing(folder):
        old = _read(folder) or planned
        _check_declared(old, planned)
        is_same = old.commands[-1:] == planned.commands  # one that adds seeds plans several times
        places = {entry.place for entry in planned.runs}
        kept = [
            replace(one, is_wanted=one.is_wanted and is_same)
            for one in old.runs
            if one.place not in places
        ]
        commands = [one for one in old.commands if one not in planned.commands] + planned.commands
        order = list(variants := {**planned.variants, **old.variants, **planned.variants})
        runs = sorted([*planned.runs, *kept], key=lambda entry: order.index(entry.variant))
        both = Manifest(variants=variants, commands=commands, runs=runs)
        _write(folder, replace(both, declaration=old.declaration or planned.declaration))


def forget(folder: Path, run_id: str) -> None:
    """Take a run out of a study, whose files stay. Raises `UserError` if it is not there."""
    with _editing(check_folder(folder)):
        study = _read(folder)
        kept = [one for one in study.runs if one.run_id != run_id] if study else []
        if study is None or len(kept) == len(study.runs):
            raise UserError(f"{folder} is no study with a run {run_id}. Name the study's folder.")
        _write(folder, replace(study, runs=kept))


def load_runs(
    folders: Sequence[Path], left_out: Callable[[str], object] = progress.note
) -> list[Run]:
    """The finished runs of studies, under their variants' names, and of other folders, under those
    of a study beside them, if any.

    left_out: called with a message for each run that cannot be read. Raises `UserError` for a
    folder without any finished run, and for a study that cannot be read.
    """
    found: list[Run] = []
    for folder in map(check_folder, folders):
        if (study := load(folder)) is None:
            labels = _labels_beside(folder)
            order = {run_id: place for place, run_id in enumerate(labels)}
            files = sorted(folder.rglob(store.RESULT))
            files.sort(key=lambda file: order.get(file.parent.name, len(order)))
            paths = [(file.parent, labels.get(file.parent.name, "")) for file in files]
        else:
            paths = [(store.run_dir(folder.parent, e.run_id), e.variant) for e in study.runs]
        done = [(path, label) for path, label in paths if store.has_finished(path)]
        if not done:
            raise UserError(f"There is no finished run in {folder}.")
        if study and len(done) < len(paths):
            progress.note(
                f"{folder}: {len(paths) - len(done)} of {len(paths)} runs are missing. This makes "
                f"them: {study.commands[-1]}"
            )
        for path, label in done:
            try:
                found.append(Run(path=path, result=store.load(path), label=label))
            except UserError as error:
                left_out(str(error))
    if not found:
        raise UserError(f"No run in {', '.join(map(str, folders))} can be read.")
    return found


def _labels_beside(folder: Path) -> dict[str, str]:
    """Names of variants by run id, from the studies in the folders around runs."""
    outs = [folder, folder.absolute().parent, folder.absolute().parent.parent]
    studies = [_read(file.parent) for out in outs for file in sorted(out.glob(f"*/{FILE}"))]
    return {entry.run_id: entry.variant for study in studies if study for entry in study.runs}


def check_folder(folder: Path) -> Path:
    """A folder that the user names; `.` and `..` in full, since runs lie beside a study. Raises
    `UserError` if it is none."""
    if not folder.is_dir():
        raise UserError(f"There is no folder {folder}. Results are under outputs/, or out=DIR.")
    return folder if folder.name.strip(".") else Path(os.path.abspath(folder))


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


def _read(folder: Path) -> Manifest | None:
    file = folder / FILE
    try:
        tree = json.loads(file.read_bytes())
        declared = tree["declaration"]
        for label in tree["variants"]:
            check_name(label, "a variant")
        return Manifest(
            variants=tree["variants"],
            commands=tree["commands"],
            runs=[Entry(**entry) for entry in tree["runs"]],
            declaration=declared and Declaration(**declared),
        )
    except FileNotFoundError:
        return None
    except (OSError, *store.NOT_A_RESULT) as error:
        raise UserError(
            f"{file} cannot be read ({error}). Delete it and sweep again: finished runs are kept."
        ) from error


def _check_declared(old: Manifest, new: Manifest) -> None:
    """Raise `UserError` where something else was declared: an endpoint chosen after the runs would
    not hold its error rate."""
    if not (old.declaration and new.declaration):
        return
    places = {(entry.variant, entry.seed): entry.place for entry in old.runs}
    alike = all(places.get((e.variant, e.seed), e.place) == e.place for e in new.runs)
    if old.declaration != new.declaration or [*old.variants] != [*new.variants] or not alike:
        raise UserError(
            f"This study was declared with --metric {old.declaration.metric} --margin "
            f"{100 * old.declaration.margin:g}, variants {', '.join(old.variants)} and their "
            f"settings and data, which cannot change under way. Give the same, or another "
            f"place with out=DIR for a new study."
        )
