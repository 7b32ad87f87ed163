"""Search for every variant's best settings before a study: `attnexp sweep tune=train.lr=1e-4,1e-3`.

Each variant gets the same grid. Its settings are compared on held-out train data with seeds that
are not judged, so neither the study's seeds nor the test set choose anything.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from statistics import fmean

from attnexp.base.errors import RunFailed, UserError
from attnexp.config.schema import Protocol
from attnexp.runs.result import Run
from attnexp.sweeps.plan import Job, Sweep, is_seed, plan
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
    others = [word for word in words if not is_tuning(word)]
    grid = [word.removeprefix("tune=") for word in words if word.startswith("tune=")]
    seeds = [word.replace("tune.seeds", "seed") for word in words if word.startswith("tune.seeds=")]
    tuned, given = ({word.partition("=")[0] for word in some} for some in (grid, others))
    if not grid or len(others) + len(grid) + len(seeds) < len(words):
        raise UserError("Write tune=KEY=V1,V2 and, for other seeds of the search, tune.seeds=1,2.")
    if twice := tuned & {"seed", *given}:
        raise UserError(f"tune={twice.pop()}: the sweep itself sets this. Tune another setting.")
    fixed = [word for word in others if not is_seed(word.partition("=")[0])]
    seed = ["seed=range(1000,1003)", *seeds][-1]
    search = plan([*fixed, *grid, "train.protocol=holdout", seed])
    study, judged = plan(others), plan([*others, *grid])
    if {job.config.seed for job in search.jobs} & {job.config.seed for job in study.jobs}:
        raise UserError("tune.seeds= must be other seeds than those of the study.")
    name, command = str(study.directory), shlex.join(["attnexp", "sweep", *words])
    return Tuning(
        search=replace(search, directory=Path(f"{name}_tuning"), command=command),
        study=replace(study, directory=Path(f"{name}_tuned"), command=command),
        judged=judged.jobs,
    )


def choose(tuning: Tuning, entries: Sequence[SweepEntry]) -> tuple[Sweep, list[str]]:
    """The study with every variant at its best setting, which its label says; and a line on what
    the search found for each variant and setting.

    Best is the highest mean held-out accuracy, of the last epoch or, where the study chooses
    epochs, of the best one; the first of equals, and none with a failed run. Raises `RunFailed`
    for a variant that has no other.
    """
    study, labels, lines = tuning.study, iter(tuning.search.variants), list[str]()  # by variant
    point = "final" if study.jobs[0].config.train.protocol is Protocol.blog else "best"
    variants, jobs = dict[str, dict[str, str]](), list[Job]()
    num_settings = len(tuning.search.variants) // len(study.variants)
    for variant, factors in study.variants.items():
        means = dict[str, float]()
        for label in islice(labels, num_settings):
            outcomes = [entry.outcome for entry in entries if entry.job.label == label]
            rows = [getattr(run.result, point) for run in outcomes if isinstance(run, Run)]
            if len(rows) < len(outcomes):
                lines.append(f"{label}: a run failed")
                continue
            means[label] = fmean(100 * row.val_accuracy for row in rows)
            lines.append(f"{label}: held-out accuracy {means[label]:.2f} % ({point} epoch)")
        if not means:
            raise RunFailed(f"{variant}: every setting of the search has a failed run.")
        best = max(means, key=means.__getitem__)
        called = f"{variant}, {best.removeprefix(variant).strip()} of {num_settings}"
        variants[called] = factors
        jobs += [replace(job, label=called) for job in tuning.judged if job.label == best]
    jobs.sort(key=lambda job: job.config.seed)
    return replace(study, variants=variants, jobs=jobs), lines
