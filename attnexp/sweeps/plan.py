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

from attnexp.analysis.metrics import ACCURACY
from attnexp.base.errors import UserError
from attnexp.config.compose import compose, compose_executor
from attnexp.config.schema import ExecutorConfig, RunConfig, is_seed, to_dict
from attnexp.config.study import Study, load_study
from attnexp.config.words import expand, key_of
from attnexp.network.build import try_to_build
from attnexp.runs.labels import default_label, replicate, settings
from attnexp.runs.store import RUNS
from attnexp.statistics.verdict import MetricSpec

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
    metric: MetricSpec = ACCURACY  # what is judged, and by which margin
    sequential: bool = False  # whether seeds are added because of results, from among `jobs`
    added_seeds: tuple[str, ...] = ()  # those given to the study after it had its answer
    fingerprints: dict[str, str] = field(default_factory=dict)  # of `Job.inputs`, once read


def plan(words: Sequence[str], metric: MetricSpec = ACCURACY) -> Sweep:
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
    study = Study(variants={"": []})  # without a study, the axes make the labels
    if "study" in chosen:
        study = load_study(chosen["study"])
    shared = [*study.overrides, *run_words]
    axes = "_x_".join(_varied_keys(shared))
    title = Path(chosen.get("study", "")).stem
    if not title:
        title = f"sweep_{axes}" if axes else "sweep"
    _check_words(study, shared, title)
    jobs = list(_jobs(study, shared, title))
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
        command=command_of(words, metric),
        metric=metric,
    )


def command_of(words: Sequence[str], metric: MetricSpec) -> str:
    """The command that gives these words and judges by this metric."""
    options = []
    if metric.name != ACCURACY.name:
        options.append(f"--metric={metric.name}")
    if metric.margin != ACCURACY.margin:
        options.append(f"--margin={metric.margin_text}")
    return shlex.join(["attnexp", "sweep", *words, *options])


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
