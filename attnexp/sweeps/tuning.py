"""Search for every variant's best settings before a study: `attnexp sweep tune=train.lr=1e-4,1e-3`.

Each variant gets the same grid. Its settings are compared on held-out train data with seeds that
are not judged, so neither the study's seeds nor the test set choose anything.
"""

import itertools
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from rich.table import Table
from rich.text import Text

from attnexp.base.errors import RunFailed, UserError
from attnexp.config.schema import Protocol
from attnexp.config.words import expand
from attnexp.runs.result import Run
from attnexp.sweeps.plan import Job, Sweep, is_seed, plan
from attnexp.sweeps.schedule import Entry

SEEDS = "range(1000,1003)"
"""Seeds of a search where `tune.seeds=` gives no others."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tuning:
    """A search, and the study that follows it."""

    search: Sweep
    study: Sweep
    """The study as it would be without a search."""
    settings: dict[str, list[Job]]
    """Runs of the study at each setting of the grid, such as `train.lr=0.001`."""


def is_tuning(word: str) -> bool:
    """Whether a word belongs to the search rather than to runs."""
    return word.partition("=")[0].partition(".")[0] == "tune"


def plan_tuning(words: Sequence[str]) -> Tuning:
    """Plan the search and its study. Raises `UserError` if any of the words is wrong."""
    tune = [word for word in words if is_tuning(word)]
    others = [word for word in words if not is_tuning(word)]
    grid = expand([word.removeprefix("tune=") for word in tune if word.startswith("tune=")])
    if not grid or any(not word.startswith(("tune=", "tune.seeds=")) for word in tune):
        raise UserError("A search is tune=KEY=V1,V2 and, if you like, tune.seeds=range(10,13).")
    keys = [axis[0][0] for axis in grid]
    for key, axis in zip(keys, grid, strict=True):
        section = key.partition(".")[0]
        if section not in ("model", "position", "mask", "train") or key.startswith("train.proto"):
            raise UserError(f"tune={key}: only settings of the model and of training are tuned.")
        if len({*axis}) < 2 or keys.count(key) > 1 or any(w.startswith(f"{key}=") for w in others):
            raise UserError(f"tune={key} needs all its values, two or more, in this one word.")
    seeds = [word.removeprefix("tune.seeds=") for word in tune if word.startswith("tune.seeds=")]
    fixed = [word for word in others if not is_seed(word.partition("=")[0])]
    fixed += ["train.protocol=holdout", f"seed={(seeds or [SEEDS])[-1]}"]
    study = plan(others)
    if any(job.data or job.seed != str(job.config.seed) for job in study.jobs):
        raise UserError("tune= takes one data set, and no seeds.*.")
    jobs, settings = list[Job](), dict[str, list[Job]]()
    for pairs in itertools.product(*grid):
        words_of_it = [word for _, word in pairs]
        setting = " ".join(words_of_it)
        settings[setting] = _relabel(plan([*others, *words_of_it]), study)
        found = _relabel(plan([*fixed, *words_of_it]), study)
        jobs += [replace(job, label=f"{job.label} {setting}") for job in found]
    searching = {job.config.seed for job in jobs}
    for setting, judged in settings.items():
        settings[setting] = [job for job in judged if job.config.seed not in searching]
    if not all(settings.values()):
        raise UserError("All seeds of the study choose its settings. Give others: tune.seeds=.")
    jobs.sort(key=lambda job: job.config.seed)
    labels: dict[str, dict[str, str]] = {job.label: {} for job in jobs}
    judged = [job for job in study.jobs if job.config.seed not in searching]
    study = replace(study, jobs=judged, command=shlex.join(["attnexp", "sweep", *words]))
    search = replace(study, name=f"{study.name}_tuning", variants=labels, jobs=jobs)
    return Tuning(search=search, study=study, settings=settings)


def _relabel(planned: Sweep, study: Sweep) -> list[Job]:
    """Jobs under the names that their variants have in the study as it is without a search."""
    names = dict(zip(planned.variants, study.variants, strict=True))
    return [replace(job, label=names[job.label]) for job in planned.jobs]


def choose(tuning: Tuning, entries: Sequence[Entry]) -> tuple[Sweep, Table]:
    """The study with every variant at its best setting, which its label says; and what the search
    found.

    Best is the highest mean held-out accuracy, of the last epoch or, where the study chooses
    epochs, of the best one; the first of equals, and none with a failed run. Raises `RunFailed`
    for a variant that has no other.
    """
    study, size = tuning.study, len(tuning.settings)
    point = "final" if study.jobs[0].config.train.protocol is Protocol.blog else "best"
    table = Table("variant", "setting", f"held-out accuracy, {point} epoch, in %", "n", box=None)
    variants, jobs = dict[str, dict[str, str]](), list[Job]()
    for variant, levels in study.variants.items():
        means: dict[str, float] = {}
        for setting in tuning.settings:
            outcomes = [e.outcome for e in entries if e.job.label == f"{variant} {setting}"]
            rows = [getattr(one.result, point) for one in outcomes if isinstance(one, Run)]
            found = [100 * row.val_accuracy for row in rows]
            if len(found) == len(outcomes):
                means[setting] = fmean(found)
            spread = f" ± {stdev(found):.2f}" if len(found) > 1 else ""
            cell = f"{fmean(found):.2f}{spread}" if found else "failed"
            table.add_row(Text(variant), Text(setting), cell, f"{len(found)} of {len(outcomes)}")
        if not means:
            raise RunFailed(f"{variant}: every setting of the search has a failed run.")
        best = max(means, key=means.__getitem__)
        label = f"{variant}, {best} of {size}"
        variants[label] = levels
        jobs += [replace(j, label=label) for j in tuning.settings[best] if j.label == variant]
    jobs.sort(key=lambda job: job.config.seed)
    return replace(study, name=f"{study.name}_tuned", variants=variants, jobs=jobs), table
