"""Search for every variant's best settings before a sweep: `attnexp sweep tune=train.lr=1e-4,1e-3`.

Each variant gets the same grid. Its settings are compared on held-out train data with seeds that
are not judged, so neither the main sweep's seeds nor the test set choose anything.
"""

import itertools
import math
from collections import defaultdict
from dataclasses import dataclass, replace
from statistics import fmean

from attnexp.analysis.metrics import ACCURACY
from attnexp.base.errors import RunFailed, UserError
from attnexp.config.schema import Protocol, is_seed
from attnexp.config.study import Words
from attnexp.config.words import expand, key_of
from attnexp.runs.result import Run
from attnexp.statistics.verdict import MetricSpec
from attnexp.sweeps.plan import Job, Sweep, command_of, plan
from attnexp.sweeps.schedule import Entries

Setting = tuple[str, ...]  # words of the grid, such as `train.lr=0.001`
Choice = tuple[str, Setting]  # a variant of the main sweep, and what it is tried with
NOT_TUNED = {"data", "data.path", "train"}  # keys of the data and the protocol


@dataclass(frozen=True, kw_only=True, slots=True)
class Tuning:
    """A search, and the main sweep that follows it."""

    search: Sweep  # every variant at every setting of the grid, on held-out data
    main: Sweep  # every variant as it would be without a search
    settings: list[Setting]  # of the grid
    labels: dict[Choice, str]  # under which the search has this choice
    jobs: dict[Choice, list[Job]]  # of the main sweep, should it be this choice


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
    settings = list(dict.fromkeys(itertools.product(*expand(grid_words))))
    choices = list(itertools.product(main.variants, settings))
    keys = set(map(key_of, grid_words))
    if keys & NOT_TUNED or any(map(is_seed, keys)) or len(search.variants) != len(choices):
        raise UserError("tune= takes settings other than the data, the protocol and seeds.")
    labels = dict(zip(choices, search.variants, strict=True))  # The last words vary fastest.
    jobs = {}
    for setting in settings:
        planned = plan([*run_words, *setting])
        # Variants are as in the main sweep, but without axes a label holds the setting, too.
        for variant, label in zip(main.variants, planned.variants, strict=True):
            jobs[variant, setting] = [job for job in planned.jobs if job.label == label]
    seeds = {job.config.seed for job in main.jobs}
    if any(job.config.seed in seeds for job in search.jobs):
        raise UserError("tune.seeds= must be other seeds than those of the study.")
    command = command_of(words, metric)
    folder = main.directory
    search = replace(search, directory=folder.with_name(f"{folder.name}_tuning"), command=command)
    main = replace(main, directory=folder.with_name(f"{folder.name}_tuned"), command=command)
    return Tuning(search=search, main=main, settings=settings, labels=labels, jobs=jobs)


def _sort_words(words: Words) -> tuple[Words, Words, Words]:
    """Words of runs, of the grid, and of the search's seeds."""
    run_words = []
    grid_words = []
    seed_words = []
    for word in words:
        if word.startswith("tune="):
            grid_words.append(word.removeprefix("tune="))
        elif word.startswith("tune.seeds="):
            seed_words.append(word.replace("tune.seeds=", "seed="))
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
    for search_label, mean in means.items():
        outcome = "a run failed" if mean == -math.inf else f"held-out accuracy {mean:.2f} %"
        lines.append(f"{search_label}: {outcome}")
    variants = {}
    jobs = []
    for variant, levels in main.variants.items():
        best = max(tuning.settings, key=lambda setting: means[tuning.labels[variant, setting]])
        if means[tuning.labels[variant, best]] == -math.inf:
            raise RunFailed(f"{variant}: every setting of the search has a failed run.")
        label = f"{variant}, {' '.join(best)} (best of {len(tuning.settings)})"
        variants[label] = levels
        jobs += [replace(job, label=label) for job in tuning.jobs[variant, best]]
    jobs.sort(key=lambda job: job.config.seed)
    return replace(main, variants=variants, jobs=jobs), lines


def _held_out_accuracies(entries: Entries, *, is_last: bool) -> dict[str, float]:
    """Mean accuracy in % by label, of the last epoch or each run's best; -inf where one failed."""
    accuracies = defaultdict[str, list[float]](list)
    for entry in entries:
        accuracy = -math.inf
        if isinstance(entry.outcome, Run):
            result = entry.outcome.result
            accuracy = 100 * (result.final if is_last else result.own_best).val_accuracy
        accuracies[entry.job.label].append(accuracy)
    return {label: fmean(values) for label, values in accuracies.items()}
