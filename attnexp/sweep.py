"""Many runs: a sweep is a list of configs, trained one after another.

Axes come from the command line in Hydra's syntax (`position=none,sinusoidal`, `seed=range(3)`) or
from a named study. Runs that have finished before are not run again.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from attnexp import progress
from attnexp.compose import compose, expand, load_study
from attnexp.config import RunConfig
from attnexp.errors import RunFailed, UserError
from attnexp.runs import RunResult, default_label
from attnexp.train import train_run


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A run to be done."""

    config: RunConfig
    label: str
    """The variant: runs of one label differ in seed alone."""
    order: int
    """Place of the variant in tables; the baseline has 0."""
    overrides: list[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Sweep:
    """Jobs that belong together, seed by seed, so that an interrupted sweep leaves whole pairs."""

    folder: str
    jobs: list[Job]

    @property
    def directory(self) -> Path:
        """Where the runs' folders are."""
        return Path(self.jobs[0].config.out) / self.folder


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that came to nothing."""

    job: Job
    reason: str


def plan(words: Sequence[str]) -> Sweep:
    """The runs that `words` ask for. Raises `UserError` before any of them starts."""
    studies = [word.removeprefix("study=") for word in words if word.startswith("study=")]
    words = [word for word in words if not word.startswith("study=")]
    if len(studies) > 1:
        raise UserError(f"One study at a time; got {', '.join(studies)}.")
    if studies:
        study = load_study(studies[0])
        variants = dict(study["variants"])
        baseline = study["baseline"]
        variants = {baseline: variants.pop(baseline), **variants}
        words = [*study.get("overrides", []), *words]
    else:
        variants = {"": []}
    jobs = [
        _job(f"{name} {axes_label}".strip(), [*variant, *chosen])
        for name, variant in variants.items()
        for axes_label, chosen in _product(words)
    ]
    return Sweep(folder=studies[0] if studies else "runs", jobs=_seed_by_seed(jobs))


def run(sweep: Sweep) -> Iterator[RunResult | Failure]:
    """Do every job, or pick up its result where it has finished before."""
    total = len(sweep.jobs)
    for number, job in enumerate(sweep.jobs, start=1):
        progress.note(f"[{number}/{total}] {job.label}, seed {job.config.seed}")
        try:
            _, result = train_run(
                job.config,
                folder=sweep.folder,
                label=job.label,
                order=job.order,
                overrides=job.overrides,
                skip_finished=True,
            )
        except RunFailed as error:
            progress.note(f"failed: {error}")
            yield Failure(job, str(error))
        else:
            yield result


def _product(words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Every combination of the axes' values, labelled by what varies besides the seed."""
    axes = {axis[0][0]: axis for axis in expand(words)}  # a later word overrides an earlier one
    for choice in itertools.product(*axes.values()):
        varying = [word for key, word in choice if len(axes[key]) > 1 and key != "seed"]
        yield " ".join(varying), [word for _, word in choice]


def _job(label: str, words: list[str]) -> Job:
    config = compose(words)
    return Job(config=config, label=label or default_label(config), order=0, overrides=words)


def _seed_by_seed(jobs: list[Job]) -> list[Job]:
    """Number the variants in order of appearance, then sort by seed."""
    labels = list(dict.fromkeys(job.label for job in jobs))
    jobs = [replace(job, order=labels.index(job.label)) for job in jobs]
    return sorted(jobs, key=lambda job: (job.config.seed, job.order))
