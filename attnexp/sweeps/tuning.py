"""Search for every variant's best settings before a sweep: `attnexp sweep tune=train.lr=1e-4,1e-3`.

Each variant gets the same grid. Held-out train data and seeds that are not judged choose from it.
"""

import itertools
from collections import defaultdict
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import NamedTuple

from attnexp.analysis.metrics import ACCURACY
from attnexp.base.errors import RunFailed, UserError
from attnexp.config.schema import Protocol, is_seed
from attnexp.config.study import Words
from attnexp.config.words import expand, key_of
from attnexp.statistics.verdict import MetricSpec
from attnexp.sweeps.plan import Job, Jobs, Sweep, by_seed, command_of, plan
from attnexp.sweeps.schedule import Entries


class Candidate(NamedTuple):
    """A setting of the grid, tried with a variant of the main sweep."""

    search_label: str  # under which it is tried
    label: str  # under which it runs in the main sweep, should it win
    jobs: Jobs  # then those of the main sweep


@dataclass(frozen=True, kw_only=True, slots=True)
class Tuning:
    """A search, and the main sweep that follows it."""

    search: Sweep  # every variant at every setting of the grid, on held-out data
    main: Sweep  # every variant as it would be without a search
    candidates: dict[str, list[Candidate]]  # by label of the main sweep; in the order of the grid


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
    settings = list(dict.fromkeys(itertools.product(*axes)))
    is_fit = not any(is_seed(key) or key in ("data", "data.path", "train") for key in keys)
    # A key that the sweep varies, too, replaces its axis.
    is_whole = len(search.levels_by_label) == len(main.levels_by_label) * len(settings)
    if not (is_fit and is_whole):
        raise UserError("tune= takes settings other than data, protocol, seeds and what is varied.")
    if _seeds_of(main) & _seeds_of(search):  # Seeds that judge must not choose.
        raise UserError(
            "tune.seeds= must be other seeds than those of the study, which may set no seeds.*."
        )
    tried = itertools.product(main.levels_by_label, settings)  # The last words vary fastest.
    search_labels = dict(zip(tried, search.levels_by_label, strict=True))
    candidates = defaultdict[str, list[Candidate]](list)
    for setting in settings:
        planned = plan([*run_words, *setting])  # Without axes its label has the setting, too.
        for variant, old_label in zip(main.levels_by_label, planned.levels_by_label, strict=True):
            label = f"{variant}, {' '.join(setting)} (best of {len(settings)})"
            jobs = [replace(job, label=label) for job in planned.jobs if job.label == old_label]
            candidates[variant].append(Candidate(search_labels[variant, setting], label, jobs))
    command = command_of(words, metric)
    folder = main.directory
    search = replace(search, directory=folder.with_name(f"{folder.name}_tuning"), command=command)
    main = replace(main, directory=folder.with_name(f"{folder.name}_tuned"), command=command)
    return Tuning(search=search, main=main, candidates=candidates)


def _seeds_of(sweep: Sweep) -> set[int]:
    """All seeds of a sweep, of whatever source of chance."""
    seeds: set[int] = set()
    for job in sweep.jobs:
        seeds |= {job.config.seed, *asdict(job.config.seeds).values()}
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
    first such; and a line on each setting. Raises `RunFailed` where each has a failed run."""
    main = tuning.main
    is_last = main.jobs[0].config.train.protocol is Protocol.blog  # else an epoch is chosen, too
    means = _held_out_accuracies(entries, is_last=is_last)
    lines = []
    levels_by_label = {}
    jobs: list[Job] = []
    for variant, levels in main.levels_by_label.items():
        candidates = tuning.candidates[variant]
        for candidate in candidates:
            mean = means.get(candidate.search_label)
            outcome = "a run failed" if mean is None else f"held-out accuracy {mean:.2f} %"
            lines.append(f"{candidate.search_label}: {outcome}")
        finished = [candidate for candidate in candidates if candidate.search_label in means]
        if not finished:
            raise RunFailed(f"{variant}: every setting of the search has a failed run.")
        best = max(finished, key=lambda candidate: means[candidate.search_label])
        levels_by_label[best.label] = levels
        jobs += best.jobs
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
