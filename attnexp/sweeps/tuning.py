"""Search for every variant's best settings before a sweep: `attnexp sweep tune=train.lr=1e-4,1e-3`.

Each variant gets the same grid. Held-out train data and seeds that are not judged choose from it.
"""

import itertools
from collections import defaultdict
from dataclasses import dataclass, replace
from statistics import fmean

from attnexp.analysis.metrics import ACCURACY
from attnexp.base.errors import RunFailed, UserError
from attnexp.config.options import flatten
from attnexp.config.schema import Protocol, is_seed
from attnexp.config.study import Words
from attnexp.config.words import expand, key_of
from attnexp.statistics.verdict import MetricSpec
from attnexp.sweeps.plan import Job, Sweep, by_seed, command_of, plan
from attnexp.sweeps.schedule import Entries


@dataclass(frozen=True, kw_only=True, slots=True)
class Tuning:
    """A search, and the main sweep that follows it."""

    search: Sweep  # every variant at every setting of the grid, on held-out data
    main: Sweep  # every variant as it would be without a search
    candidates: dict[str, dict[str, list[Job]]]  # by label of `main`, then of `search`


def is_tuning(word: str) -> bool:
    """Whether a word belongs to the search rather than to runs."""
    return word.startswith(("tune=", "tune."))


def plan_tuning(words: Words, metric: MetricSpec = ACCURACY) -> Tuning:
    """Plan the search and the main sweep. Raises `UserError` if any of the words is wrong."""
    run_words, grid_words, seed_words = _sort_words(words)
    main = plan(run_words, metric)
    unseeded_words = [word for word in run_words if not is_seed(key_of(word))]
    search_words = ["train.protocol=holdout", "seed=range(1000,1003)", *seed_words]
    search = plan([*unseeded_words, *grid_words, *search_words])  # on held-out data
    keys, axes = zip(*expand(grid_words), strict=True)
    fixed_keys = {"data", "data.path", "study", "train"}.union(*main.levels_by_label.values())
    if any(is_seed(key) or key in fixed_keys for key in keys):
        raise UserError("tune= takes settings other than data, protocol, seeds and what is varied.")
    if _seeds_of(main) & _seeds_of(search):  # Seeds that judge must not choose.
        raise UserError(
            "tune.seeds= must be other seeds than those of the study, which may set no seeds.*."
        )
    settings = dict.fromkeys(itertools.product(*axes))  # each once
    candidates = defaultdict[str, dict[str, list[Job]]](dict)
    for setting in settings:
        planned = plan([*run_words, *setting])  # the variants of `main`, in its order
        variants = zip(main.levels_by_label.items(), planned.levels_by_label, strict=True)
        for (variant, levels), old_label in variants:
            label = f"{variant}, {' '.join(setting)} (best of {len(settings)})"
            jobs = [replace(job, label=label) for job in planned.jobs if job.label == old_label]
            tried_levels = levels | dict(zip(keys, setting, strict=True))
            candidates[variant][_find_label(search, tried_levels)] = jobs
    command = command_of(words, metric)  # Either study is continued by this.
    folder = main.directory
    search = replace(search, directory=folder.with_name(f"{folder.name}_tuning"), command=command)
    main = replace(main, directory=folder.with_name(f"{folder.name}_tuned"), command=command)
    return Tuning(search=search, main=main, candidates=candidates)


def _find_label(sweep: Sweep, levels: dict[str, str]) -> str:
    """Label of the variant at these levels. A sweep tells only those that it varies."""
    of_sweep = sweep.levels_by_label.items()
    return next(label for label, own_levels in of_sweep if own_levels.items() <= levels.items())


def _seeds_of(sweep: Sweep) -> set[int]:
    """All seeds of a sweep, of whatever source of chance."""
    seeds: set[int] = set()
    for job in sweep.jobs:
        seeds |= {*flatten(job.seeds).values()}
    return seeds - {None}


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
    """The main sweep, each variant at the setting of highest mean accuracy on held-out data, or the
    first such; and a line on each setting. Raises `RunFailed` if a variant has no such mean."""
    main = tuning.main
    is_last = main.jobs[0].config.train.protocol is Protocol.blog  # else an epoch is chosen, too
    means = _held_out_accuracies(entries, is_last=is_last)
    lines = []
    for label in tuning.search.levels_by_label:
        outcome = f"held-out accuracy {means[label]:.2f} %" if label in means else "a run failed"
        lines.append(f"{label}: {outcome}")
    levels_by_label = {}
    jobs: list[Job] = []
    for variant, levels in main.levels_by_label.items():
        candidates = tuning.candidates[variant]
        finished = [label for label in candidates if label in means]
        if not finished:
            message = f"{variant}: every setting of the search has a failed run."
            failures = [f"{entry.job}: {entry.failure}" for entry in entries if not entry.run]
            raise RunFailed("\n".join([message, *failures]))
        best = max(finished, key=means.__getitem__)
        best_jobs = candidates[best]
        levels_by_label[best_jobs[0].label] = levels
        jobs += best_jobs
    return replace(main, levels_by_label=levels_by_label, jobs=by_seed(jobs)), lines


def _held_out_accuracies(entries: Entries, *, is_last: bool) -> dict[str, float]:
    """Mean accuracy in % by label, of the last epoch or each run's best, where no run failed."""
    accuracies = defaultdict[str, list[float]](list)
    failed = {entry.job.label for entry in entries if entry.failure is not None}
    for entry in entries:
        if entry.run and entry.job.label not in failed:
            epoch = entry.run.result.final if is_last else entry.run.result.own_best
            accuracies[entry.job.label].append(100 * epoch.val_accuracy)
    return {label: fmean(values) for label, values in accuracies.items()}
