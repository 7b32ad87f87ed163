"""Manifest of a study: `OUT/STUDY/study.json` holds its plan and the runs of each variant.

The runs are in `OUT/runs/`, where studies share them. A study is one plan: more seeds of its
`seed_kind` may join it; other settings, data or kinds of seeds may not."""

import json
import shlex
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from annotated_types import MinLen
from pydantic import TypeAdapter

from attnexp.base.errors import UserError
from attnexp.base.files import atomic_write, reading, writing
from attnexp.config.settings import Flat
from attnexp.runs import store
from attnexp.runs.labels import NOT_COMPARED
from attnexp.statistics.defaults import MARGIN

FILE = "study.json"
FINGERPRINT = "data.fingerprint"  # key of the digest of what runs read, beside their settings
LOCK_SECONDS = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedRun:
    """A run that a study planned."""

    variant: str
    seed: str  # its name, as `labels.seed_name` gives it
    run_id: str  # name of its folder: the id, or ID-2 and so on

    @property
    def key(self) -> tuple[str, str]:
        """Variant and digest of settings. A new run replaces the stored one of its key."""
        return self.variant, store.settings_digest_of(self.run_id)


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """Everything that `study.json` holds."""

    variants: Annotated[dict[str, dict[str, str]], MinLen(1)]
    """By label, the baseline first: `{factor: level}` of two crossed factors, or empty."""
    settings: dict[str, dict[str, Flat]]
    """As in `settings["rotary"]["imdb"]["train.lr"]`; all but the seeds of `seed_kind`."""
    seed_kind: str = "seed"  # what differs between runs: `seed`, or `seeds.init x seeds.order`
    commands: Annotated[list[str], MinLen(1)]  # by their ends; the first is there from its start
    runs: list[PlannedRun] = field(default_factory=list)  # in the order of the variants
    sequential: bool = False  # whether seeds are added because of results
    added_seeds: list[str] = field(default_factory=list)  # after a study was once complete
    metric: str = "accuracy"  # that is judged
    margin: float = MARGIN  # smallest difference that matters, as a share


def load_manifest(folder: Path) -> Manifest | None:
    """Manifest in a folder; None without one. Raises `UserError` if it cannot be read."""
    file = folder / FILE
    if not file.exists():
        return None
    with reading(file, "Delete it and sweep again: finished runs are kept."):
        return _parse(file.read_bytes())


_parse = lru_cache(TypeAdapter(Manifest).validate_json)  # Many runs ask for the same studies.


def describe_other_plan(folder: Path, planned: Manifest) -> str:
    """Why runs of `planned` may not join the study of a folder: their kind of seeds, or the words
    in which the commands differ; empty for one plan, be it of fixed seeds or sequential."""
    stored = load_manifest(folder)
    if stored is None or _plan_of(stored) == _plan_of(planned):
        return ""
    if stored.seed_kind != planned.seed_kind:
        difference = f"the kind of seeds: {stored.seed_kind}, here {planned.seed_kind}"
    else:
        words = _differing_words(stored, planned)
        difference = shlex.join(words) or "data, files or default settings"
    return f"{folder} holds another plan (it differs in {difference})."


def _differing_words(stored: Manifest, planned: Manifest) -> list[str]:
    """Words in which the last commands differ, but for those that are no part of a plan."""
    stored_words = set(shlex.split(stored.commands[-1]))
    planned_words = set(shlex.split(planned.commands[-1]))
    of_no_plan = {"--until", "decided", "name", *NOT_COMPARED, *stored.seed_kind.split(" x ")}
    differing = []
    for word in sorted(stored_words ^ planned_words):
        key, _, _ = word.partition("=")
        if key not in of_no_plan and not key.startswith("executor"):
            differing.append(word)
    return differing


def _plan_of(manifest: Manifest) -> tuple[object, ...]:
    """What all runs of a study share. Equal dicts may differ in order, so the baseline is named."""
    baseline = next(iter(manifest.variants))
    metric = (manifest.metric, manifest.margin)
    return baseline, manifest.variants, manifest.settings, manifest.seed_kind, metric


def record_runs(folder: Path, manifest: Manifest, *, has_ended: bool = True) -> None:
    """Add the runs of a command, with its manifest, to the study of a folder. Once another command
    than the last has ended, it is the last, and unfinished runs of others go, unless any of theirs
    is under way. Raises `Busy`, and `UserError` for another plan and where no study can be read."""
    with store.lock(folder, wait=LOCK_SECONDS), writing(folder):  # Two sweeps may begin at once.
        folder.mkdir(parents=True, exist_ok=True)
        if reason := describe_other_plan(folder, manifest):
            raise UserError(f"{reason} Give another name=NAME.")
        if stored := load_manifest(folder):
            manifest = _merge(stored, manifest, folder, has_ended)
        with atomic_write(folder / FILE) as file:
            file.write(json.dumps(asdict(manifest), indent=1).encode())


def _merge(stored: Manifest, added: Manifest, folder: Path, has_ended: bool) -> Manifest:
    """The stored study with the runs of a command of the same plan, as `record_runs` adds them."""
    out = folder.absolute().parent
    new_keys = {run.key for run in added.runs}
    others = [run for run in stored.runs if run.key not in new_keys]
    commands = stored.commands
    (command,) = added.commands
    if has_ended and command != commands[-1]:  # The last began the study, or has ended before.
        commands = [other for other in commands if other != command] + [command]
        if not any(store.is_locked(store.run_dir(out, run.run_id)) for run in others):
            others = [run for run in others if store.has_finished(store.run_dir(out, run.run_id))]
    order = list(added.variants)
    return replace(
        added,
        commands=commands,
        runs=sorted(added.runs + others, key=lambda run: order.index(run.variant)),
        sequential=added.sequential or stored.sequential,
        added_seeds=list(dict.fromkeys(stored.added_seeds + added.added_seeds)),
    )
