"""Plan of a sweep: the list of its runs, which `schedule` carries out.

Axes come from the command line in Hydra's syntax (`position=none,sinusoidal`, `seed=range(3)`) or
from a named study.
"""

import itertools
import math
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from attnexp.base.errors import UserError
from attnexp.config.compose import compose, compose_executor, is_executor
from attnexp.config.schema import ExecutorConfig, RunConfig, to_dict
from attnexp.config.study import load_study
from attnexp.config.words import expand
from attnexp.runs.identity import default_label, replicate
from attnexp.runs.manifest import Declaration

MAX_RUNS = 10_000
"""Maximum number of runs that one product of axes may make."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A planned run."""

    config: RunConfig
    label: str
    """Name of the variant this run belongs to."""
    data: str = ""
    """Name of the data set, in a sweep over several."""

    @property
    def seed(self) -> str:
        """Seed, with the separate seeds of `seeds.*`, unique within the variant."""
        return replicate({"seed": self.config.seed, "seeds": asdict(self.config.seeds)})

    @property
    def title(self) -> str:
        """Label, with the data set in a sweep over several. Jobs of one title differ in seed."""
        return f"{self.label} on {self.data}" if self.data else self.label

    def __str__(self) -> str:
        return f"{self.title}, seed {self.seed}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Sweep:
    """Jobs to be compared, ordered by seed, so that an interrupted sweep leaves complete pairs."""

    name: str
    """Name of the study, or one made of the axes; that of its folder."""
    variants: dict[str, dict[str, str]]
    """Levels of two crossed factors (or nothing), keyed by label; the baseline comes first."""
    jobs: list[Job]
    executor: ExecutorConfig
    command: str
    """Command that runs this sweep."""
    declaration: Declaration | None = None
    """Endpoint of a study that adds seeds until it is decided; `jobs` then holds its budget."""

    @property
    def directory(self) -> Path:
        """Folder of the study's manifest."""
        return Path(self.jobs[0].config.out) / self.name


def plan(words: Sequence[str]) -> Sweep:
    """Plan the runs that `words` ask for. Raises `UserError` if any of them is wrong."""
    command = shlex.join(["attnexp", "sweep", *words])
    executor = [word for word in words if is_executor(_key(word))]
    studies = [word.removeprefix("study=") for word in words if _key(word) == "study"]
    words = [word for word in words if word not in executor and _key(word) != "study"]
    if len(studies) > 1:
        raise UserError(f"One study at a time; got {', '.join(studies)}.")
    if studies:
        study = load_study(studies[0])
        name, variants, words = Path(studies[0]).stem, study.variants, [*study.overrides, *words]
        levels = study.levels or {label: {name: label} for label in variants}
        varied = {_key(word) for own in variants.values() for word in own}
        if twice := [word for word in words if _key(word) in varied]:
            raise UserError(f"{twice[0]}: {name} varies this setting itself. Leave it out.")
    else:
        varying = [axis[0][0] for axis in expand(words) if len(axis) > 1]
        name = "_x_".join(key for key in varying if not is_seed(key))
        name, variants, levels = f"sweep_{name}".rstrip("_"), {"": []}, {"": {}}
    jobs, crossed = list[Job](), dict[str, dict[str, str]]()
    for label, own in variants.items():
        for choice, runs in _combine([*own, *words]):
            configs = _compose(runs)
            called = " ".join(filter(None, [label, *choice.values()]))
            called = called or default_label(to_dict(configs[0]))
            crossed[called] = levels[label] | choice
            own_jobs = [Job(config=one, label=called, data=one.data.title) for one in configs]
            jobs += {job.seed: job for job in own_jobs}.values()  # a seed may be given twice
    if len({job.data for job in jobs}) == 1:
        jobs = [replace(job, data="") for job in jobs]
    if twice := [job for job, times in Counter(map(str, jobs)).items() if times > 1]:
        raise UserError(f"{twice[0]}, is asked for more than once. Give every value once.")
    if len({job.config.out for job in jobs}) > 1:
        raise UserError("A sweep has one place for its results; give one out=DIR.")
    sources = ("init", "order", "split")
    jobs.sort(key=lambda job: [job.config.seed, *map(job.config.seed_of, sources)])
    two = all(len(factors) == 2 for factors in crossed.values())
    return Sweep(
        name=re.sub(r"^\.|[^\w.-]", "-", name)[:100],
        variants=crossed if two else {label: {} for label in crossed},
        jobs=jobs,
        executor=compose_executor(executor),
        command=command,
    )


def is_seed(key: str) -> bool:
    """Whether runs that differ in this key belong to the same variant."""
    return key == "seed" or key.startswith("seeds.")


def _key(word: str) -> str:
    return word.partition("=")[0]


def _combine(words: Sequence[str]) -> Iterator[tuple[dict[str, str], list[list[str]]]]:
    """Combinations of the values of the axes: a word by key, without seeds and the data set, since
    only runs on the same data are compared; and the words of each run."""
    axes = {axis[0][0]: axis for axis in expand(words)}  # a later word overrides an earlier one
    if (num_runs := math.prod(map(len, axes.values()))) > MAX_RUNS:
        raise UserError(f"These axes make {num_runs:,} runs; a sweep takes {MAX_RUNS:,} at most.")
    varying = [axis for key, axis in axes.items() if len(axis) > 1 and not is_seed(key)]
    for choice in itertools.product(*varying):
        runs = itertools.product(*(axes | {pair[0]: [pair] for pair in choice}).values())
        own = {key: word for key, word in choice if key != "data"}
        yield own, [[word for _, word in run] for run in runs]


def _compose(runs: list[list[str]]) -> list[RunConfig]:
    """Configs of runs that differ in seeds alone: one is composed, the others share its parts."""
    first, configs = compose(runs[0]), list[RunConfig]()
    for words in runs:
        given = {_key(word): word.partition("=")[2] for word in words if is_seed(_key(word))}
        if all(re.fullmatch("[0-9]{1,18}", value) for value in given.values()):
            own = {key.removeprefix("seeds."): int(given[key]) for key in given if key != "seed"}
            seed = int(given.get("seed", first.seed))
            configs.append(replace(first, seed=seed, seeds=replace(first.seeds, **own)))
        else:  # null, a text in quotes, or wrong
            configs.append(compose(words))
    return configs
