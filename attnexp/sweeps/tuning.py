"""Search for every variant's best settings before a study: `attnexp sweep tune=train.lr=1e-4,1e-3`.

Each variant gets the same grid. Its settings are compared on held-out train data with seeds that
are not judged, so neither the study's seeds nor the test set choose anything.
"""

import itertools
import math
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
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
    run_words = [word for word in words if not is_tuning(word)]
    grid, seed_word = _read_tuning_words(words)
    set_keys = {"seed"} | {key_of(word) for word in run_words}
    for key in map(key_of, grid):
        if key in set_keys:
            raise UserError(f"tune={key}: the sweep itself sets this. Tune another setting.")
    unseeded_words = [word for word in run_words if not is_seed(key_of(word))]
    search = plan([*unseeded_words, *grid, "train.protocol=holdout", seed_word])
    study = plan(run_words)
    if {job.config.seed for job in search.jobs} & {job.config.seed for job in study.jobs}:
        raise UserError("tune.seeds= must be other seeds than those of the study.")
    command = shlex.join(["attnexp", "sweep", *words])
    folder = study.directory
    search_folder = folder.with_name(f"{folder.name}_tuning")
    study_folder = folder.with_name(f"{folder.name}_tuned")
    return Tuning(
        search=replace(search, directory=search_folder, command=command),
        study=replace(study, directory=study_folder, command=command),
        judged=plan([*run_words, *grid]).jobs,
    )


def _read_tuning_words(words: Sequence[str]) -> tuple[list[str], str]:
    """Words of the grid, and the word of the search's seeds."""
    grid: list[str] = []
    values = {"tune.seeds": "range(1000,1003)"}
    for word in filter(is_tuning, words):
        key, _, value = word.partition("=")
        if key == "tune":
            grid.append(value)
        else:
            values[key] = value
    if not grid or len(values) > 1:
        raise UserError("Write tune=KEY=V1,V2 and, for other seeds of the search, tune.seeds=1,2.")
    return grid, f"seed={values['tune.seeds']}"


def choose_settings(tuning: Tuning, entries: Sequence[SweepEntry]) -> tuple[Sweep, list[str]]:
    """The study with every variant at its best setting, which its label says; and a line on each
    variant and setting of the search. Best is the highest mean held-out accuracy, of the last epoch
    or, where the study chooses epochs, of the best one; the first of equals, and none with a failed
    run. Raises `RunFailed` for a variant that has no other."""
    study = tuning.study
    point = "final" if study.jobs[0].config.train.protocol is Protocol.blog else "best"
    means = _held_out_accuracies(entries, point)
    parts_of = {job.label: job.parts for job in tuning.judged}
    num_settings = len(parts_of) // len(study.variants)
    num_tuned = len(tuning.judged[0].parts) - len(study.jobs[0].parts)
    variants: dict[str, dict[str, str]] = {}
    jobs: list[Job] = []
    lines: list[str] = []
    candidates = iter(parts_of.items())
    for variant, factors in study.variants.items():
        best = ""
        for label, parts in itertools.islice(candidates, num_settings):
            if means[parts] < 0:
                lines.append(f"{label}: a run failed")
                continue
            lines.append(f"{label}: held-out accuracy {means[parts]:.2f} % ({point} epoch)")
            if not best or means[parts] > means[parts_of[best]]:
                best = label
        if not best:
            raise RunFailed(f"{variant}: every setting of the search has a failed run.")
        first = len(parts_of[best]) - num_tuned
        setting = " ".join(parts_of[best][first:])
        tuned_label = f"{variant}, {setting} of {num_settings}"
        variants[tuned_label] = factors
        jobs += [replace(job, label=tuned_label) for job in tuning.judged if job.label == best]
        tried = zip(*(parts[first:] for parts in parts_of.values()), strict=True)
        lines += _notes_on_ends(variant, parts_of[best][first:], tried)
    jobs.sort(key=lambda job: job.config.seed)
    return replace(study, variants=variants, jobs=jobs), lines


def _notes_on_ends(
    variant: str, setting: Iterable[str], tried: Iterable[Iterable[str]]
) -> Iterator[str]:
    """A line for each word of a chosen setting that is the least or largest number of its grid.
    tried: for each word, all that were tried in its place."""
    for word, words in zip(setting, tried, strict=True):
        with suppress(ValueError):  # names have no order
            numbers = [float(word.partition("=")[2]) for word in words]
            if float(word.partition("=")[2]) in (min(numbers), max(numbers)):
                yield f"{variant}: {word} is an end of its grid; a value beyond may be better."


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
