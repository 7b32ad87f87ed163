"""Plan of a sweep: the list of its runs. `schedule.py` executes it.

Axes come from the command line in Hydra's syntax (`position=none,sinusoidal`, `seed=range(3)`) or
from a named study.
"""

import itertools
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from attnexp.base.errors import UserError
from attnexp.config.compose import (
    compose,
    compose_executor,
    is_executor,
)
from attnexp.config.schema import ExecutorConfig, RunConfig, to_dict
from attnexp.config.study import load_study
from attnexp.config.words import expand
from attnexp.runs.identity import Identity, default_label, replicate
from attnexp.runs.manifest import Declaration
from attnexp.runs.store import RUNS


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A planned run."""

    config: RunConfig
    label: str
    """Name of the variant this run belongs to."""
    variant: int
    """Number of the variant; jobs with the same number differ only in seed."""
    overrides: list[str]
    data: str = ""
    """Name of the data set, in a sweep over several."""
    identity: Identity | None = None
    """Identity that the run must have, once the data are known."""

    @property
    def seed(self) -> str:
        """Seed, with the separate seeds of `seeds.*`, unique within the variant."""
        return replicate({"seed": self.config.seed, "seeds": asdict(self.config.seeds)})

    @property
    def title(self) -> str:
        """Label, with the data set in a sweep over several."""
        return f"{self.label} on {self.data}" if self.data else self.label

    def __str__(self) -> str:
        return f"{self.title}, seed {self.seed}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Sweep:
    """Jobs to be compared, ordered by seed, so that an interrupted sweep leaves complete pairs."""

    name: str
    """Name of the study, or one made of the axes."""
    variants: dict[str, dict[str, str]]
    """Levels of the factors, keyed by label; the baseline comes first (see `Manifest`)."""
    jobs: list[Job]
    executor: ExecutorConfig
    command: str
    """Command that runs this sweep."""
    declaration: Declaration | None = None
    """Endpoint of a study that adds seeds until it is decided; `jobs` then holds its budget."""

    @property
    def out(self) -> Path:
        """Folder of all results."""
        return Path(self.jobs[0].config.out)

    @property
    def directory(self) -> Path:
        """Folder of the study's manifest."""
        return self.out / self.name


def plan(words: Sequence[str], *, zipped: bool = False) -> Sweep:
    """Plan the runs that `words` ask for. Raises `UserError` if any of them is wrong.

    zipped: take the axes' values pairwise instead of every combination; seeds are still crossed
    with everything, since each variant needs all of them.
    """
    command = shlex.join(["attnexp", "sweep", *words, *(["--zip"] if zipped else [])])
    words, executor_words, study = _sort(words)
    if study is None:
        axes = {axis[0][0]: axis for axis in expand(words)}
        varying = [key for key, axis in axes.items() if len(axis) > 1 and not is_seed(key)]
        name = _safe("_".join(["sweep", "_x_".join(varying)]).rstrip("_"))
        variants, levels = {"": list[str]()}, {"": dict[str, str]()}
    else:
        found = load_study(study)
        name, variants = _safe(Path(study).stem), found.variants
        levels = found.levels or {label: {name: label} for label in variants}
        for word in itertools.chain(found.overrides, *variants.values()):
            if word.partition("=")[0].partition(".")[0] in ("study", "tune", "executor"):
                raise UserError(
                    f"study={study}: {word} is no setting of a run. Give it on the command line."
                )
        varied = {word.partition("=")[0] for own in variants.values() for word in own}
        words = [*found.overrides, *words]
        for word in words:
            if word.partition("=")[0] in varied:
                raise UserError(f"{word}: study={study} varies this setting itself. Leave it out.")
    jobs, count = list[Job](), itertools.count()
    crossed = dict[str, dict[str, str]]()
    for label, variant in variants.items():
        for choice, runs in _combine([*variant, *words], zipped=zipped):
            number = next(count)
            configs = [compose(one) for one in runs]
            called = " ".join(filter(None, [label, *choice.values()]))
            called = called or default_label(to_dict(configs[0]))
            crossed[called] = levels[label] | ({} if zipped else choice)
            for config, chosen in zip(configs, runs, strict=True):
                jobs.append(Job(config=config, label=called, variant=number, overrides=chosen))
    if len({job.config.out for job in jobs}) > 1:
        raise UserError("A sweep has one place for its results; give one out=DIR.")
    if len({job.config.data.title for job in jobs}) > 1:
        jobs = [replace(job, data=job.config.data.title) for job in jobs]
    for label, times in Counter(title for _, title in {(j.variant, j.title) for j in jobs}).items():
        if times > 1:
            raise UserError(f"{label} is asked for {times} times. Give every value once.")
    jobs = [*{(job.variant, job.seed): job for job in jobs}.values()]  # a seed may come twice
    sources = ("init", "order", "split")
    jobs.sort(key=lambda job: [job.config.seed, *map(job.config.seed_of, sources)])
    two = all(len(factors) == 2 for factors in crossed.values())
    return Sweep(
        name=name,
        variants={job.label: crossed[job.label] if two else {} for job in jobs},
        jobs=jobs,
        executor=compose_executor(executor_words),
        command=command,
    )


def is_seed(key: str) -> bool:
    """Whether runs that differ in this key belong to the same variant."""
    return key.partition(".")[0] in ("seed", "seeds")


def _safe(name: str) -> str:
    """Replace characters that are unsafe in the name of a folder."""
    if name == RUNS:
        raise UserError(f"A study cannot be called {RUNS}: that is the folder of all runs.")
    if name.startswith("."):
        raise UserError(f"A study cannot be called '{name}': its folder in out=DIR has this name.")
    return "".join(c if c.isalnum() or c in "._-" else "-" for c in name)[:100]


def _sort(words: Sequence[str]) -> tuple[list[str], list[str], str | None]:
    """Split into words for the runs, words for the executor, and the name of the study."""
    studies = [word.removeprefix("study=") for word in words if word.startswith("study=")]
    if len(studies) > 1:
        raise UserError(f"One study at a time; got {', '.join(studies)}.")
    others = [word for word in words if not word.startswith("study=")]
    executor = [word for word in others if is_executor(word.partition("=")[0])]
    return [word for word in others if word not in executor], executor, next(iter(studies), None)


def _combine(
    words: Sequence[str], *, zipped: bool
) -> Iterator[tuple[dict[str, str], list[list[str]]]]:
    """Combinations of the values of the axes: a word by key, without seeds and the data set, since
    only runs on the same data are compared; and the words of each run."""
    axes = {axis[0][0]: axis for axis in expand(words)}  # a later word overrides an earlier one
    varying = {key: axis for key, axis in axes.items() if len(axis) > 1 and not is_seed(key)}
    for choice in _zip(varying) if zipped else itertools.product(*varying.values()):
        chosen = axes | {pair[0]: [pair] for pair in choice}
        runs = itertools.product(*chosen.values())
        own = {key: word for key, word in choice if key != "data"}
        yield own, [[word for _, word in run] for run in runs]


def _zip(axes: dict[str, list[tuple[str, str]]]) -> Iterator[tuple[tuple[str, str], ...]]:
    if not axes:
        raise UserError("--zip pairs the values of several axes; got none. Drop --zip.")
    if len({len(axis) for axis in axes.values()}) > 1:
        lengths = ", ".join(f"{key} has {len(axis)}" for key, axis in axes.items())
        raise UserError(f"--zip pairs values, so every axis needs as many: {lengths}.")
    return zip(*axes.values(), strict=True)
