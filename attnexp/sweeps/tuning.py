"""Search for every variant's best settings before a sweep: `attnexp sweep tune=train.lr=1e-4,1e-3`.

Each variant gets the same grid. Its settings are compared on held-out train data with seeds that
are not judged, so neither the main sweep's seeds nor the test set choose anything.
"""

import itertools
from collections import defaultdict
from dataclasses import dataclass, replace
from statistics import fmean
from typing import NamedTuple

from attnexp.analysis.metrics import ACCURACY
from attnexp.base.errors import RunFailed, UserError
from attnexp.config.schema import Protocol, is_seed
from attnexp.config.study import Words
from attnexp.config.words import expand, key_of
from attnexp.statistics.verdict import MetricSpec
from attnexp.sweeps.plan import Jobs, Sweep, command_of, plan
from attnexp.sweeps.schedule import Entries

NOT_TUNED = {"data", "data.path", "train"}  # keys of the data and the protocol


class Candidate(NamedTuple):
    """A variant of the main sweep, tried with a setting."""

    variant: str
    setting: tuple[str, ...]  # words of the grid, such as `train.lr=0.001`
    search_label: str  # under which it is tried
    jobs: Jobs  # of the main sweep, should it win


@dataclass(frozen=True, kw_only=True, slots=True)
class Tuning:
    """A search, and the main sweep that follows it."""

    search: Sweep  # every variant at every setting of the grid, on held-out data
    main: Sweep  # every variant as it would be without a search
    candidates: list[Candidate]  # those of each variant in the order of the grid


def is_tuning(word: str) -> bool:
    """Whether a word belongs to the search rather than to runs."""
    return word.startswith(("tune=", "tune."))


def plan_tuning(words: Words, metric: MetricSpec = ACCURACY) -> Tuning:
    """Plan the search and the main sweep. Raises `UserError` if any of the words is wrong."""
    run_words, grid_words, seed_words = _sort_words(words)
    unseeded_words = [word for word in run_words if not is_seed(key_of(word))]
    main = plan(run_words, metric)
    held_out = ["train.protocol=holdout", "seed=range(1000,1003)", *seed_words]
    search = plan([*unseeded_words, *grid_words, *held_out])
    keys, axes = zip(*expand(grid_words), strict=True)
    settings = list(dict.fromkeys(itertools.product(*axes)))
    # A key that the sweep varies, too, replaces its axis.
    is_whole = len(search.variants) == len(main.variants) * len(settings)
    if NOT_TUNED.intersection(keys) or any(map(is_seed, keys)) or not is_whole:
        raise UserError("tune= takes settings other than the data, the protocol and seeds.")
    plans = [plan([*run_words, *setting]) for setting in settings]
    search_labels = iter(search.variants)  # The last words vary fastest.
    candidates = []
    for index, variant in enumerate(main.variants):
        for setting, planned in zip(settings, plans, strict=True):
            label = list(planned.variants)[index]  # Without axes it holds the setting, too.
            jobs = [job for job in planned.jobs if job.label == label]
            candidates.append(Candidate(variant, setting, next(search_labels), jobs))
    seeds = {job.config.seed for job in main.jobs}
    if seeds.intersection(job.config.seed for job in search.jobs):
        raise UserError("tune.seeds= must be other seeds than those of the study.")
    command = command_of(words, metric)
    folder = main.directory
    search = replace(search, directory=folder.with_name(f"{folder.name}_tuning"), command=command)
    main = replace(main, directory=folder.with_name(f"{folder.name}_tuned"), command=command)
    return Tuning(search=search, main=main, candidates=candidates)


def _sort_words(words: Words) -> tuple[Words, Words, Words]:
    """Words of runs, of the grid, and of the search's seeds."""
    run_words = []
    grid_words = []
    seed_words = []
    for word in words:
        key, _, value = word.partition("=")
        if key == "tune":
            grid_words.append(value)
        elif key == "tune.seeds":
            seed_words.append(f"seed={value}")
        else:
            run_words.append(word)
    if not grid_words or any(map(is_tuning, run_words)):
        raise UserError("Write tune=KEY=V1,V2 and, for other seeds of the search, tune.seeds=1,2.")
    return run_words, grid_words, seed_words


def choose_settings(tuning: Tuning, entries: Entries) -> tuple[Sweep, list[str]]:
    """The main sweep, each variant at its best setting, which its label says; and a line on each
    setting tried. Best is the highest mean held-out accuracy, of the last epoch or, where the sweep
    chooses epochs, of the best one; the first of equals. Raises `RunFailed` where all runs fail."""
    main = tuning.main
    is_last = main.jobs[0].config.train.protocol is Protocol.blog
    means = _held_out_accuracies(entries, is_last=is_last)
    lines = []
    for candidate in tuning.candidates:
        mean = means.get(candidate.search_label)
        outcome = "a run failed" if mean is None else f"held-out accuracy {mean:.2f} %"
        lines.append(f"{candidate.search_label}: {outcome}")
    variants = {}
    jobs = []
    for variant, levels in main.variants.items():
        candidates = [each for each in tuning.candidates if each.variant == variant]
        finished = [candidate for candidate in candidates if candidate.search_label in means]
        if not finished:
            raise RunFailed(f"{variant}: every setting of the search has a failed run.")
        best = max(finished, key=lambda candidate: means[candidate.search_label])
        label = f"{variant}, {' '.join(best.setting)} (best of {len(candidates)})"
        variants[label] = levels
        jobs += [replace(job, label=label) for job in best.jobs]
    jobs.sort(key=lambda job: (job.config.seed, job.seed))
    return replace(main, variants=variants, jobs=jobs), lines


def _held_out_accuracies(entries: Entries, *, is_last: bool) -> dict[str, float]:
    """Mean accuracy in % by label, of the last epoch or each run's best, where no run failed."""
    accuracies = defaultdict[str, list[float]](list)
    failed = {entry.job.label for entry in entries if entry.failure is not None}
    for entry in entries:
        if entry.run and entry.job.label not in failed:
            result = entry.run.result
            epoch = result.final if is_last else result.own_best
            accuracies[entry.job.label].append(100 * epoch.val_accuracy)
    return {label: fmean(values) for label, values in accuracies.items()}
