"""Search for every variant's best settings before a study: `attnexp sweep tune=train.lr=1e-4,1e-3`.

Each variant gets the same grid. Its settings are compared on held-out train data with seeds that
are not judged, so neither the study's seeds nor the test set choose anything.
"""

import itertools
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean

from attnexp.base.errors import RunFailed, UserError
from attnexp.config.schema import Protocol
from attnexp.config.words import expand
from attnexp.runs.result import Run
from attnexp.sweeps.executors.task import Failure
from attnexp.sweeps.plan import Job, Sweep, is_seed, plan
from attnexp.sweeps.schedule import Entry

SEEDS = "range(1000,1003)"
"""Seeds of a search where `tune.seeds=` gives no others."""

NOT_TUNED = ("out", "seed", "seeds", "data", "executor", "study", "experiment")
"""Sections and groups that are no settings of model or training."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """A variant with one setting of the grid."""

    variant: str
    setting: str
    """Words of the grid that the variant has, such as `train.lr=0.001`."""
    judged: list[Job]
    """Runs of the study if this setting is chosen."""
    search: list[Job]
    """Runs of the search; none for a variant with a single setting."""
    accuracies: list[float] = field(default_factory=list)
    """Held-out accuracy of each finished run of the search."""
    failures: list[Failure] = field(default_factory=list)
    chosen: bool = False

    @property
    def epoch(self) -> str:
        """Epoch whose held-out accuracy counts: `final`, or `best` if the study chooses epochs."""
        return "final" if self.judged[0].config.train.protocol is Protocol.blog else "best"


@dataclass(frozen=True, kw_only=True, slots=True)
class Tuning:
    """A search, and the study that follows it."""

    search: Sweep
    study: Sweep
    """The study as it would be without a search."""
    axes: list[list[tuple[str, str]]]
    """Axes of the grid, as `words.expand` gives them."""
    trials: list[Trial]


def is_tuning(word: str) -> bool:
    """Whether a word belongs to the search rather than to runs."""
    key = word.partition("=")[0]
    return key == "tune" or key.startswith("tune.")


def plan_tuning(words: Sequence[str]) -> Tuning:
    """Plan the search and its study. Raises `UserError` if any of the words is wrong."""
    others = [word for word in words if not is_tuning(word)]
    seeds, axes = _read([word for word in words if is_tuning(word)])
    for key in {axis[0][0] for axis in axes} & {word.partition("=")[0] for word in others}:
        raise UserError(f"{key} is tuned and also given. Leave out {key}= or tune={key}=.")
    study = plan(others)
    if any(job.data for job in study.jobs):
        raise UserError("tune= takes one data set at a time. Sweep each by itself.")
    if any(seed is not None for job in study.jobs for seed in asdict(job.config.seeds).values()):
        raise UserError("tune= chooses and judges by seed= alone. Leave out seeds.*.")
    fixed = [word for word in others if not is_seed(word.partition("=")[0])]
    found: dict[tuple[int, str], Trial] = {}
    for pairs in itertools.product(*axes):
        chosen = [word for _, word in pairs]
        judged = _by_variant(plan([*others, *chosen]))
        search = _by_variant(plan([*fixed, *chosen, "train.protocol=holdout", seeds]))
        for number, (first, *_) in _by_variant(study).items():
            setting = " ".join(w for w in chosen if w in judged[number][0].overrides)
            trial = Trial(
                variant=first.label, setting=setting, judged=judged[number], search=search[number]
            )
            found.setdefault((number, setting), trial)
    sizes = Counter(number for number, _ in found)
    trials = [
        trial if sizes[number] > 1 else replace(trial, search=[])
        for (number, _), trial in sorted(found.items(), key=lambda pair: pair[0][0])
    ]
    jobs = [
        replace(job, label=f"{trial.variant} {trial.setting}", variant=index)
        for index, trial in enumerate(trials)
        for job in trial.search
    ]
    jobs.sort(key=lambda job: job.config.seed)
    searching = {job.config.seed for job in jobs}
    judges = [job for job in study.jobs if job.config.seed not in searching]
    if not judges:
        raise UserError(
            "All seeds of the study choose its settings, so none is left to judge. Give the study "
            "others with seed=, or the search others with tune.seeds=."
        )
    trials = [
        replace(trial, judged=[job for job in trial.judged if job.config.seed not in searching])
        for trial in trials
    ]
    command = shlex.join(["attnexp", "sweep", *words])
    study = replace(study, jobs=judges, command=command)
    labels: dict[str, dict[str, str]] = {job.label: {} for job in jobs}
    searched = replace(study, name=f"{study.name}_tuning", variants=labels, jobs=jobs)
    return Tuning(search=searched, study=study, axes=axes, trials=trials)


def _read(words: Sequence[str]) -> tuple[str, list[list[tuple[str, str]]]]:
    """The seeds of a search as a word, and the axes of its grid."""
    grid, seeds = list[str](), SEEDS
    for word in words:
        key, _, value = word.partition("=")
        if key == "tune":
            grid.append(value)
        elif key == "tune.seeds":
            seeds = value
        else:
            raise UserError(f"There is no key '{key}'; there are tune=KEY=V1,V2 and tune.seeds=.")
    if not grid:
        raise UserError(f"{words[0]} needs what to tune, such as tune=train.lr=3e-4,1e-3,3e-3.")
    axes = expand(grid)
    times = Counter(axis[0][0] for axis in axes)
    for axis in axes:
        key = axis[0][0]
        if key.partition(".")[0] in NOT_TUNED or key in ("train", "train.protocol"):
            raise UserError(f"tune={key}: only settings of the model and of training are tuned.")
        if len({*axis}) < 2 or times[key] > 1:
            raise UserError(f"tune={key} needs all its values in one word, and at least two.")
    return f"seed={seeds}", axes


def _by_variant(sweep: Sweep) -> dict[int, list[Job]]:
    found: dict[int, list[Job]] = {}
    for job in sweep.jobs:
        found.setdefault(job.variant, []).append(job)
    return found


def choose(tuning: Tuning, entries: Sequence[Entry]) -> list[Trial]:
    """Trials with their results. Of each variant the one with the highest mean held-out accuracy
    is chosen, the first of equals, and none with a failed run.

    Raises `RunFailed` for a variant that has no other.
    """
    trials = list[Trial]()
    for index, trial in enumerate(tuning.trials):
        outcomes = [entry.outcome for entry in entries if entry.job.variant == index]
        rows = [getattr(run.result, trial.epoch) for run in outcomes if isinstance(run, Run)]
        failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
        accuracies = [row.val_accuracy for row in rows]
        trials.append(replace(trial, accuracies=accuracies, failures=failures))
    best: dict[str, Trial] = {}
    for trial in sorted(trials, key=lambda trial: -fmean(trial.accuracies or [0])):
        if not trial.failures:
            best.setdefault(trial.variant, trial)
    for trial in trials:
        if trial.variant not in best:
            raise RunFailed(
                f"{trial.variant}: every setting of the search has a failed run, so none is "
                f"chosen. {trial.failures[0].job}: {trial.failures[0].reason}"
            )
    return [replace(trial, chosen=trial is best[trial.variant]) for trial in trials]


def tuned(study: Sweep, trials: Sequence[Trial]) -> Sweep:
    """The study with every variant at its chosen setting, which its label says."""
    variants, jobs = dict[str, dict[str, str]](), list[Job]()
    for trial in trials:
        if trial.chosen:
            size = sum(other.variant == trial.variant for other in trials)
            label = f"{trial.variant}, {trial.setting} of {size}" if size > 1 else trial.variant
            variants[label] = study.variants[trial.variant]
            jobs += [replace(job, label=label) for job in trial.judged]
    jobs.sort(key=lambda job: job.config.seed)
    return replace(study, name=f"{study.name}_tuned", variants=variants, jobs=jobs)
