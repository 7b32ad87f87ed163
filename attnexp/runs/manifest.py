"""Manifest of a study or sweep: `OUT/STUDY/study.json` says which runs are which variant.

The runs themselves are in `OUT/runs/`, where several studies may share them.
"""

import json
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from filelock import FileLock

from attnexp.base import progress
from attnexp.base.errors import UserError, check_name
from attnexp.base.files import atomic_write, writing
from attnexp.config.compose import is_executor
from attnexp.runs import store
from attnexp.runs.identity import replicate
from attnexp.runs.points import best_epoch, metrics_at
from attnexp.runs.result import Run, RunResult
from attnexp.statistics import anytime
from attnexp.statistics.paired import MARGIN, paired
from attnexp.statistics.verdict import ALPHA

FILE = "study.json"
SCHEMA = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """Planned run."""

    variant: str
    seed: str
    """Name of the seed, as `identity.replicate` gives it."""
    run_id: str

    @property
    def place(self) -> tuple[str, str]:
        """Key of runs that replace each other: same variant, settings and data, other code."""
        return self.variant, self.run_id.partition("-")[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class Declaration:
    """Declaration made before the first run of a study that adds seeds until it is decided."""

    metric: str
    """Endpoint: the evaluation point at which accuracy decides, such as `final`."""
    margin: float = MARGIN
    alpha: float = ALPHA
    g: float = anytime.G

    def decide(self, runs: Iterable[Run], variants: Sequence[str]) -> dict[str, anytime.Decision]:
        """Decisions by variant; the first of `variants` is the baseline. A variant that shares no
        seed with it has none."""
        results: dict[str, dict[str, RunResult]] = {label: {} for label in variants}
        for run in runs:  # newest first, so that runs of older code do not replace newer ones
            results[run.label].setdefault(replicate(run.result.config), run.result)
        found = {label: self._accuracies(by_seed) for label, by_seed in results.items()}
        base, *others = variants
        num_texts = [result.data["n_test"] for by in results.values() for result in by.values()]
        step = 1 / min(num_texts, default=1)
        pairs = {
            label: paired(found[label], found[base], margin=self.margin, step=step)
            for label in others
        }
        shared = {label: pair for label, pair in pairs.items() if pair is not None}
        return anytime.decide(shared, alpha=self.alpha, g=self.g)

    def _accuracies(self, by_seed: Mapping[str, RunResult]) -> dict[str, float]:
        """Accuracy of each seed of a variant at the declared endpoint."""
        best = best_epoch([*by_seed.values()]) if by_seed else 0
        return {
            seed: metrics_at(result, self.metric, best)["accuracy"]
            for seed, result in by_seed.items()
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """Everything that `study.json` holds, besides its schema."""

    variants: dict[str, dict[str, str]]
    """Levels of two crossed factors (or nothing), keyed by label; the baseline comes first."""
    commands: list[str] = field(default_factory=list)
    """Commands that planned these runs."""
    runs: list[Entry] = field(default_factory=list)
    """Planned runs, in the order of the variants."""
    declaration: Declaration | None = None
    """Endpoint of a study whose seeds are added until it is decided."""

    def crossings(self) -> Iterator[tuple[str, str, str, str]]:
        """Every four variants that make a difference of differences, (1 − 2) − (3 − 4).

        1 has a level of its own of both factors, 2 and 3 have the baseline's of the first and of
        the second, 4 is the baseline.
        """
        baseline, *others = self.variants
        labels = {tuple(levels.values()): label for label, levels in self.variants.items()}
        for label in others:
            (one, other), (base, other_base) = self._levels(label), self._levels(baseline)
            second, third = labels.get((base, other)), labels.get((one, other_base))
            if one != base and other != other_base and second and third:
                yield label, second, third, baseline

    def within(self) -> Iterator[tuple[str, str]]:
        """Every two variants that differ in the first factor alone: one with a level of its own,
        and one with the baseline's level."""
        labels = {tuple(levels.values()): label for label, levels in self.variants.items()}
        base, _ = self._levels(next(iter(self.variants)))
        for label in self.variants:
            one, other = self._levels(label)
            if one != base and (baseline := labels.get((base, other))):
                yield label, baseline

    def _levels(self, label: str) -> tuple[str, str]:
        """Levels of two crossed factors; two empty ones without."""
        first, second = self.variants[label].values() or ("", "")
        return first, second


def record(folder: Path, planned: Manifest) -> None:
    """Add planned runs to the manifest of a folder.

    Where the two differ in a variant, the new plan counts; what was declared stays. Raises
    `UserError` without a place, and where something else was declared before.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):  # two sweeps of one study may begin at once
            old = load(folder) or planned
            _check_declared(old, planned)
            replaced = {entry.place for entry in planned.runs}
            runs = [*planned.runs, *(one for one in old.runs if one.place not in replaced)]
            order = list(variants := {**planned.variants, **old.variants, **planned.variants})
            both = Manifest(
                variants=variants,
                commands=[
                    *{_runs_of(one): one for one in [*old.commands, *planned.commands]}.values()
                ],
                runs=sorted(runs, key=lambda entry: order.index(entry.variant)),
                declaration=old.declaration or planned.declaration,
            )
            with atomic_write(folder / FILE) as file:
                file.write(store.seal({"schema": SCHEMA, **asdict(both)}))


def _runs_of(command: str) -> tuple[str, ...]:
    """Words of a command that decide which runs it makes: all but those of the executor."""
    return tuple(w for w in shlex.split(command) if not is_executor(w.partition("=")[0]))


def load(folder: Path) -> Manifest | None:
    """Manifest of a folder; None without one. Raises `UserError` if it cannot be read."""
    file = folder / FILE
    try:
        content = file.read_bytes()
        tree = json.loads(content)
        if tree.pop("schema") != SCHEMA:
            raise ValueError(f"this attnexp reads schema {SCHEMA}")
        store.check_seal(content, tree)
        declared = tree["declaration"]
        found = Manifest(
            **{
                **tree,
                "runs": [Entry(**entry) for entry in tree["runs"]],
                "declaration": declared and Declaration(**declared),
            }
        )
        if unknown := {run.variant for run in found.runs} - found.variants.keys():
            raise ValueError(f"it has no variant {', '.join(sorted(unknown))}")
        for label in found.variants:
            check_name(label, "a variant")
        return found
    except FileNotFoundError:
        return None
    except store.NOT_A_RESULT as error:
        raise UserError(
            f"{file} cannot be used ({error}). Delete it and sweep again: finished runs are kept."
        ) from error
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}.") from error


def check_folder(folder: Path) -> Path:
    """A folder that the user names; `.` and `..` in full, since runs lie beside a study. Raises
    `UserError` if it is none."""
    if not folder.is_dir():
        raise UserError(f"There is no folder {folder}. Results are under outputs/, or out=DIR.")
    return folder if folder.name.strip(".") else Path(os.path.abspath(folder))


def load_runs(
    folders: Sequence[Path], left_out: Callable[[str], object] = progress.note
) -> list[Run]:
    """The finished runs of studies, under their variants' names, and of bare folders, without. A
    run that is in both is found once, under the name of its variant.

    left_out: called with a message for each run, study and folder that cannot be read. Raises
    `UserError` for a folder without any finished run, and where none can be read.
    """
    unique: dict[tuple[str, str], Run] = {}
    reasons: list[str] = []
    for folder in folders:
        folder = check_folder(folder)
        try:
            study = load(folder)
        except UserError as error:
            reasons.append(str(error))
            continue
        finished = _finished(folder, study, reasons.append)
        if not finished:
            raise UserError("\n".join([f"There is no finished run in {folder}.", *reasons]))
        for path, label in finished:
            try:
                run = Run(path=path, result=store.load(path), label=label)
            except UserError as error:
                reasons.append(str(error))
                continue
            run = unique.get((run.result.run_id, label), run)
            studies = (*run.studies, *([folder] if study else []))
            unique[run.result.run_id, label] = replace(run, studies=studies)
    if not unique:
        raise UserError("\n".join(["There is no finished run that can be read:", *reasons]))
    for reason in reasons:
        left_out(reason)
    named = {run_id for run_id, label in unique if label}
    return [run for (run_id, label), run in unique.items() if label or run_id not in named]


def label_beside(run_dir: Path) -> str:
    """Name of a run's variant in the first study of its output folder that has it, or empty."""
    for file in sorted(run_dir.absolute().parent.parent.glob(f"*/{FILE}")):
        with suppress(UserError):  # a study that cannot be read names nothing
            study = load(file.parent)
            for entry in study.runs if study else []:
                if entry.run_id == run_dir.name:
                    return entry.variant
    return ""


def _finished(
    folder: Path, study: Manifest | None, left_out: Callable[[str], object]
) -> list[tuple[Path, str]]:
    """Folders of the finished runs of a study, or in and under a bare folder, with their labels."""
    if study is None:
        return [(file.parent, "") for file in sorted(folder.rglob(store.RESULT))]
    runs = [(store.run_dir(folder.parent, entry.run_id), entry.variant) for entry in study.runs]
    finished = [(path, label) for path, label in runs if store.has_finished(path)]
    if missing := len(runs) - len(finished):
        progress.note(
            f"{folder}: {missing} of {len(runs)} runs are missing. This makes them: "
            f"{' && '.join(study.commands)}"
        )
    return finished


def _check_declared(old: Manifest, new: Manifest) -> None:
    """Raise `UserError` where something else was declared: an endpoint chosen after the runs would
    not hold its error rate."""
    if not (old.declaration and new.declaration):
        return
    places = {(entry.variant, entry.seed): entry.place for entry in old.runs}
    alike = all(places.get((e.variant, e.seed), e.place) == e.place for e in new.runs)
    alike = alike and [*old.variants] == [*new.variants]
    if old.declaration != new.declaration or not alike:
        raise UserError(
            f"This study was declared with --metric {old.declaration.metric} --margin "
            f"{100 * old.declaration.margin:g}, variants {', '.join(old.variants)} and their "
            f"settings and data, which cannot change under way. Give the same, or another "
            f"place with out=DIR for a new study."
        )
