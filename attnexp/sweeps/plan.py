"""Plan of a sweep: the list of its runs, which `schedule` carries out.

Axes come from the command line in Hydra's syntax (`position=none,rotary`) or from a named study.
"""

import itertools
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import yaml

from attnexp.base.errors import UserError
from attnexp.config.choose import NotChosen
from attnexp.config.compose import compose, compose_executor
from attnexp.config.schema import ExecutorConfig, RunConfig, is_seed, to_dict
from attnexp.config.study import Study, load_study
from attnexp.config.words import expand, key_of
from attnexp.network.build import try_to_build
from attnexp.runs.labels import default_label, replicate, settings
from attnexp.runs.manifest import Declaration
from attnexp.runs.store import RUNS

MAX_RUNS = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A run to be done."""

    config: RunConfig
    label: str  # name of the variant this run belongs to
    parts: tuple[str, ...]  # of the label: variant of the study, then words of the axes
    factors: dict[str, str]  # level of each factor: of the study, and of axes

    @property
    def seed(self) -> str:
        """Seed, with the separate seeds of `seeds.*`, unique within the variant."""
        return replicate({"seed": self.config.seed, "seeds": asdict(self.config.seeds)})

    @property
    def inputs(self) -> str:
        """Name of all that the run reads. Jobs of one name share its fingerprint."""
        return repr((self.config.data, self.config.vectors))

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
    metric: str = "accuracy"  # that is judged
    fingerprints: dict[str, str] = field(default_factory=dict)  # of `Job.inputs`, once read


def plan(words: Sequence[str]) -> Sweep:
    """Plan the runs that `words` ask for. Raises `UserError` if any of the words is wrong."""
    executor_words: list[str] = []
    run_words: list[str] = []
    chosen: dict[str, str] = {}  # study and name
    for word in words:
        key, _, value = word.partition("=")
        if key in ("study", "name"):
            chosen[key] = value
        elif key.partition(".")[0] == "executor":
            executor_words.append(word)
        else:
            run_words.append(word)
    source = chosen.get("study", "")
    study = Study(variants={"": []})  # without a study, the axes make the labels
    if "study" in chosen:
        study = load_study(source)
    shared = [*study.overrides, *run_words]
    axes = "_x_".join(_varied_keys(shared))
    title = Path(source).stem
    if not title:
        title = f"sweep_{axes}" if axes else "sweep"
    _check_words(study, shared, title)
    try:
        jobs = list(_jobs(study, shared, title))
    except NotChosen as error:
        hint = "" if source else _hint_at_study(shared)
        raise UserError(f"{error}{hint}") from error
    folder = re.sub(r"^\.|[^\w.-]", "-", title)[:100]
    name = _check_name(chosen.get("name", folder))
    variants: dict[str, dict[str, str]] = {}
    for job in jobs:
        variants[job.label] = job.factors if len(job.factors) == 2 else {}
    return Sweep(
        directory=Path(jobs[0].config.out, name),
        is_named="name" in chosen,
        variants=variants,
        jobs=sorted(_distinct(jobs), key=lambda job: (job.config.seed, job.seed)),
        executor=compose_executor(executor_words),
        command=shlex.join(["attnexp", "sweep", *words]),
    )


def _check_name(name: str) -> str:
    """Raises `UserError` where a name is no plain word, or the folder of all runs."""
    if not re.fullmatch(r"[\w-][\w.-]{,99}", name) or name == RUNS:
        raise UserError(
            f"name={name}: a sweep's name has letters, digits, '_', '-' and '.', and is not {RUNS}."
        )
    return name


def _check_words(study: Study, shared: Sequence[str], title: str) -> None:
    """Raise `UserError` for shared words that set what a study varies, that make too many runs, and
    that vary two sources of chance: runs that share one depend on it."""
    varied_keys: set[str] = set()
    for variant_words in study.variants.values():
        varied_keys.update(map(key_of, variant_words))
    for word in shared:
        if key_of(word) in varied_keys:
            raise UserError(f"{word}: {title} varies this setting itself. Leave it out.")
        (axis,) = expand([word])
        for value, number in Counter(axis).items():
            if number > 1:
                _, _, same = value.partition("=")
                raise UserError(f"{word}: two of its values are the same ({same}). Leave one out.")
    num_runs = len(study.variants)
    varied_seeds: list[str] = []
    for axis in expand(shared):
        num_runs *= len(axis)
        key = key_of(axis[0])
        if len(axis) > 1 and is_seed(key):
            varied_seeds.append(key)
    if num_runs > MAX_RUNS:
        raise UserError(f"These axes make {num_runs:,} runs; a sweep takes {MAX_RUNS:,} at most.")
    if len(varied_seeds) > 1:
        crossed = " and ".join(varied_seeds)
        raise UserError(f"Crossed {crossed} are not independent. Vary one of them.")


def _varied_keys(words: Sequence[str]) -> list[str]:
    """Keys of words with several values, those of seeds left out."""
    keys = [key_of(axis[0]) for axis in expand(words) if len(axis) > 1]
    return [key for key in keys if not is_seed(key)]


def _jobs(study: Study, shared: Sequence[str], title: str) -> Iterator[Job]:
    """Jobs of all combinations, the baseline first. title: factor whose levels are the variants."""
    for variant, variant_words in study.variants.items():
        words = [*variant_words, *shared]
        seeds: list[Sequence[str]] = []
        choices: list[Sequence[str]] = []
        for axis in expand(words):
            axes = seeds if is_seed(key_of(axis[0])) else choices
            axes.append(axis)
        compared_keys = set(_varied_keys(words)) - {"data"}
        levels = {title: variant} if variant else {}
        levels = study.levels.get(variant, levels)
        for chosen in itertools.product(*choices):
            compared: list[str] = []
            factors = dict(levels)
            for word in chosen:
                key = key_of(word)
                if key in compared_keys:
                    compared.append(word)
                    factors[key] = word
            parts = tuple(filter(None, [variant, *compared]))
            configs = [compose(chosen, seed_words) for seed_words in itertools.product(*seeds)]
            try_to_build(configs[0])  # seeds alone make no other model
            label = " ".join(parts) or default_label(to_dict(configs[0]))
            for config in configs:
                yield Job(config=config, label=label, parts=parts, factors=factors)


def _hint_at_study(shared: Sequence[str]) -> str:
    """The end of a message on axes of which some choices lack a setting: a file of the study in
    which each variant has only the settings that it knows; nothing where all lack it."""
    varied_keys = set(_varied_keys(shared)) - {"data"}
    # seeds and data sets make no difference
    axes = [axis if key_of(axis[0]) in varied_keys else axis[:1] for axis in expand(shared)]
    own_keys = {*varied_keys}  # of words that each variant has for itself
    known_words: dict[str, Sequence[str]] = {}  # by variant
    lacking: list[str] = []  # variants without a setting
    for words in itertools.product(*axes):
        compared = [word for word in words if key_of(word) in varied_keys]
        name = "_".join(word.partition("=")[2] for word in compared)
        known_words[name] = _drop_unknown(words)
        unknown_words = set(words).difference(known_words[name])
        if unknown_words:
            lacking.append(" ".join(compared))
            own_keys.update(map(key_of, unknown_words))
    if len(lacking) == len(known_words):
        return ""
    variants: dict[str, list[str]] = {}
    for name, words_of_variant in known_words.items():
        variants[name] = [word for word in words_of_variant if key_of(word) in own_keys]
    study = {"baseline": next(iter(variants)), "variants": variants}
    text = yaml.safe_dump(study, default_flow_style=None, sort_keys=False, width=1000)
    shared_words = [word for word in shared if key_of(word) not in own_keys]
    command = shlex.join(["attnexp", "sweep", "study=mine.yaml", *shared_words])
    return (
        f" Variants without it: {', '.join(lacking)}. Write a study, mine.yaml, that gives it to "
        f"the others:\n{text}and compare them: {command}"
    )


def _drop_unknown(words: Sequence[str]) -> Sequence[str]:
    """Words but for settings that no chosen piece has. Raises `NotChosen` for an experiment's."""
    try:
        compose(words)
        return words
    except NotChosen as error:
        start = f"{error.key}."  # of the keys of a section, too
        fewer_words = [word for word in words if not f"{key_of(word)}.".startswith(start)]
        if len(fewer_words) == len(words):
            raise
        return _drop_unknown(fewer_words)


def _distinct(jobs: Iterable[Job]) -> list[Job]:
    """Jobs, each once. Raises `UserError` for two runs of one name, and one run of two names."""
    jobs_by_name: dict[str, Job] = {}
    first_jobs: dict[str, Job] = {}  # by title, since all titles have the same seeds
    for job in jobs:
        name = str(job)
        if jobs_by_name.setdefault(name, job).config != job.config:
            raise UserError(f"Two different runs are called '{name}'. Sweep them apart.")
        first_jobs.setdefault(job.title, job)
    jobs_by_run: dict[str, Job] = {}
    for job in first_jobs.values():
        config = job.config
        run = repr((settings(to_dict(config)), config.seed, config.seeds, config.data))
        twin = jobs_by_run.setdefault(run, job)
        if twin is not job:
            raise UserError(f"'{twin}' and '{job}' are the same run. Leave one of them out.")
    return list(jobs_by_name.values())
