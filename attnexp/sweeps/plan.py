"""Plan of a sweep: its runs, from words such as `position=none,rotary` and from a named study."""

import itertools
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

from attnexp.analysis.metrics import ACCURACY
from attnexp.base.errors import UserError
from attnexp.config.compose import compose, compose_executor
from attnexp.config.schema import ExecutorConfig, RunConfig, is_seed, to_dict
from attnexp.config.settings import Tree, expand, key_of
from attnexp.config.study import Study, Words, load_study
from attnexp.network.build import try_to_build
from attnexp.runs.labels import default_label, seed_name, variant_settings
from attnexp.runs.store import RUNS
from attnexp.statistics.verdict import MetricSpec


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A run to be done."""

    config: RunConfig
    label: str  # name of the variant this run belongs to

    @property
    def seeds(self) -> Tree:
        """All seeds, as a run's settings have them."""
        return {"seed": self.config.seed, "seeds": asdict(self.config.seeds)}

    @property
    def seed_name(self) -> str:
        """Name among the jobs of its variant: its seed, with those of `seeds.*` that are others."""
        return seed_name(self.seeds)

    @property
    def inputs_key(self) -> str:
        """Equal for jobs that read the same files, and so share their fingerprint."""
        return repr((self.config.data, self.config.vectors))

    @property
    def run_key(self) -> str:
        """Equal for jobs of the same settings and seeds as given; `out` and device may differ."""
        return repr((variant_settings(to_dict(self.config)), self.seeds, self.config.data))

    @property
    def title(self) -> str:
        """Label and data set. Jobs of one title differ in seed."""
        return f"{self.label} on {self.config.data.title}"

    def __str__(self) -> str:
        return f"{self.title}, seed {self.seed_name}"


Jobs = Sequence[Job]


@dataclass(frozen=True, kw_only=True, slots=True)
class Sweep:
    """Jobs to be compared, in the order of `by_seed`. `plan` makes it. `folder.assign_folder` must
    follow: it sets directory and fingerprints, and what a study there has begun."""

    directory: Path  # of its manifest: `name=NAME`, else after the study or the axes
    is_named: bool  # whether `name=` was given
    levels_by_label: dict[str, dict[str, str]]  # as `VariantOnData` has them; the baseline first
    jobs: list[Job]
    executor: ExecutorConfig
    command: str  # that runs this sweep
    metric: MetricSpec = ACCURACY  # what is judged, and by which margin
    sequential: bool = False  # whether seeds are added because of results, from among `jobs`
    added_seeds: tuple[str, ...] = ()  # those given to the study after it had its answer
    fingerprints: dict[str, str] = field(default_factory=dict)  # by `Job.inputs_key`


def plan(words: Words, metric: MetricSpec = ACCURACY) -> Sweep:
    """Plan the runs that `words` ask for. Raises `UserError` if any of the words is wrong."""
    executor_words = []
    run_words = []
    named: dict[str, str] = {}  # study and name
    for word in words:
        key, _, value = word.partition("=")
        if key in ("study", "name"):
            named[key] = value
        elif key.partition(".")[0] == "executor":
            executor_words.append(word)
        else:
            run_words.append(word)
    if "study" in named:
        study = load_study(named["study"])
        title = Path(named["study"]).stem
        variants = list(_expand_study(study, title, [*study.overrides, *run_words]))
    else:
        axes = "_x_".join(key for key in varied_keys(run_words) if not is_seed(key))
        title = f"sweep_{axes}".rstrip("_")
        variants = list(_expand_axes(run_words))
    default_name = re.sub(r"^\.|[^\w.-]", "-", title)[:100]
    name = named.get("name", default_name)
    if not re.fullmatch(r"[\w-][\w.-]*", name) or name == RUNS:
        raise UserError(
            f"name={name}: a sweep's name has letters, digits, '_', '-' and '.', and is not {RUNS}."
        )
    jobs = by_seed(each_once(job for variant in variants for job in variant.jobs))
    return Sweep(
        directory=Path(jobs[0].config.out, name),
        is_named="name" in named,
        levels_by_label={variant.label: variant.levels for variant in variants},
        jobs=jobs,
        executor=compose_executor(executor_words),
        command=command_of(words, metric),
        metric=metric,
    )


def by_seed(jobs: Iterable[Job]) -> list[Job]:
    """Jobs ordered by seed, so that an interrupted sweep leaves complete pairs."""
    return sorted(jobs, key=lambda job: (job.config.seed, job.seed_name))


def command_of(words: Words, metric: MetricSpec) -> str:
    """The command that gives these words and judges by this metric."""
    options = []
    if metric.name != ACCURACY.name:
        options.append(f"--metric={metric.name}")
    if metric.margin != ACCURACY.margin:
        options.append(f"--margin={metric.margin * metric.unit:.14g}")  # without rounding errors
    return shlex.join(["attnexp", "sweep", *words, *options])


def varied_keys(words: Words) -> list[str]:
    """Keys of the axes that have several values."""
    return [key for key, axis in expand(words) if len(axis) > 1]


class VariantOnData(NamedTuple):
    """A variant on a data set."""

    label: str
    levels: dict[str, str]
    """Its level of each factor. Factors are those of the study, as in {"blog": "pe"}, and all axes
    of several values but data, as in {"mask": "mask=causal"}."""
    jobs: Jobs  # which differ in seed


def _expand_study(study: Study, title: str, words: Words) -> Iterator[VariantOnData]:
    """Variants of a study, each with every choice of the axes. Raises `UserError` for a word that
    sets what the study varies, and for a factor that is called like an axis."""
    own_keys = {key_of(word) for own_words in study.variants.values() for word in own_words}
    for word in words:
        if key_of(word) in own_keys:
            raise UserError(f"{word}: {title} varies this setting itself. Leave it out.")
    for name, own_words in study.variants.items():
        own_levels = study.levels.get(name, {title: name})  # Uncrossed variants are one factor.
        for variant in _expand_axes(words, own_words, name):
            if not own_levels.keys().isdisjoint(variant.levels):
                factors = " and ".join(own_levels)
                raise UserError(f"Rename {factors}: a setting that varies has the same name.")
            yield variant._replace(levels=own_levels | variant.levels)


def _expand_axes(
    words: Words, own_words: Sequence[str] = (), name: str = ""
) -> Iterator[VariantOnData]:
    """Every combination of the axes as a variant. own_words, name: of a variant of a study."""
    _refuse_crossed_seeds(words)
    axes = expand([*own_words, *words])
    seed_axes = [axis for key, axis in axes if is_seed(key)]
    other_axes = [(key, axis) for key, axis in axes if not is_seed(key)]
    for chosen in itertools.product(*(axis for _, axis in other_axes)):
        levels = {}
        for (key, axis), word in zip(other_axes, chosen, strict=True):
            if len(axis) > 1 and key != "data":
                levels[key] = word
        configs = [compose(chosen, seed_words) for seed_words in itertools.product(*seed_axes)]
        try_to_build(configs[0])  # seeds alone make no other model
        label = " ".join([name, *levels.values()]).strip()
        if not label:
            label = default_label(to_dict(configs[0]))
        jobs = [Job(config=config, label=label) for config in configs]
        yield VariantOnData(label=label, levels=levels, jobs=jobs)


def _refuse_crossed_seeds(words: Words) -> None:
    """Raise `UserError` if words vary two seeds. A study may vary another, as variance does."""
    varied_seeds = list(filter(is_seed, varied_keys(words)))
    if len(varied_seeds) > 1:
        crossed = " and ".join(varied_seeds)
        raise UserError(f"Crossed {crossed} are not independent. Vary one of them.")


def each_once(jobs: Iterable[Job]) -> list[Job]:
    """Jobs, each once. Raises `UserError` for two labels of one run, or two runs of one name."""
    label_by_run: dict[str, str] = {}
    job_by_name: dict[str, Job] = {}
    for job in jobs:
        label = label_by_run.setdefault(job.run_key, job.label)
        if label != job.label:
            raise UserError(f"'{label}' and '{job.label}' are the same run. Leave one of them out.")
        first = job_by_name.setdefault(str(job), job)
        if first.config != job.config:
            raise UserError(f"Two runs are called '{job}'. Use two sweeps.")
    return list(job_by_name.values())
