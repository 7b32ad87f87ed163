"""Search for every variant's best settings before a study: `attnexp sweep tune=train.lr=1e-4,1e-3`.

Each variant gets the same grid. Its settings are compared on held-out train data with seeds that
are not judged, so neither the study's seeds nor the test set choose anything.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from attnexp.analysis.metrics import ACCURACY
from attnexp.base.errors import RunFailed, UserError
from attnexp.config.schema import Protocol, is_seed
from attnexp.config.words import expand, key_of
from attnexp.runs.result import Run
from attnexp.statistics.verdict import MetricSpec
from attnexp.sweeps.plan import Job, Sweep, command_of, plan
from attnexp.sweeps.schedule import SweepEntry


@dataclass(frozen=True, kw_only=True, slots=True)
class Tuning:
    """A search, and the study that follows it."""

    search: Sweep  # every variant at every setting of the grid, on held-out data
    study: Sweep  # every variant as it would be without a search
    candidates: dict[str, list[Job]]  # jobs of the study by setting, such as `train.lr=0.001`


def is_tuning(word: str) -> bool:
    """Whether a word belongs to the search rather than to runs."""
    return word.startswith(("tune=", "tune."))


def plan_tuning(words: Sequence[str], metric: MetricSpec = ACCURACY) -> Tuning:
    """Plan the search and its study. Raises `UserError` if any of the words is wrong."""
    run_words, grid_words, seed_words = _sort_words(words)
    unseeded_words = [word for word in run_words if not is_seed(key_of(word))]
    study = plan(run_words, metric)
    held_out = ["train.protocol=holdout", "seed=range(1000,1003)", *seed_words]
    search = plan([*unseeded_words, *grid_words, *held_out])
    candidates = {
        " ".join(setting): plan([*run_words, *setting]).jobs
        for setting in itertools.product(*expand(grid_words))
    }
    if len(search.variants) != len(study.variants) * len(candidates):
        raise UserError("tune= takes settings other than the data, the protocol and seeds.")
    seeds = {job.config.seed for job in study.jobs}
    if any(job.config.seed in seeds for job in search.jobs):
        raise UserError("tune.seeds= must be other seeds than those of the study.")
    command = command_of(words, metric)
    name = study.directory.name
    search_folder = study.directory.with_name(f"{name}_tuning")
    study_folder = study.directory.with_name(f"{name}_tuned")
    search = replace(search, directory=search_folder, command=command)
    study = replace(study, directory=study_folder, command=command)
    return Tuning(search=search, study=study, candidates=candidates)


def _sort_words(words: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    run_words = []
    grid = []
    seed_words = []
    for word in words:
        if word.startswith("tune="):
            grid.append(word.removeprefix("tune="))
        elif word.startswith("tune.seeds="):
            seed_words.append(word.replace("tune.seeds=", "seed="))
        else:
            run_words.append(word)
    if not grid or any(map(is_tuning, run_words)):
        raise UserError("Write tune=KEY=V1,V2 and, for other seeds of the search, tune.seeds=1,2.")
    return run_words, grid, seed_words


def choose_settings(tuning: Tuning, entries: Sequence[SweepEntry]) -> tuple[Sweep, list[str]]:
    """The study with every variant at its best setting, which its label says, and a line on each
    setting tried. Best is the highest mean held-out accuracy, of the last epoch or, where the study
    chooses epochs, of the best one; the first of equals. Raises `RunFailed` where all runs fail."""
    study = tuning.study
    is_last = study.jobs[0].config.train.protocol is Protocol.blog
    search_means = _held_out_accuracies(entries, is_last=is_last)
    # Both are ordered by variant, then by setting: `plan` varies the last words, the grid, fastest.
    pairs = itertools.product(study.variants, tuning.candidates)
    means = dict(zip(pairs, search_means.values(), strict=True))
    variants = {}
    jobs = []
    for variant, factors in study.variants.items():
        best = max(tuning.candidates, key=lambda setting: means[variant, setting])
        if means[variant, best] == -math.inf:
            raise RunFailed(f"{variant}: every setting of the search has a failed run.")
        label = f"{variant}, {best} (best of {len(tuning.candidates)})"
        variants[label] = factors
        chosen = tuning.candidates[best]
        # Without axes a candidate's labels hold its setting, too; they are in the same order.
        labels = dict.fromkeys(job.label for job in chosen)
        own_labels = dict(zip(study.variants, labels, strict=True))
        own_jobs = [job for job in chosen if job.label == own_labels[variant]]
        jobs += [replace(job, label=label) for job in own_jobs]
    jobs.sort(key=lambda job: job.config.seed)
    lines = []
    for search_label, mean in search_means.items():
        outcome = "a run failed" if mean == -math.inf else f"held-out accuracy {mean:.2f} %"
        lines.append(f"{search_label}: {outcome}")
    return replace(study, variants=variants, jobs=jobs), lines


def _held_out_accuracies(entries: Iterable[SweepEntry], *, is_last: bool) -> dict[str, float]:
    """Mean accuracy in % by label, of the last epoch or each run's best; -inf where one failed."""
    accuracies = defaultdict[str, list[float]](list)
    for entry in entries:
        accuracy = -math.inf
        if isinstance(entry.outcome, Run):
            result = entry.outcome.result
            accuracy = 100 * (result.final if is_last else result.own_best).val_accuracy
        accuracies[entry.job.label].append(accuracy)
    return {label: fmean(values) for label, values in accuracies.items()}
