"""Plan of a sweep: the list of its runs, which `schedule` carries out.

Axes come from the command line in Hydra's syntax (`position=none,rotary`) or from a named study.
"""

import itertools
import json
import math
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from attnexp.base.errors import UserError
from attnexp.config.compose import compose, compose_executor
from attnexp.config.schema import ExecutorConfig, RunConfig, is_seed, to_dict
from attnexp.config.study import load_study
from attnexp.config.validate import NotChosen
from attnexp.config.words import expand, key_of
from attnexp.network.build import try_to_build
from attnexp.runs.labels import default_label, replicate, settings
from attnexp.runs.manifest import Declaration
from attnexp.runs.store import RUNS

MAX_RUNS = 10_000

Axis = list[tuple[str, str]]
"""Choices of an axis, as `expand` gives them: the key, the same in all, and a word."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A run to be done."""

    config: RunConfig
    label: str  # name of the variant this run belongs to
    parts: tuple[str, ...]  # of the label: variant of the study, then words of the axes

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

    directory: Path  # of its manifest: `name=NAME`, else after the study or the axes
    is_named: bool  # whether `name=` was given
    variants: dict[str, dict[str, str]]  # by label, baseline first: two factors' levels, or {}
    jobs: list[Job]
    executor: ExecutorConfig
    command: str  # that runs this sweep
    declaration: Declaration | None = None  # of --until decided; `jobs` then holds its budget
    added_seeds: tuple[str, ...] = ()  # those given to the study after it had its answer


@dataclass(frozen=True, kw_only=True, slots=True)
class Design:
    """What is compared: variants, each by its own words, and words that all runs share."""

    name: str
    variants: dict[str, list[str]]
    levels: dict[str, dict[str, str]]  # of the factors of the study, by variant
    shared: list[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Combination:
    """One value of every axis but the seeds."""

    parts: tuple[str, ...]  # as in `Job`
    factors: dict[str, str]  # level of each factor: of the study, and of axes
    words: list[str]
    seed_axes: list[list[str]]  # words of each axis of seeds


def plan(words: Sequence[str]) -> Sweep:
    """Plan the runs that `words` ask for; `folder.choose_folder` then says where they are recorded.
    Raises `UserError` if any of the words is wrong."""
    names = _values("name=", words)
    studies = _values("study=", words)
    executor_words = [word for word in words if re.match(r"executor[.=]", word)]
    run_words = [word for word in words if not re.match(r"executor[.=]|study=|name=", word)]
    design = _design_of_study(studies[-1], run_words) if studies else _design_of_axes(run_words)
    varied_seeds = [key for key in _varied_keys(design.shared) if is_seed(key)]
    if len(varied_seeds) > 1:
        crossed = " and ".join(varied_seeds)
        raise UserError(f"Crossed {crossed} are not independent. Vary one of them.")
    jobs: list[Job] = []
    levels: dict[str, dict[str, str]] = {}
    try:
        for combination in _combinations(design):
            for job in _jobs_by_seed(combination):
                jobs.append(job)
                levels[job.label] = combination.factors if len(combination.factors) == 2 else {}
    except NotChosen as error:
        raise UserError(f"{error}{_propose_study(design)}") from error
    name = _check_folder_name(names[-1]) if names else _folder_name(design.name)
    return Sweep(
        directory=Path(jobs[0].config.out) / name,
        is_named=bool(names),
        variants=levels,
        jobs=sorted(_distinct(jobs), key=lambda job: (job.config.seed, job.seed)),
        executor=compose_executor(executor_words),
        command=shlex.join(["attnexp", "sweep", *words]),
    )


def _values(prefix: str, words: Sequence[str]) -> list[str]:
    return [word.removeprefix(prefix) for word in words if word.startswith(prefix)]


def _design_of_study(source: str, run_words: Sequence[str]) -> Design:
    """Variants of a study. Raises `UserError` for a word that sets what the study varies."""
    study = load_study(source)
    name = Path(source).stem
    varied_keys: set[str] = set()
    for variant_words in study.variants.values():
        varied_keys |= {key_of(word) for word in variant_words}
    for word in [*study.overrides, *run_words]:
        if key_of(word) in varied_keys:
            raise UserError(f"{word}: {name} varies this setting itself. Leave it out.")
    return Design(
        name=name,
        variants=study.variants,
        levels=study.levels or {label: {name: label} for label in study.variants},
        shared=[*study.overrides, *run_words],
    )


def _design_of_axes(run_words: Sequence[str]) -> Design:
    """One unnamed variant, whose axes make the labels."""
    factors = [key for key in _varied_keys(run_words) if not is_seed(key)]
    name = f"sweep_{'_x_'.join(factors)}" if factors else "sweep"
    return Design(name=name, variants={"": []}, levels={"": {}}, shared=[*run_words])


def _varied_keys(words: Sequence[str]) -> list[str]:
    """Keys of words with several values."""
    return [_key(axis) for axis in expand(words) if len(axis) > 1]


def _combinations(design: Design) -> Iterator[Combination]:
    """All combinations of a design, those of the baseline first."""
    for variant, variant_words in design.variants.items():
        axes = expand([*variant_words, *design.shared])
        num_runs = math.prod(map(len, axes))
        if num_runs > MAX_RUNS:
            raise UserError(
                f"These axes make {num_runs:,} runs; a sweep takes {MAX_RUNS:,} at most."
            )
        seed_axes = [axis for axis in axes if is_seed(_key(axis))]
        other_axes = [axis for axis in axes if not is_seed(_key(axis))]
        is_compared = [len(axis) > 1 and _key(axis) != "data" for axis in other_axes]
        for choices in itertools.product(*other_axes):
            # pairs of key and word, since several axes of experiments have one key
            compared = list(itertools.compress(choices, is_compared))
            yield Combination(
                parts=tuple(filter(None, [variant, *_words(compared)])),
                factors=design.levels[variant] | dict(compared),
                words=_words(choices),
                seed_axes=list(map(_words, seed_axes)),
            )


def _key(axis: Axis) -> str:
    return axis[0][0]


def _words(choices: Iterable[tuple[str, str]]) -> list[str]:
    return [word for _, word in choices]


def _jobs_by_seed(combination: Combination) -> Iterator[Job]:
    """Jobs of a combination, which differ in seeds alone; its model is built once, as a check."""
    label = " ".join(combination.parts)
    is_checked = False
    for seed_words in itertools.product(*combination.seed_axes):
        config = compose(combination.words, seed_words)
        if not is_checked:
            try_to_build(config)
            label = label or default_label(to_dict(config))
            is_checked = True
        yield Job(config=config, label=label, parts=combination.parts)


def _propose_study(design: Design) -> str:
    """The study in which each variant has only the settings that it knows: of axes of which some
    choices lack a setting. Nothing for other designs."""
    variants: dict[str, list[str]] = {}
    moved_keys = set(_varied_keys(design.shared)) - {"data"}
    lacking: dict[str, None] = {}
    for combination in _combinations(design):
        words, unknown_keys = _leave_out_unknown(combination.words)
        values = [word.partition("=")[2] for word in combination.parts if word in words]
        variants.setdefault("_".join(values), words)
        moved_keys |= unknown_keys
        if unknown_keys:
            lacking[" ".join(word for word in combination.parts if word in words)] = None
    if list(design.variants) != [""] or len(variants) < 2 or len(lacking) == len(variants):
        return ""
    lines = [f"baseline: {json.dumps(next(iter(variants)))}", "variants:"]
    for name, words in variants.items():
        own_words = [word for word in words if key_of(word) in moved_keys]
        lines.append(f"  {json.dumps(name)}: {json.dumps(own_words)}")
    others = [
        word for word in design.shared if key_of(word) not in moved_keys or is_seed(key_of(word))
    ]
    command = shlex.join(["attnexp", "sweep", "study=mine.yaml", *others])
    study = "\n".join(lines)
    return (
        f" Variants without it: {', '.join(lacking)}. Write a study, mine.yaml, that gives it to "
        f"the others:\n{study}\nand compare them: {command}"
    )


def _leave_out_unknown(words: Sequence[str]) -> tuple[list[str], set[str]]:
    """Words without the settings that the pieces they choose do not have, and the keys of these."""
    known = list(words)
    unknown_keys: set[str] = set()
    while True:
        try:
            compose(known)
        except NotChosen as error:
            unknown_keys.add(error.key)
            known = [word for word in known if key_of(word) != error.key]
        else:
            return known, unknown_keys


def _distinct(jobs: Iterable[Job]) -> list[Job]:
    """Jobs, each once, since a value may be given twice. Raises `UserError` for different runs of
    one name, and for one run of different names."""
    jobs_by_name: dict[str, Job] = {}
    names_by_run: dict[str, str] = {}
    for job in jobs:
        name, config = str(job), job.config
        if jobs_by_name.setdefault(name, job).config != config:
            raise UserError(f"Two different runs are called '{name}'. Sweep them apart.")
        run = repr((settings(to_dict(config)), config.seed, config.seeds, config.data))
        twin = names_by_run.setdefault(run, name)
        if twin != name:
            raise UserError(f"'{twin}' and '{name}' are the same run. Leave one of them out.")
    return list(jobs_by_name.values())


def _check_folder_name(name: str) -> str:
    """Raises `UserError` where a name is no plain word, or the folder of all runs."""
    if not re.fullmatch(r"\w[\w.-]{,99}", name) or name == RUNS:
        raise UserError(
            f"name={name}: a sweep's name has letters, digits, '_', '-' and '.', and is not {RUNS}."
        )
    return name


def _folder_name(name: str) -> str:
    return re.sub(r"^\.|[^\w.-]", "-", name)[:100]
