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

USAGE = "Write tune=KEY=V1,V2 and, for other seeds of the search, tune.seeds=1,2."


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
    folder = study.directory
    command = shlex.join(["attnexp", "sweep", *words])
    return Tuning(
        search=replace(
            search, directory=folder.with_name(f"{folder.name}_tuning"), command=command
        ),
        study=replace(study, directory=folder.with_name(f"{folder.name}_tuned"), command=command),
        judged=plan([*run_words, *grid]).jobs,
        grid_words=frozenset(word for axis in expand(grid) for _, word in axis),
    )


def _read_tuning_words(words: Sequence[str]) -> tuple[list[str], str]:
    """Words of the grid, and the word of the search's seeds."""
    grid: list[str] = []
    seed_word = "seed=range(1000,1003)"
    for word in filter(is_tuning, words):
        key, _, value = word.partition("=")
        if key == "tune":
            grid.append(value)
        elif key == "tune.seeds":
            seed_word = f"seed={value}"
        else:
            raise UserError(USAGE)
    if not grid:
        raise UserError(USAGE)
    return grid, seed_word


def choose_settings(tuning: Tuning, entries: Sequence[SweepEntry]) -> tuple[Sweep, list[str]]:
    """The study with every variant at its best setting, which its label says; and a line on what
    the search found for each variant and setting.

    Best is the highest mean held-out accuracy, of the last epoch or, where the study chooses
    epochs, of the best one; the first of equals, and none with a failed run. Raises `RunFailed`
    for a variant that has no other.
    """
    study = tuning.study
    point = "final" if study.jobs[0].config.train.protocol is Protocol.blog else "best"
    search_labels = _labels_by_variant(tuning)
    variants: dict[str, dict[str, str]] = {}
    jobs: list[Job] = []
    lines: list[str] = []
    for variant, factors in study.variants.items():
        means: dict[str, float] = {}
        for label in search_labels[variant]:
            mean = _held_out_accuracy(entries, label, point)
            if mean is None:
                lines.append(f"{label}: a run failed")
            else:
                means[label] = mean
                lines.append(f"{label}: held-out accuracy {mean:.2f} % ({point} epoch)")
        if not means:
            raise RunFailed(f"{variant}: every setting of the search has a failed run.")
        best = max(means, key=means.__getitem__)
        best_jobs = [job for job in tuning.judged if job.label == best]
        setting = " ".join(part for part in best_jobs[0].parts if part in tuning.grid_words)
        label = f"{variant}, {setting} of {len(search_labels[variant])}"
        variants[label] = factors
        jobs += [replace(job, label=label) for job in best_jobs]
    jobs.sort(key=lambda job: job.config.seed)
    return replace(study, variants=variants, jobs=jobs), lines


def _labels_by_variant(tuning: Tuning) -> dict[str, list[str]]:
    """Labels of the search by variant of the study, in the order of the grid."""
    variants = {job.parts: job.label for job in tuning.study.jobs}
    labels: dict[str, list[str]] = {variant: [] for variant in tuning.study.variants}
    for job in tuning.search.jobs:
        parts = tuple(part for part in job.parts if part not in tuning.grid_words)
        labels_of_variant = labels[variants[parts]]
        if job.label not in labels_of_variant:  # it has a job for each seed
            labels_of_variant.append(job.label)
    return labels


def _held_out_accuracy(entries: Sequence[SweepEntry], label: str, point: str) -> float | None:
    """Mean over the runs of a label, in %; None where a run failed. point: `final` or `best`."""
    accuracies = []
    for entry in entries:
        if entry.job.label != label:
            continue
        if not isinstance(entry.outcome, Run):
            return None
        row = getattr(entry.outcome.result, point)
        accuracies.append(100 * row.val_accuracy)
    return fmean(accuracies)
