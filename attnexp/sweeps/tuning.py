"""Search for every variant's best settings before a sweep: `attnexp sweep tune=train.lr=1e-4,1e-3`.

Each variant gets the same grid, from which held-out train data and seeds of their own choose."""

import itertools
from collections import defaultdict
from dataclasses import dataclass, replace
from statistics import fmean
from typing import NamedTuple

from attnexp.analysis.metrics import ACCURACY
from attnexp.base.errors import RunFailed, UserError
from attnexp.config.schema import Protocol, SeedsConfig, is_seed
from attnexp.config.settings import OF_SWEEPS, expand, key_of
from attnexp.config.study import Words
from attnexp.runs.labels import SOURCE_OF_DATA
from attnexp.statistics.verdict import MetricSpec
from attnexp.sweeps.plan import Job, Jobs, Sweep, by_seed, command_of, each_once, plan
from attnexp.sweeps.schedule import Entries


class Candidate(NamedTuple):
    """A variant at one setting of the grid."""

    search_label: str  # of its runs in the search
    jobs: list[Job]  # its runs in the main sweep


@dataclass(frozen=True, kw_only=True, slots=True)
class Tuning:
    """A search, and the main sweep that follows it."""

    search: Sweep  # every variant at every setting of the grid, on held-out data
    main: Sweep  # every variant without a setting of the grid, until `choose_settings`
    candidates: dict[str, list[Candidate]]  # by variant, one for each setting of the grid


def is_tuning(word: str) -> bool:
    """Whether a word belongs to the search rather than to runs."""
    return word.startswith(("tune=", "tune."))


def plan_tuning(words: Words, metric: MetricSpec = ACCURACY) -> Tuning:
    """Plan the search and the main sweep. Raises `UserError` if any of the words is wrong."""
    run_words, grid_words, search_words = _sort_words(words)
    untuned = plan(run_words, metric)
    grid = _expand_grid(grid_words, untuned)
    search_levels = {}
    search_jobs: list[Job] = []
    candidates = defaultdict[str, list[Candidate]](list)
    for chosen in grid:
        in_words = " ".join(chosen)
        chosen_levels = {key_of(word): word for word in chosen}
        jobs_of_search = _jobs_by_variant([*search_words, *chosen], untuned)
        jobs_of_main = _jobs_by_variant([*run_words, *chosen], untuned)
        for variant, levels in untuned.levels_by_label.items():
            search_label = f"{variant} {in_words}"
            main_label = f"{variant}, {in_words} (best of {len(grid)})"
            search_levels[search_label] = levels | chosen_levels
            search_jobs += [replace(job, label=search_label) for job in jobs_of_search[variant]]
            jobs = [replace(job, label=main_label) for job in jobs_of_main[variant]]
            candidates[variant].append(Candidate(search_label, jobs))
    _refuse_seeds(untuned.jobs, search_jobs)
    command = command_of(words, metric)  # It resumes both sweeps.
    folder = untuned.directory
    main = replace(untuned, command=command, directory=folder.with_name(f"{folder.name}_tuned"))
    search = replace(
        main,
        directory=folder.with_name(f"{folder.name}_tuning"),
        levels_by_label=search_levels,
        jobs=by_seed(each_once(search_jobs)),
        metric=ACCURACY,  # which chooses settings, whatever is judged
    )
    return Tuning(search=search, main=main, candidates=candidates)


def _jobs_by_variant(words: Words, untuned: Sweep) -> dict[str, list[Job]]:
    """Jobs that words plan, by the labels of `untuned`: both have one order of variants."""
    planned = plan(words)
    jobs_by_variant = {}
    for variant, label in zip(untuned.levels_by_label, planned.levels_by_label, strict=True):
        jobs_by_variant[variant] = [job for job in planned.jobs if job.label == label]
    return jobs_by_variant


def _refuse_seeds(main_jobs: Jobs, search_jobs: Jobs) -> None:
    """Raise `UserError` if search and judged runs share a seed. A study that sets `seeds.*` is
    refused, too: where it draws the test set anew, the search might train on texts of that."""
    seeds = {job.config.seed for job in main_jobs}
    shared = seeds.intersection(job.config.seed for job in search_jobs)
    if shared or any(job.config.seeds != SeedsConfig() for job in main_jobs):
        raise UserError(
            "tune.seeds= must be other seeds than those of the study, which may set no seeds.*."
        )


def _expand_grid(grid_words: Words, untuned: Sweep) -> list[tuple[str, ...]]:
    """Settings of the grid in words, each once. Raises `UserError` if they allow no search."""
    compared_keys = {key for levels in untuned.levels_by_label.values() for key in levels}
    if len({job.config.train.protocol for job in untuned.jobs}) > 1:
        raise UserError("tune= chooses for one protocol. Compare protocols in a sweep without it.")
    keys, axes = zip(*expand(grid_words), strict=True)
    fixed_keys = {"data", "train", *SOURCE_OF_DATA, *compared_keys}
    if any(is_seed(key) or OF_SWEEPS.match(key) or key in fixed_keys for key in keys):
        raise UserError("tune= takes settings other than data, protocol, seeds and what is varied.")
    return list(dict.fromkeys(itertools.product(*axes)))


def _sort_words(words: Words) -> tuple[Words, Words, Words]:
    """Words of the main sweep, of the grid, and of the search, whose seeds are its own."""
    run_words = [word for word in words if not word.startswith(("tune=", "tune.seeds="))]
    grid_words = [word.removeprefix("tune=") for word in words if word.startswith("tune=")]
    seeds = [word.removeprefix("tune.seeds=") for word in words if word.startswith("tune.seeds=")]
    if not grid_words or any(map(is_tuning, run_words)):
        raise UserError("Write tune=KEY=V1,V2 and, for other seeds of the search, tune.seeds=1,2.")
    without_seeds = [word for word in run_words if not is_seed(key_of(word))]
    # The user's seeds come last: of words with one key the last counts.
    seed_words = [f"seed={values}" for values in seeds]
    search_words = ["train.protocol=holdout", "seed=range(1000,1003)", *seed_words]
    return run_words, grid_words, [*without_seeds, *search_words]


def choose_settings(tuning: Tuning, entries: Entries) -> tuple[Sweep, list[str]]:
    """The main sweep, each variant at the setting of highest mean accuracy on held-out data, or the
    first such; and a line on each setting. Raises `RunFailed` if a variant has no such mean."""
    main = tuning.main
    # Under holdout a run is judged at an epoch that held-out data choose, under blog at its last.
    judges_last = main.jobs[0].config.train.protocol is Protocol.blog
    means = _held_out_accuracies(entries, judges_last=judges_last)
    lines = []
    levels_by_label = {}
    jobs: list[Job] = []
    for variant, candidates in tuning.candidates.items():
        for label, _ in candidates:
            is_finished = label in means
            outcome = f"held-out accuracy {means[label]:.2f} %" if is_finished else "a run failed"
            lines.append(f"{label}: {outcome}")
        finished = [candidate for candidate in candidates if candidate.search_label in means]
        if not finished:
            message = f"{variant}: every setting of the search has a failed run."
            labels = {candidate.search_label for candidate in candidates}
            failed = [entry for entry in entries if not entry.run and entry.job.label in labels]
            failures = [f"{entry.job}: {entry.failure}" for entry in failed]
            raise RunFailed("\n".join([message, *failures]))
        best = max(finished, key=lambda candidate: means[candidate.search_label])
        levels_by_label[best.jobs[0].label] = main.levels_by_label[variant]
        jobs += best.jobs
    return replace(main, levels_by_label=levels_by_label, jobs=by_seed(jobs)), lines


def _held_out_accuracies(entries: Entries, *, judges_last: bool) -> dict[str, float]:
    """Mean accuracy in % by label, of the last epoch or each run's best, where no run failed."""
    accuracies = defaultdict[str, list[float]](list)
    failed = {entry.job.label for entry in entries if entry.failure is not None}
    for entry in entries:
        label = entry.job.label
        if entry.run and label not in failed:
            result = entry.run.result
            epoch = result.final if judges_last else result.own_best
            accuracies[label].append(100 * epoch.val_accuracy)
    return {label: fmean(values) for label, values in accuracies.items()}
