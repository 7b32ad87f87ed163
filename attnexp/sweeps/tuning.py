"""Search for every variant's best settings before a study: `attnexp sweep tune=train.lr=1e-4,1e-3`.

Each variant gets the same grid. Its settings are compared on held-out train data with seeds that
are not judged, so neither the study's seeds nor the test set choose anything.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from attnexp.base.errors import RunFailed, UserError
from attnexp.config.schema import Protocol, is_seed
from attnexp.config.words import expand, key_of
from attnexp.runs.result import Run
from attnexp.sweeps.plan import Job, Sweep, plan
from attnexp.sweeps.schedule import SweepEntry


@dataclass(frozen=True, kw_only=True, slots=True)
class Tuning:
    """A search, and the study that follows it."""

    search: Sweep  # every variant at every setting of the grid, on held-out data
    study: Sweep  # every variant as it would be without a search
    judged: list[Job]  # runs of the study at every setting of the grid, labelled as in `search`
    grid_words: frozenset[str]  # the words of all settings of the grid


def is_tuning(word: str) -> bool:
    """Whether a word belongs to the search rather than to runs."""
    return word.startswith(("tune=", "tune."))


def plan_tuning(words: Sequence[str]) -> Tuning:
    """Plan the search and its study. Raises `UserError` if any of the words is wrong."""
    run_words = [word for word in words if not is_tuning(word)]
    grid, seed_word = _read_tuning_words(words)
    set_keys = {"seed"} | {key_of(word) for word in run_words}
    for word in grid:
        key = key_of(word)
        if key in set_keys:
            raise UserError(f"tune={key}: the sweep itself sets this. Tune another setting.")
    unseeded_words = [word for word in run_words if not is_seed(key_of(word))]
    search = plan([*unseeded_words, *grid, "train.protocol=holdout", seed_word])
    study = plan(run_words)
    if {job.config.seed for job in search.jobs} & {job.config.seed for job in study.jobs}:
        raise UserError("tune.seeds= must be other seeds than those of the study.")
    command = shlex.join(["attnexp", "sweep", *words])
    folder = study.directory
    search_folder = folder.with_name(f"{folder.name}_tuning")
    study_folder = folder.with_name(f"{folder.name}_tuned")
    return Tuning(
        search=replace(search, directory=search_folder, command=command),
        study=replace(study, directory=study_folder, command=command),
        judged=plan([*run_words, *grid]).jobs,
        grid_words=frozenset(word for axis in expand(grid) for _, word in axis),
    )


def _read_tuning_words(words: Sequence[str]) -> tuple[list[str], str]:
    """Words of the grid, and the word of the search's seeds."""
    grid: list[str] = []
    values = {"tune.seeds": "range(1000,1003)"}
    for word in filter(is_tuning, words):
        key, _, value = word.partition("=")
        if key == "tune":
            grid.append(value)
        else:
            values[key] = value
    if not grid or len(values) > 1:
        raise UserError("Write tune=KEY=V1,V2 and, for other seeds of the search, tune.seeds=1,2.")
    return grid, f"seed={values['tune.seeds']}"


def choose_settings(tuning: Tuning, entries: Sequence[SweepEntry]) -> tuple[Sweep, list[str]]:
    """The study with every variant at its best setting, which its label says; and a line on each
    variant and setting of the search. Best is the highest mean held-out accuracy, of the last epoch
    or, where the study chooses epochs, of the best one; the first of equals, and none with a failed
    run. Raises `RunFailed` for a variant that has no other."""
    study = tuning.study
    point = "final" if study.jobs[0].config.train.protocol is Protocol.blog else "best"
    parts_of = {job.label: set(job.parts) for job in study.jobs}
    variants: dict[str, dict[str, str]] = {}
    jobs: list[Job] = []
    lines: list[str] = []
    for variant, factors in study.variants.items():
        candidates = [
            job for job in tuning.judged if set(job.parts) - tuning.grid_words == parts_of[variant]
        ]
        labels = {job.parts: job.label for job in candidates}
        means: dict[tuple[str, ...], float] = {}
        for parts, label in labels.items():
            mean = _held_out_accuracy(entries, parts, point)
            if mean is None:
                lines.append(f"{label}: a run failed")
            else:
                means[parts] = mean
                lines.append(f"{label}: held-out accuracy {mean:.2f} % ({point} epoch)")
        if not means:
            raise RunFailed(f"{variant}: every setting of the search has a failed run.")
        best = max(means, key=means.__getitem__)
        setting = " ".join(part for part in best if part in tuning.grid_words)
        label = f"{variant}, {setting} of {len(labels)}"
        variants[label] = factors
        jobs += [replace(job, label=label) for job in candidates if job.parts == best]
    jobs.sort(key=lambda job: job.config.seed)
    return replace(study, variants=variants, jobs=jobs), lines


def _held_out_accuracy(
    entries: Sequence[SweepEntry], parts: tuple[str, ...], point: str
) -> float | None:
    """Mean over the runs of a setting, in %; None where one failed. point: `final` or `best`."""
    outcomes = [entry.outcome for entry in entries if entry.job.parts == parts]
    runs = [outcome for outcome in outcomes if isinstance(outcome, Run)]
    if len(runs) < len(outcomes):
        return None
    return fmean(100 * getattr(run.result, point).val_accuracy for run in runs)
