"""Plan of a sweep: the list of its runs, which `schedule` carries out.

Axes come from the command line in Hydra's syntax (`position=none,rotary`) or from a named study.
"""

import itertools
import math
import re
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from attnexp.base.errors import UserError
from attnexp.config.compose import compose, compose_executor
from attnexp.config.schema import ExecutorConfig, RunConfig, to_dict
from attnexp.config.study import load_study
from attnexp.config.words import expand
from attnexp.network.build import try_to_build
from attnexp.runs.identity import default_label, replicate, settings
from attnexp.runs.manifest import Declaration


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A planned run."""

    config: RunConfig
    label: str  # name of the variant this run belongs to

    @property
    def seed(self) -> str:
        """Seed, with the separate seeds of `seeds.*`, unique within the variant."""
        return replicate({"seed": self.config.seed, "seeds": asdict(self.config.seeds)})

    @property
    def title(self) -> str:
        """Label and data set. Jobs of one title differ in seed."""
        return f"{self.label} on {self.config.data.title}"

    def __str__(self) -> str:
        return f"{self.title}, seed {self.seed}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Sweep:
    """Jobs to be compared, ordered by seed, so that an interrupted sweep leaves complete pairs."""

    directory: Path  # of its manifest, named after the study or the axes
    variants: dict[str, dict[str, str]]  # by label, baseline first: two factors' levels, or {}
    jobs: list[Job]
    executor: ExecutorConfig
    command: str  # that runs this sweep
    declaration: Declaration | None = None  # of --until decided; `jobs` then holds its budget


def plan(words: Sequence[str]) -> Sweep:
    """Plan the runs that `words` ask for. Raises `UserError` if any of them is wrong."""
    executor = [word for word in words if re.match(r"executor[.=]", word)]
    studies = [word for word in words if word.startswith("study=")]
    rest = [word for word in words if word not in (*executor, *studies)]
    if studies:
        given = studies[-1].removeprefix("study=")
        study, name = load_study(given), Path(given).stem
        variants, rest = study.variants, [*study.overrides, *rest]
        levels = study.levels or {label: {name: label} for label in variants}
        varied = tuple(f"{word.partition('=')[0]}=" for own in variants.values() for word in own)
        if twice := [w for w in rest if w.replace(".kind=", "=").startswith(varied)]:
            raise UserError(f"{twice[0]}: {name} varies this setting itself. Leave it out.")
    varying = [axis[0][0] for axis in expand(rest) if len(axis) > 1]
    if len(seeds := [*filter(is_seed, varying)]) > 1:
        raise UserError(f"Crossed {' and '.join(seeds)} are not independent. Vary one of them.")
    if not studies:
        factors = "_x_".join(key for key in varying if not is_seed(key))
        name = f"sweep_{factors}".rstrip("_")
        variants, levels = {"": []}, {"": {}}
    jobs, crossed, names = dict[str, Job](), dict[str, dict[str, str]](), dict[str, str]()
    for label, own in variants.items():
        axes = expand([*own, *rest])
        if (num_runs := math.prod(map(len, axes))) > 10_000:
            raise UserError(f"These axes make {num_runs:,} runs; a sweep takes 10,000 at most.")
        compared = [len(a) > 1 and a[0][0] != "data" and not is_seed(a[0][0]) for a in axes]
        for run in itertools.product(*axes):
            config = compose([word for _, word in run])
            try_to_build(config)
            chosen = [*itertools.compress(run, compared)]
            called = " ".join(filter(None, [label, *(word for _, word in chosen)]))
            job = Job(config=config, label=called or default_label(to_dict(config)))
            crossed[job.label] = levels[label] | dict(chosen)
            if jobs.setdefault(str(job), job).config != config:  # a value may be given twice
                raise UserError(f"Two different runs are called '{job}'. Sweep them apart.")
            run_of = settings(to_dict(config)), config.seed, config.seeds, config.data
            if (twin := names.setdefault(repr(run_of), str(job))) != str(job):
                raise UserError(f"'{twin}' and '{job}' are the same run. Leave one of them out.")
    return Sweep(
        directory=Path(config.out) / re.sub(r"^\.|[^\w.-]", "-", name)[:100],
        variants={label: of if len(of) == 2 else {} for label, of in crossed.items()},
        jobs=sorted(jobs.values(), key=lambda job: (job.config.seed, job.seed)),
        executor=compose_executor(executor),
        command=shlex.join(["attnexp", "sweep", *words]),
    )


def is_seed(key: str) -> bool:
    """Whether runs that differ in this key belong to the same variant."""
    return key == "seed" or key.startswith("seeds.")
