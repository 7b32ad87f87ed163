"""Search for every variant's best settings before a study: `attnexp sweep tune=train.lr=1e-4,1e-3`.

Each variant gets the same grid. Its settings are compared on held-out train data with seeds that
are not judged, so neither the study's seeds nor the test set choose anything.
"""

import itertools
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from attnexp.base.errors import RunFailed, UserError
from attnexp.config.schema import Protocol
from attnexp.config.words import expand
from attnexp.runs.result import Run
from attnexp.sweeps.plan import Job, Sweep, is_seed, plan
from attnexp.sweeps.schedule import Entry

TUNED, NOT_TUNED = ("model", "position", "mask", "train"), ("train", "train.protocol")
"""Sections whose settings may be tuned, and what among them may not."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tuning:
    """A search, and the study that follows it."""

    search: Sweep
    """Every variant at every setting of the grid, on held-out data."""
    study: Sweep
    """Every variant as it would be without a search."""
    judged: dict[tuple[str, str], list[Job]]
    """Runs of the study by variant and setting, such as `train.lr=0.001`."""


def is_tuning(word: str) -> bool:
    """Whether a word belongs to the search rather than to runs."""
    return word.partition("=")[0].partition(".")[0] == "tune"


def plan_tuning(words: Sequence[str]) -> Tuning:
    """Plan the search and its study. Raises `UserError` if any of the words is wrong."""
    others, seeds = [word for word in words if not is_tuning(word)], "range(1000,1003)"
    grid = list[str]()
    for key, _, value in (word.partition("=") for word in words if is_tuning(word)):
        setting = value.partition("=")[0]
        if key == "tune" and setting.partition(".")[0] in TUNED and setting not in NOT_TUNED:
            grid.append(value)
        elif key == "tune.seeds":
            seeds = value
        else:
            raise UserError(
                f"{key}={value}: write tune=KEY=V1,V2 with a setting of model or training, and "
                f"tune.seeds=range(1000,1003) for other seeds of the search."
            )
    if not grid:
        raise UserError("tune.seeds= is of a search: give tune=KEY=V1,V2 too.")
    study, command = plan(others), shlex.join(["attnexp", "sweep", *words])
    fixed = [word for word in others if not is_seed(word.partition("=")[0])]
    search = plan([*fixed, *grid, "train.protocol=holdout", f"seed={seeds}"])
    searching = {job.config.seed for job in search.jobs}
    if any(job.data or job.seed != str(job.config.seed) for job in study.jobs):
        raise UserError("tune= takes one data set, and no seeds.*.")
    left = [job for job in study.jobs if job.config.seed not in searching]
    if len(study.variants) < 2 or not left:
        raise UserError("tune= needs two variants, and seeds other than those of the search.")
    every = [job for job in plan([*others, *grid]).jobs if job.config.seed not in searching]
    judged: dict[tuple[str, str], list[Job]] = {}
    for variant, pairs in itertools.product(study.variants, itertools.product(*expand(grid))):
        setting = " ".join(word for _, word in pairs)
        judged[variant, setting] = [job for job in every if job.label == f"{variant} {setting}"]
    return Tuning(
        search=replace(search, name=f"{study.name}_tuning", command=command),
        study=replace(study, name=f"{study.name}_tuned", jobs=left, command=command),
        judged=judged,
    )


def choose(tuning: Tuning, entries: Sequence[Entry]) -> tuple[Sweep, list[str]]:
    """The study with every variant at its best setting, which its label says; and a line on what
    the search found for each variant and setting.

    Best is the highest mean held-out accuracy, of the last epoch or, where the study chooses
    epochs, of the best one; the first of equals, and none with a failed run. Raises `RunFailed`
    for a variant that has no other.
    """
    study, lines, means = tuning.study, list[str](), dict[str, dict[str, float]]()
    point = "final" if study.jobs[0].config.train.protocol is Protocol.blog else "best"
    for variant, setting in tuning.judged:
        outcomes = [e.outcome for e in entries if e.job.label == f"{variant} {setting}"]
        rows = [getattr(one.result, point) for one in outcomes if isinstance(one, Run)]
        found = [100 * row.val_accuracy for row in rows]
        own = means.setdefault(variant, {})
        if len(found) == len(outcomes):
            own[setting] = fmean(found)
        line = f"{own[setting]:.2f} % ({point} epoch)" if setting in own else "a run failed"
        lines.append(f"{variant} {setting}: held-out accuracy {line}")
    variants, jobs = dict[str, dict[str, str]](), list[Job]()
    for variant, own in means.items():
        if not own:
            raise RunFailed(f"{variant}: every setting of the search has a failed run.")
        best = max(own, key=own.__getitem__)
        label = f"{variant}, {best} of {len(tuning.judged) // len(means)}"
        variants[label] = study.variants[variant]
        jobs += [replace(job, label=label) for job in tuning.judged[variant, best]]
    jobs.sort(key=lambda job: job.config.seed)
    return replace(study, variants=variants, jobs=jobs), lines
