"""Search for every variant's best settings before a study: `attnexp sweep tune=train.lr=1e-4,1e-3`.

Each variant gets the same grid. Its settings are compared on held-out train data with seeds that
are not judged, so neither the study's seeds nor the test set choose anything.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from attnexp.analysis.metrics import ACCURACY
from attnexp.base.errors import RunFailed, UserError
from attnexp.config.schema import Protocol, is_seed
from attnexp.config.words import key_of
from attnexp.runs.result import Run
from attnexp.statistics.verdict import MetricSpec
from attnexp.sweeps.plan import Job, Sweep, command_of, plan
from attnexp.sweeps.schedule import SweepEntry

Parts = tuple[str, ...]  # of a label: variant of the study, then words of the setting


@dataclass(frozen=True, kw_only=True, slots=True)
class Tuning:
    """A search, and the study that follows it."""

    search: Sweep  # every variant at every setting of the grid, on held-out data
    study: Sweep  # every variant as it would be without a search
    candidates: list[Job]  # runs of the study at every setting of the grid, labelled as in `search`


def is_tuning(word: str) -> bool:
    """Whether a word belongs to the search rather than to runs."""
    return word.startswith(("tune=", "tune."))


def plan_tuning(words: Sequence[str], metric: MetricSpec = ACCURACY) -> Tuning:
    """Plan the search and its study. Raises `UserError` if any of the words is wrong."""
    run_words, grid, seed_words = _sort_words(words)
    unseeded_words = [word for word in run_words if not is_seed(key_of(word))]
    held_out = ["train.protocol=holdout", "seed=range(1000,1003)", *seed_words]
    search = plan([*unseeded_words, *grid, *held_out])
    study = plan(run_words, metric)
    if len(search.variants) == len(study.variants):
        raise UserError("tune= has one value. Give it several to choose from: tune=KEY=V1,V2.")
    seeds = {job.config.seed for job in study.jobs}
    if any(job.config.seed in seeds for job in search.jobs):
        raise UserError("tune.seeds= must be other seeds than those of the study.")
    command = command_of(words, metric)
    name = study.directory.name
    search_folder = study.directory.with_name(f"{name}_tuning")
    study_folder = study.directory.with_name(f"{name}_tuned")
    return Tuning(
        search=replace(search, directory=search_folder, command=command),
        study=replace(study, directory=study_folder, command=command),
        candidates=plan([*run_words, *grid]).jobs,
    )


def _sort_words(words: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """Words of the runs, of the grid and of the search's seeds. Raises `UserError` where there is
    no grid, or a key of it is set twice."""
    run_words: list[str] = []
    grid: list[str] = []
    seed_words: list[str] = []
    for word in words:
        if word.startswith("tune="):
            grid.append(word.removeprefix("tune="))
        elif word.startswith("tune.seeds="):
            seed_words.append(word.replace("tune.seeds=", "seed="))
        else:
            run_words.append(word)
    if not grid or any(map(is_tuning, run_words)):
        raise UserError("Write tune=KEY=V1,V2 and, for other seeds of the search, tune.seeds=1,2.")
    keys = ["seed", *map(key_of, run_words), *map(key_of, grid)]
    for key in map(key_of, grid):
        if keys.count(key) > 1:
            raise UserError(
                f"tune={key}: the sweep itself sets this, or another tune= does. Leave one out."
            )
    return run_words, grid, seed_words


def choose_settings(tuning: Tuning, entries: Sequence[SweepEntry]) -> tuple[Sweep, list[str]]:
    """The study with every variant at its best setting, which its label says, and a line on each
    setting tried. Best is the highest mean held-out accuracy, of the last epoch or, where the study
    chooses epochs, of the best one; the first of equals. Raises `RunFailed` where all runs fail."""
    study = tuning.study
    protocol = study.jobs[0].config.train.protocol
    is_last = protocol is Protocol.blog
    point = "final" if is_last else "best"
    means = _held_out_accuracies(entries, "final" if is_last else "own_best")
    parts_of_variants = {job.label: job.parts for job in study.jobs}
    variants: dict[str, dict[str, str]] = {}
    jobs: list[Job] = []
    lines: list[str] = []
    for variant, factors in study.variants.items():
        num_parts = len(parts_of_variants[variant])  # the rest of a label's parts is the setting
        tried = {
            job.parts: job.label
            for job in tuning.candidates
            if job.parts[:num_parts] == parts_of_variants[variant]
        }
        for parts, label in tried.items():
            accuracy = f"held-out accuracy {means[parts]:.2f} % ({point} epoch)"
            lines.append(f"{label}: {accuracy if means[parts] >= 0 else 'a run failed'}")
        best = max(tried, key=means.__getitem__)
        if means[best] < 0:
            raise RunFailed(f"{variant}: every setting of the search has a failed run.")
        tuned_label = f"{variant}, {' '.join(best[num_parts:])} of {len(tried)}"
        variants[tuned_label] = factors
        jobs += [replace(job, label=tuned_label) for job in tuning.candidates if job.parts == best]
        for word in _words_at_ends(best, tried, num_parts):
            lines.append(f"{variant}: {word} is an end of its grid; a value beyond may be better.")
    jobs.sort(key=lambda job: job.config.seed)
    return replace(study, variants=variants, jobs=jobs), lines


def _words_at_ends(best: Parts, tried: Iterable[Parts], num_parts: int) -> list[str]:
    """Words of the best setting whose value is the least or largest number of those tried."""
    ends: list[str] = []
    for place, word in enumerate(best[num_parts:], num_parts):
        values = {parts[place].partition("=")[2] for parts in tried}
        try:
            in_order = sorted(values, key=float)
        except ValueError:  # Names have no order.
            continue
        if word.partition("=")[2] in (in_order[0], in_order[-1]):
            ends.append(word)
    return ends


def _held_out_accuracies(entries: Iterable[SweepEntry], point: str) -> dict[Parts, float]:
    """Mean accuracy in % by parts of a label; -inf where a run failed. point: field of a result."""
    accuracies = defaultdict[Parts, list[float]](list)
    for entry in entries:
        accuracy = -math.inf
        if isinstance(entry.outcome, Run):
            epoch = getattr(entry.outcome.result, point)
            accuracy = 100 * epoch.val_accuracy
        accuracies[entry.job.parts].append(accuracy)
    return {parts: fmean(values) for parts, values in accuracies.items()}
