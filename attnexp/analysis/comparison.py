"""What a results table says: variants against a baseline, metric by metric, point by point.

All statistics of `attnexp report` and `attnexp judge` are called from here; tables, pages and files
only format them.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from attnexp.analysis.chance import Source, at_chance_level, format_bad_seeds, sources
from attnexp.analysis.results import Results, results_of_runs
from attnexp.analysis.summary import (
    PublishedComparison,
    Variant,
    compare_with_published,
    summarise_variant,
)
from attnexp.analysis.variants import comparison_groups
from attnexp.base import code
from attnexp.data.contrast import order_blind_ceiling
from attnexp.runs import manifest
from attnexp.runs.manifest import Declaration
from attnexp.runs.result import Run
from attnexp.statistics import anytime
from attnexp.statistics.anytime import Decision
from attnexp.statistics.crossed import Crossed, Sums, crossed
from attnexp.statistics.paired import MARGIN, McNemar, Paired, mcnemar, paired
from attnexp.statistics.verdict import POINTS, Judgement, Unit, judge

SCHEMA = 4
"""Version of the JSON documents of comparisons."""

BySeed = Mapping[str, float]


ROUNDING = {
    "fpmath": "ONEDNN_DEFAULT_FPMATH_MODE",
    "dtype": "torch's default dtype",
    "numpy": "numpy's version",
}
"""Keys of provenance that say how numbers are rounded, with their names in messages."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """How a metric is compared."""

    unit: Unit
    margin: float
    """Differences within ± this count as none; in the metric's own unit."""
    judged: bool
    """Whether its differences get a verdict."""


SHARES_OF_ERROR = replace(POINTS, less_is_better=True)
NATS = Unit(name="", scale=1, digits=".4f", less_is_better=True)


def metrics_of_runs(margin: float) -> dict[str, Metric]:
    """The metrics of our runs at an evaluation point: accuracy is judged, the others are shown."""
    return {
        "accuracy": Metric(unit=POINTS, margin=margin, judged=True),
        "loss": Metric(unit=NATS, margin=margin, judged=False),
        "brier": Metric(unit=NATS, margin=margin, judged=False),
        "ece": Metric(unit=SHARES_OF_ERROR, margin=margin, judged=False),
        "gap": Metric(unit=SHARES_OF_ERROR, margin=margin, judged=False),
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """Variant minus baseline at one evaluation point."""

    metrics: dict[str, Paired]
    """Paired differences, by metric."""
    judgements: dict[str, Judgement]
    """Verdicts on the metrics that are judged, by step-down maxT over the variants."""
    anytime: dict[str, Decision]
    """Anytime-valid verdicts on the same metrics, with Holm over the variants."""
    mcnemar: dict[str, McNemar]
    """McNemar's test of accuracy, by seed, where the answers of both are known."""
    texts: Crossed | None = None
    """Interval of accuracy's difference for other seeds and texts. None unless it is known, for all
    seeds that both share, which texts of one test set each has right."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Interaction:
    """A difference of differences: what one level adds under two levels of another factor."""

    levels: dict[str, str]
    """Levels of the first variant, by factor; the factor whose effect is compared comes first."""
    baselines: dict[str, str]
    """Levels of the baseline, by factor."""
    variants: list[str]
    """Names of the four variants: (1 − 2) − (3 − 4)."""
    points: dict[str, Difference]
    """Differences by point, over the seeds that all four share; judged
    together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Declared:
    """A study whose seeds are added until every variant is decided."""

    declaration: Declaration
    baseline: str
    decisions: dict[str, Decision]
    """Decisions about accuracy at the declared point, by variant."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Variants of one data set and protocol; the first is the baseline."""

    data: str
    protocol: str
    """`blog`, `holdout`, or empty for results of other trainers."""
    points: dict[str, str]
    """Description of each evaluation point, by name."""
    metrics: dict[str, Metric]
    variants: list[Variant]
    differences: dict[str, dict[str, Difference]]
    """Differences by variant and point; empty for a variant without a seed of the baseline's."""
    interactions: list[Interaction] = field(default_factory=list)
    """Interactions of a study of two crossed factors."""
    declared: list[Declared] = field(default_factory=list)
    """Studies among these runs whose seeds are added until they are decided."""
    agreement: list[PublishedComparison] = field(default_factory=list)
    """Comparisons with the published run, of each variant and of both."""
    n_val: int | None = None
    n_test: int | None = None
    order_blind_ceiling: float | None = None
    """Accuracy that a bag of words can reach; for `data=contrast` only."""
    mixed: list[str] = field(default_factory=list)
    """Messages if not all runs were made by the same code, or under the same rounding."""
    diverged: list[str] = field(default_factory=list)
    """A message for each variant with runs whose loss diverged."""
    sources: list[Source] = field(default_factory=list)
    """Sources of chance that a variant's seeds vary one at a time."""
    bad_seeds: list[str] = field(default_factory=list)
    """A message for each variant with seeds far below the others after its first or last epoch."""
    damaged: list[str] = field(default_factory=list)
    """A message for each run whose predictions cannot be read: it has no McNemar test."""
    missing: dict[str, list[str]] = field(default_factory=dict)
    """Planned seeds without a finished run, by variant; variants with all seeds are left out."""
    at_chance: dict[str, float] = field(default_factory=dict)
    """Endpoints at which no variant is above always guessing the largest class by more than its
    sampling error, with the accuracy of that guess."""

    @property
    def title(self) -> str:
        """Name of the data set; generated data are called synthetic."""
        return self.data if self.order_blind_ceiling is None else f"{self.data} (synthetic)"

    @property
    def judged(self) -> dict[str, Metric]:
        """The metrics that get verdicts."""
        return {name: metric for name, metric in self.metrics.items() if metric.judged}

    @property
    def has_accuracy(self) -> bool:
        """Whether a metric called accuracy is judged in percentage points."""
        return "accuracy" in self.judged and self.metrics["accuracy"].unit == POINTS

    def to_json(self) -> dict[str, object]:
        """Plain containers, with every number at full precision."""
        return asdict(self)


def compare(runs: Sequence[Run], *, margin: float = MARGIN) -> list[Comparison]:
    """Compare runs: one comparison for every data set and protocol among them.

    margin: differences of accuracy within ± this count as none.
    """
    return [_compare_runs(group, margin) for group in comparison_groups(runs)]


def compare_results(results: Results, metrics: dict[str, Metric]) -> Comparison:
    """Compare the variants of a results table; the first is the baseline."""
    baseline, *others = results.variants
    variants = [summarise_variant(label, results) for label in results.variants]
    (answers, sums), at_chance = _by_text(results), dict(at_chance_level(variants, results))
    planned = {label: results.num_planned(label, baseline) for label in others}
    differences: dict[str, dict[str, Difference]] = {label: {} for label in others}
    for point in results.points:
        steps = {name: results.step(name, point) for name in metrics}
        pairs = {
            label: _differences(
                results.paired_with(baseline, label, point),
                results.paired_with(label, baseline, point),
                metrics,
                steps,
            )
            for label in others
        }
        tests = {label: by_point.get(point, {}) for label, by_point in answers.items()}
        chance = at_chance.get(point)
        for label, difference in _judged(pairs, metrics, tests, planned, chance).items():
            if (of_texts := sums[label].get(point)) and "accuracy" in difference.metrics:
                complete = len(of_texts.by_seed) == difference.metrics["accuracy"].difference.n
                found = crossed(of_texts.by_seed, of_texts.by_text, of_texts.squares)
                difference = replace(difference, texts=found if complete else None)
            differences[label][point] = difference
    return Comparison(
        data=results.rows[0].data,
        protocol=results.rows[0].protocol,
        points=results.points,
        metrics=metrics,
        variants=variants,
        differences=differences,
        missing={
            label: lacking
            for label, seeds in results.planned.items()
            if (lacking := [seed for seed in seeds if seed not in results.seeds(label)])
        },
        at_chance=at_chance,
    )


def _compare_runs(group: list[Run], margin: float) -> Comparison:
    damaged: list[str] = []
    results = results_of_runs(group, damaged.append)
    metrics = metrics_of_runs(margin)
    compared = compare_results(results, metrics)
    data, fraction = group[0].result.data, group[0].result.config["data"].get("order_fraction")
    return replace(
        compared,
        interactions=_interactions(results, metrics),
        declared=list(_declared(group)),
        agreement=compare_with_published(compared.variants, results),
        n_val=data["n_val"],
        n_test=data["n_test"],
        order_blind_ceiling=None if fraction is None else order_blind_ceiling(fraction),
        mixed=[*_mixed_code(group), *_mixed_rounding(group)],
        diverged=[line for label, runs in results.runs.items() for line in _diverged(label, runs)],
        damaged=list(dict.fromkeys(damaged)),
        sources=sources(results),
        bad_seeds=[line for one in compared.variants for line in format_bad_seeds(one, results)],
    )


def _differences(
    variant: Mapping[str, BySeed],
    baseline: Mapping[str, BySeed],
    metrics: Mapping[str, Metric],
    steps: Mapping[str, float],
) -> dict[str, Paired]:
    """Paired differences with their intervals, by metric: the only place where they are made."""
    pairs = {
        name: paired(
            variant.get(name, {}),
            baseline.get(name, {}),
            margin=metric.margin,
            step=steps[name],
        )
        for name, metric in metrics.items()
    }
    return {name: pair for name, pair in pairs.items() if pair is not None}


def _judged(
    pairs: Mapping[str, dict[str, Paired]],
    metrics: Mapping[str, Metric],
    tests: Mapping[str, dict[str, McNemar]],
    planned: Mapping[str, int | None],
    chance: float | None = None,
) -> dict[str, Difference]:
    """Differences with verdicts; variants are judged together, each metric by itself.

    chance: chance level of accuracy, where no variant is above it.
    """
    known = {label: number for label, number in planned.items() if number is not None}
    shared = {label: found for label, found in pairs.items() if found}
    judgements: dict[str, dict[str, Judgement]] = {label: {} for label in shared}
    decisions: dict[str, dict[str, Decision]] = {label: {} for label in shared}
    for name, metric in metrics.items():
        if metric.judged:
            family = {label: found[name] for label, found in shared.items() if name in found}
            remark = ""
            if chance is not None and name == "accuracy":
                remark = f"; no variant is above chance level, {100 * chance:.1f} %"
            judged = judge(family, unit=metric.unit, planned=known, remark=remark)
            decided = anytime.decide(family, unit=metric.unit, planned=known, remark=remark)
            for label in family:
                judgements[label][name] = judged[label]
                decisions[label][name] = decided[label]
    return {
        label: Difference(
            metrics=found,
            judgements=judgements[label],
            anytime=decisions[label],
            mcnemar=tests.get(label, {}),
        )
        for label, found in shared.items()
    }


def _by_text(
    results: Results,
) -> tuple[dict[str, dict[str, dict[str, McNemar]]], dict[str, dict[str, Sums]]]:
    """McNemar's tests by variant, point and seed, and sums over seeds and texts by variant and
    point, where both have answered the same examples.

    Works seed by seed, so that every file is read once and few are held in memory.
    """
    baseline, *others = results.variants
    tests: dict[str, dict[str, dict[str, McNemar]]] = {label: {} for label in others}
    sums: dict[str, dict[str, Sums]] = {label: {} for label in others}
    shared = {label: results.shared_seeds(label, baseline) for label in others}
    for seed in dict.fromkeys(seed for seeds in shared.values() for seed in seeds):
        right = results.right(baseline, seed)
        for label in others if right else []:
            for point, bits in results.right(label, seed).items() if seed in shared[label] else ():
                if point in right and len(bits) == len(right[point]):
                    tests[label].setdefault(point, {})[seed] = mcnemar(bits, right[point])
                    if point in results.same_texts:
                        sums[label].setdefault(point, Sums()).add(bits, right[point])
    return tests, sums


def _interactions(results: Results, metrics: Mapping[str, Metric]) -> list[Interaction]:
    """Interactions of the studies that these runs belong to: one for each pair of levels that are
    not the baseline's, if all four variants are there and share a seed."""
    folders = _studies(run for runs in results.runs.values() for run in runs)
    found = {
        corners[0]: Interaction(
            levels=study.variants[corners[0]],
            baselines=study.variants[corners[3]],
            variants=list(corners),
            points={},
        )
        for study in filter(None, map(manifest.load, folders))
        for corners in study.crossings()
        if set(corners) <= set(results.variants)
    }
    for point in results.points:
        pairs, steps = {}, {name: results.step(name, point) for name in metrics}
        planned = {label: results.num_planned(*each.variants) for label, each in found.items()}
        for label, each in found.items():
            one, two, three, four = (results.metrics(corner, point) for corner in each.variants)
            pairs[label] = _differences(_minus(one, two), _minus(three, four), metrics, steps)
        for label, difference in _judged(pairs, metrics, {}, planned).items():
            found[label].points[point] = difference
    return [interaction for interaction in found.values() if interaction.points]


def _minus(
    variant: Mapping[str, BySeed], other: Mapping[str, BySeed]
) -> dict[str, dict[str, float]]:
    return {
        name: {
            seed: value - other[name][seed]
            for seed, value in by_seed.items()
            if seed in other[name]
        }
        for name, by_seed in variant.items()
        if name in other
    }


def _declared(runs: Sequence[Run]) -> Iterator[Declared]:
    """Decisions of the studies that these runs belong to, where an endpoint was declared."""
    for folder in _studies(runs):
        study = manifest.load(folder)
        if study is not None and study.declaration is not None:
            of_study = [run for run in runs if folder in run.studies]
            yield Declared(
                declaration=study.declaration,
                baseline=next(iter(study.variants)),
                decisions=study.declaration.decide(of_study, list(study.variants)),
            )


def _studies(runs: Iterable[Run]) -> dict[Path, None]:
    """Folders of all studies that have one of these runs, in order."""
    return dict.fromkeys(study for run in runs for study in run.studies)


def _mixed_rounding(runs: Sequence[Run]) -> Iterator[str]:
    """Messages for settings of the machine that round differently, where runs differ in them."""
    for key, name in ROUNDING.items():
        found = {str(run.result.provenance[key]) for run in runs if key in run.result.provenance}
        if len(found) > 1:
            yield (
                f"These runs were made with several values of {name} "
                f"({', '.join(sorted(found))}), which round differently."
            )


def _mixed_code(runs: Sequence[Run]) -> Iterator[str]:
    """A message for runs that were made by different code."""
    first, names = dict[str, str](), set[str]()
    for run in runs:
        for name, digest in run.result.code.items():
            if first.setdefault(name, digest) != digest:
                names.add(name)
    if names:
        files = ", ".join(code.files(names))
        yield f"{files} changed between these runs; runs of different code are separate variants."


def _diverged(label: str, runs: list[Run]) -> list[str]:
    messages = [run.result.diverged for run in runs if run.result.diverged]
    if not messages:
        return []
    even = math.log(len(runs[0].result.classes))
    return [
        f"{label}: training diverged in {len(messages)} of {len(runs)} runs ({messages[0]}; an "
        f"even guess has {even:.2f}). Such figures tell nothing of the variant; use a smaller "
        f"train.lr."
    ]
