"""What a study, or any sweep, is made of: `OUT/STUDY/study.json` says which runs are which variant.

The runs themselves are in `OUT/runs/`, where several studies may share them.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from filelock import FileLock

from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.base.files import atomic_write, writing
from attnexp.base.names import check_name
from attnexp.runs import store
from attnexp.runs.declaration import Declaration
from attnexp.runs.result import Run

FILE = "study.json"
SCHEMA = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A run that was planned."""

    variant: str
    seed: str
    """Its name, as `identity.replicate` gives it."""
    run_id: str

    @property
    def place(self) -> tuple[str, str]:
        """What a later run replaces: the same variant, settings and data, of other code."""
        return self.variant, self.run_id.partition("-")[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """Everything that `study.json` holds, besides its schema."""

    variants: dict[str, dict[str, str]]
    """By label, the baseline first: its level of each of two crossed factors, or nothing."""
    commands: list[str] = field(default_factory=list)
    """What planned these runs."""
    runs: list[Entry] = field(default_factory=list)
    """In the order of the variants."""
    declaration: Declaration | None = None
    """Of a study whose seeds are added until it is decided."""

    def crossings(self) -> Iterator[tuple[str, str, str, str]]:
        """Every four variants that make a difference of differences, (1 − 2) − (3 − 4).

        1 has a level of its own of both factors, 2 and 3 have the baseline's of the first and of
        the second, 4 is the baseline.
        """
        (baseline, baselines), *others = self.variants.items()
        labels = {tuple(levels.values()): label for label, levels in self.variants.items()}
        for label, levels in others:
            if len(baselines) == 2 and levels and not set(levels.items()) & set(baselines.items()):
                (one, other), (base, other_base) = levels.values(), baselines.values()
                yield label, labels[base, other], labels[one, other_base], baseline


def record(folder: Path, planned: Manifest) -> None:
    """Write down what is planned, together with what was planned in this folder before.

    Raises `UserError` without a place, and where something else was declared before.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):  # two sweeps of one study may begin at once
            planned = _merge(load(folder) or planned, planned)
            with atomic_write(folder / FILE) as file:
                file.write(json.dumps({"schema": SCHEMA, **asdict(planned)}, indent=1).encode())


def load(folder: Path) -> Manifest | None:
    """What `record` wrote, None where it wrote nothing. `UserError` for what cannot be read."""
    file = folder / FILE
    try:
        tree = json.loads(file.read_text())
        if tree.pop("schema") != SCHEMA:
            raise ValueError(f"this attnexp reads schema {SCHEMA}")
        declared = tree.get("declaration")
        found = Manifest(
            **{
                **tree,
                "runs": [Entry(**entry) for entry in tree["runs"]],
                "declaration": Declaration.from_json(declared) if declared else None,
            }
        )
        _check(found)
        return found
    except FileNotFoundError:
        return None
    except store.NOT_A_RESULT as error:
        raise UserError(
            f"{file} cannot be used ({error}). Delete it and sweep again: finished runs are kept."
        ) from error
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}.") from error


def _check(found: Manifest) -> None:
    """Raise where it is not what `record` writes."""
    levels = [level for variant in found.variants.values() for level in variant.values()]
    texts = [*found.variants, *levels, *found.commands]
    texts += [text for run in found.runs for text in (run.variant, run.seed, run.run_id)]
    if not (found.commands and found.runs and all(isinstance(text, str) for text in texts)):
        raise TypeError("it lacks runs, commands or their names")
    for label in found.variants:
        check_name(label, "a variant")
    if unknown := {run.variant for run in found.runs} - found.variants.keys():
        raise ValueError(f"it has no variant {', '.join(sorted(unknown))}")


def load_runs(
    folders: Sequence[Path], left_out: Callable[[str], object] = progress.note
) -> list[Run]:
    """The finished runs of studies, under their variants' names, and of bare folders, without.

    left_out: told why, of each run and study that cannot be read. Raises `UserError` for a folder
    without any finished run, and where none can be read.
    """
    unique: dict[tuple[str, str], Run] = {}
    reasons: list[str] = []
    for folder in folders:
        if not folder.is_dir():
            raise UserError(f"There is no folder {folder}. Results are under outputs/, or out=DIR.")
        before = len(reasons)
        found: list[Run] = []
        try:
            study = load(folder)
        except UserError as error:
            reasons.append(str(error))
        else:
            if study is None:
                found = store.load_folder(folder, reasons.append)
            else:
                found = _of_study(folder, study, reasons.append)
        if not found and len(reasons) == before:
            raise UserError(f"There is no finished run in {folder}.")
        for run in found:
            key = run.result.run_id, run.label
            studies = unique[key].studies if key in unique else ()
            unique[key] = replace(run, studies=(*studies, *run.studies))
    if not unique:
        raise UserError("\n".join(["There is no finished run that can be read:", *reasons]))
    for reason in reasons:
        left_out(reason)
    return list(unique.values())


def _of_study(folder: Path, study: Manifest, left_out: Callable[[str], object]) -> list[Run]:
    found, missing = [], 0
    for entry in study.runs:
        path = store.run_dir(folder.parent, entry.run_id)
        if not store.has_finished(path):
            missing += 1
            continue
        try:
            result = store.load(path)
        except UserError as error:
            left_out(str(error))
        else:
            found.append(Run(path=path, result=result, label=entry.variant, studies=(folder,)))
    if missing:
        progress.note(
            f"{folder}: {missing} of {len(study.runs)} runs are missing. This makes them: "
            f"{study.commands[-1]}"
        )
    return found


def _merge(old: Manifest, new: Manifest) -> Manifest:
    """Both, variant by variant, as the new one has it where they differ; but what was declared
    stays."""
    if old.declaration and new.declaration:
        old.declaration.expect(new.declaration)
    replaced = {entry.place for entry in new.runs}
    runs = [*new.runs, *(entry for entry in old.runs if entry.place not in replaced)]
    variants = new.variants | {k: v for k, v in old.variants.items() if k not in new.variants}
    order = list(variants)
    return Manifest(
        variants=variants,
        commands=list(dict.fromkeys([*old.commands, *new.commands])),
        runs=sorted(runs, key=lambda entry: order.index(entry.variant)),
        declaration=old.declaration or new.declaration,
    )
