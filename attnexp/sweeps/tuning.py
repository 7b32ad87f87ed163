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
    jobs: list[Job]  # its runs in the sweep that follows


@dataclass(frozen=True, kw_only=True, slots=True)
class Tuning:
    """A search, and the sweep that follows it."""

    search: Sweep  # every variant at every setting of the grid, on held-out data
    untuned: Sweep  # every variant without a setting of the grid
    candidates: dict[str, list[Candidate]]  # by variant, one for each setting of the grid


def is_tuning(word: str) -> bool:
    """Whether a word belongs to the search rather than to runs."""
    return word.startswith(("tune=", "tune."))


def plan_tuning(words: Words, metric: MetricSpec = ACCURACY) -> Tuning:
    """Plan the search and what follows it. Raises `UserError` if any of the words is wrong."""
    run_words, grid_words, search_words = _sort_words(words)
    untuned = plan(run_words, metric)
    grid = _expand_grid(grid_words, untuned)
    search_levels = {}
    search_jobs: list[Job] = []
    candidates = defaultdict[str, list[Candidate]](list)
    for chosen in grid:
        in_words = " ".join(chosen)
        chosen_levels = {key_of(word): word for word in chosen}
        labels = {variant: f"{variant} {in_words}" for variant in untuned.levels_by_label}
        final_labels = {name: f"{name}, {in_words} (best of {len(grid)})" for name in labels}
        jobs_of_search = _plan_as(labels, [*search_words, *chosen])
        final_jobs = _plan_as(final_labels, [*run_words, *chosen])
        for variant, label in labels.items():
            search_levels[label] = untuned.levels_by_label[variant] | chosen_levels
            search_jobs += jobs_of_search[variant]
            candidates[variant].append(Candidate(label, final_jobs[variant]))
    _refuse_seeds(untuned.jobs, search_jobs)
    command = command_of(words, metric)  # It resumes both sweeps.
    folder = untuned.directory
    untuned = replace(untuned, command=command, directory=folder.with_name(f"{folder.name}_tuned"))
    search = replace(
        untuned,
        directory=folder.with_name(f"{folder.name}_tuning"),
        levels_by_label=search_levels,
        jobs=by_seed(each_once(search_jobs)),
        metric=ACCURACY,  # which chooses settings, whatever is judged
    )
    return Tuning(search=search, untuned=untuned, candidates=candidates)


def _plan_as(labels: dict[str, str], words: Words) -> dict[str, list[Job]]:
    """Jobs that words plan, under new labels by variant. No setting changes their order."""
    planned = plan(words)
    jobs = {}
    for (variant, new), label in zip(labels.items(), planned.levels_by_label, strict=True):
        jobs[variant] = [replace(job, label=new) for job in planned.jobs if job.label == label]
    return jobs


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
    fixed_keys = {"data", "train", *SOURCE_OF_DATA, *compared_keys}  # train: the protocol
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
    without_seeds = [word for word in run_words if not is_seed(word.partition("=")[0])]
    # The user's seeds come last: of words with one key the last counts.
    seed_words = [f"seed={values}" for values in seeds]
    search_words = ["train.protocol=holdout", "seed=range(1000,1003)", *seed_words]
    return run_words, grid_words, [*without_seeds, *search_words]


def choose_settings(tuning: Tuning, entries: Entries) -> tuple[Sweep, list[str]]:
    """The sweep of each variant at the setting of highest mean accuracy on held-out data, or the
    first such; and a line on each setting. Raises `RunFailed` if a variant has no such mean."""
    untuned = tuning.untuned
    # Under holdout a run is judged at an epoch that held-out data choose, under blog at its last.
    judges_last = untuned.jobs[0].config.train.protocol is Protocol.blog
    means = _held_out_accuracies(entries, judges_last=judges_last)
    lines = []
    levels_by_label = {}
    jobs: list[Job] = []
    for variant, candidates in tuning.candidates.items():
        for candidate in candidates:
            mean = means.get(candidate.search_label)
            outcome = "a run failed" if mean is None else f"held-out accuracy {mean:.2f} %"
            lines.append(f"{candidate.search_label}: {outcome}")
        finished = [candidate for candidate in candidates if candidate.search_label in means]
        if not finished:
            message = f"{variant}: every setting of the search has a failed run."
            labels = {candidate.search_label for candidate in candidates}
            failed = [entry for entry in entries if not entry.run and entry.job.label in labels]
            failures = [f"{entry.job}: {entry.failure}" for entry in failed]
            raise RunFailed("\n".join([message, *failures]))
        best = max(finished, key=lambda candidate: means[candidate.search_label])
        levels_by_label[best.jobs[0].label] = untuned.levels_by_label[variant]
        jobs += best.jobs
    return replace(untuned, levels_by_label=levels_by_label, jobs=by_seed(jobs)), lines


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
