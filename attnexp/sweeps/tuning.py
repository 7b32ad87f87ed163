"""Search for every variant's best settings before a study: `attnexp sweep tune=train.lr=1e-4,1e-3`.

Each variant gets the same grid. Its settings are compared on held-out train data with seeds that
are not judged, so neither the study's seeds nor the test set choose anything.
"""

import math
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import filterfalse
from statistics import fmean

from attnexp.base.errors import RunFailed, UserError
from attnexp.config.schema import Protocol, is_seed
from attnexp.config.words import key_of
from attnexp.runs.result import Run
from attnexp.sweeps.plan import Job, Sweep, plan
from attnexp.sweeps.schedule import SweepEntry


@dataclass(frozen=True, kw_only=True, slots=True)
class Tuning:
    """A search, and the study that follows it."""

    search: Sweep  # every variant at every setting of the grid, on held-out data
    study: Sweep  # every variant as it would be without a search
    judged: list[Job]  # runs of the study at every setting of the grid, labelled as in `search`


def is_tuning(word: str) -> bool:
    """Whether a word belongs to the search rather than to runs."""
    return word.startswith(("tune=", "tune."))


def plan_tuning(words: Sequence[str]) -> Tuning:
    """Plan the search and its study. Raises `UserError` if any of the words is wrong."""
    run_words = [*filterfalse(is_tuning, words)]
    grid = [word.removeprefix("tune=") for word in words if word.startswith("tune=")]
    seed_words = [word.replace("tune.seeds", "seed") for word in words if "tune.seeds=" in word]
    num_known = len(run_words) + len(grid) + len(seed_words)
    if not grid or num_known < len(words):
        raise UserError("Write tune=KEY=V1,V2 and, for other seeds of the search, tune.seeds=1,2.")
    num_settings = Counter(["seed", *map(key_of, [*run_words, *grid])])
    key = max(map(key_of, grid), key=num_settings.__getitem__)
    if num_settings[key] > 1:
        raise UserError(
            f"tune={key}: the sweep itself sets this, or another tune= does. Leave one out."
        )
    unseeded_words = [word for word in run_words if not is_seed(key_of(word))]
    held_out = ["train.protocol=holdout", "seed=range(1000,1003)", *seed_words]
    search = plan([*unseeded_words, *grid, *held_out])
    study = plan(run_words)
    if len(search.variants) == len(study.variants):
        raise UserError("tune= has one value. Give it several to choose from: tune=KEY=V1,V2.")
    if {job.config.seed for job in search.jobs} & {job.config.seed for job in study.jobs}:
        raise UserError("tune.seeds= must be other seeds than those of the study.")
    command = shlex.join(["attnexp", "sweep", *words])
    name = study.directory.name
    search_folder = study.directory.with_name(f"{name}_tuning")
    study_folder = study.directory.with_name(f"{name}_tuned")
    return Tuning(
        search=replace(search, directory=search_folder, command=command),
        study=replace(study, directory=study_folder, command=command),
        judged=plan([*run_words, *grid]).jobs,
    )


def choose_settings(tuning: Tuning, entries: Sequence[SweepEntry]) -> tuple[Sweep, list[str]]:
    """The study with every variant at its best setting, which its label says; and a line on each
    variant and setting of the search. Best is the highest mean held-out accuracy, of the last epoch
    or, where the study chooses epochs, of the best one; the first of equals, and none with a failed
    run. Raises `RunFailed` for a variant that has no other."""
    study = tuning.study
    point = "final" if study.jobs[0].config.train.protocol is Protocol.blog else "best"
    means = _held_out_accuracies(entries, point)
    parts_of_variants = {job.label: job.parts for job in study.jobs}
    variants: dict[str, dict[str, str]] = {}
    jobs: list[Job] = []
    lines: list[str] = []
    for variant, factors in study.variants.items():
        parts = parts_of_variants[variant]
        num_parts = len(parts)  # the rest of a label's parts is the setting
        tried = {job.parts: job.label for job in tuning.judged if job.parts[:num_parts] == parts}
        for place, label in tried.items():
            told = "a run failed"
            if means[place] >= 0:
                told = f"held-out accuracy {means[place]:.2f} % ({point} epoch)"
            lines.append(f"{label}: {told}")
        best = max(tried, key=means.__getitem__)
        if means[best] < 0:
            raise RunFailed(f"{variant}: every setting of the search has a failed run.")
        setting = " ".join(best[num_parts:])
        tuned_label = f"{variant}, {setting} of {len(tried)}"
        variants[tuned_label] = factors
        jobs += [replace(job, label=tuned_label) for job in tuning.judged if job.parts == best]
        # each word of the setting, and all that were tried in its place
        for word, *words in [*zip(best, *tried, strict=True)][num_parts:]:
            if _is_end(word, words):
                lines.append(
                    f"{variant}: {word} is an end of its grid; a value beyond may be better."
                )
    jobs.sort(key=lambda job: job.config.seed)
    return replace(study, variants=variants, jobs=jobs), lines


def _is_end(word: str, words: Iterable[str]) -> bool:
    """Whether a setting is the least or largest number of these."""
    try:
        numbers = {word: float(word.partition("=")[2]) for word in words}
    except ValueError:  # names have no order
        return False
    return numbers[word] in (min(numbers.values()), max(numbers.values()))


def _held_out_accuracies(entries: Iterable[SweepEntry], point: str) -> dict[tuple[str, ...], float]:
    """Mean accuracy in % of each setting, keyed by the parts of its label; -inf for one with a
    failed run. point: `final` or `best`."""
    accuracies = defaultdict[tuple[str, ...], list[float]](list)
    for entry in entries:
        accuracy = -math.inf
        if isinstance(entry.outcome, Run):
            accuracy = 100 * getattr(entry.outcome.result, point).val_accuracy
        accuracies[entry.job.parts].append(accuracy)
    return {parts: fmean(values) for parts, values in accuracies.items()}
