"""Comparison of a results table: variants against a baseline, for each metric and endpoint.

All statistics of `attnexp report` and `attnexp judge` are called from here; tables, pages and files
only format them.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from attnexp.analysis.chance import Source, at_chance_level, bad_seeds, sources
from attnexp.analysis.crossings import Interaction, Within, interactions, within
from attnexp.analysis.differences import Difference, judged_differences
from attnexp.analysis.metrics import Metric, metrics_of_runs
from attnexp.analysis.results import Results, results_of_runs, studies_of
from attnexp.analysis.summary import (
    PublishedComparison,
    Variant,
    compare_with_published,
    summarise_variant,
)
from attnexp.analysis.variants import comparison_groups
from attnexp.base.errors import UserError
from attnexp.data.contrast import order_blind_ceiling
from attnexp.runs.manifest import Declaration
from attnexp.runs.result import Run
from attnexp.statistics.anytime import Decision
from attnexp.statistics.crossed import Sums, crossed
from attnexp.statistics.paired import McNemar, mcnemar
from attnexp.statistics.verdict import POINTS

SCHEMA = 4
"""Version of the JSON documents of comparisons."""

ROUNDING = {
    "fpmath": "ONEDNN_DEFAULT_FPMATH_MODE",
    "dtype": "torch's default dtype",
    "numpy": "numpy's version",
}
"""Keys of provenance that say how numbers are rounded, with their names in messages."""


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
    within: list[Within] = field(default_factory=list)
    """Differences of one factor's levels at each level of the other, of two crossed factors."""
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


def compare(runs: Sequence[Run], metrics: dict[str, Metric] | None = None) -> list[Comparison]:
    """Compare runs: one comparison for every data set and protocol among them.

    metrics: how each metric is compared; None for `metrics_of_runs()`. Raises `UserError` if not
    all runs have measured the metrics that are to be judged.
    """
    return [_compare_runs(group, metrics or metrics_of_runs()) for group in comparison_groups(runs)]


def compare_results(results: Results, metrics: dict[str, Metric]) -> Comparison:
    """Compare the variants of a results table; the first is the baseline."""
    baseline, *others = results.variants
    variants = [summarise_variant(label, results) for label in results.variants]
    at_chance = dict(at_chance_level(variants, results))
    contrasts = {label: (label, baseline) for label in others}
    differences = judged_differences(results, metrics, contrasts, results.sequential, at_chance)
    tests, sums = _by_text(results)
    for label, by_point in differences.items():
        for point, difference in by_point.items():
            texts = None
            if (of := sums[label].get(point)) and "accuracy" in difference.metrics:
                complete = len(of.by_seed) == difference.metrics["accuracy"].difference.n
                texts = crossed(of.by_seed, of.by_text, of.squares) if complete else None
            mcnemar_tests = tests[label].get(point, {})
            by_point[point] = replace(difference, mcnemar=mcnemar_tests, texts=texts)
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
            for finished in [results.seeds(label)]
            if (lacking := [seed for seed in seeds if seed not in finished])
        },
        at_chance=at_chance,
    )


def _compare_runs(group: list[Run], metrics: dict[str, Metric]) -> Comparison:
    damaged: list[str] = []
    results = results_of_runs(group, damaged.append)
    for label, point in product(results.variants, results.points):
        lacking = metrics.keys() - results.metrics(label, point).keys()
        if judged := [name for name in lacking if metrics[name].judged]:
            raise UserError(
                f"{label} has not measured {judged[0]} at the endpoint {point}. Leave out the "
                f"options that name it."
            )
    compared = compare_results(results, metrics)
    studies = studies_of(group)
    names = {
        (folder, run.label): label
        for label, of_variant in results.runs.items()
        for run in of_variant
        for folder in run.studies
    }
    data, fraction = group[0].result.data, group[0].result.config["data"].get("order_fraction")
    return replace(
        compared,
        within=within(results, metrics, studies.values(), compared.at_chance),
        interactions=interactions(results, metrics, studies.values()),
        declared=[
            Declared(
                declaration=study.declaration,
                baseline=names.get((folder, base), base),
                decisions={
                    names[folder, label]: decision
                    for label, decision in study.declaration.decide(
                        [run for run in group if folder in run.studies], list(study.variants)
                    ).items()
                },
            )
            for folder, study in studies.items()
            if study.declaration is not None
            for base in [next(iter(study.variants))]
        ],
        agreement=compare_with_published(compared.variants, results),
        n_val=data["n_val"],
        n_test=data["n_test"],
        order_blind_ceiling=None if fraction is None else order_blind_ceiling(fraction),
        mixed=[*_mixed_code(group), *_mixed_rounding(group)],
        diverged=list(_diverged(results)),
        damaged=list(dict.fromkeys(damaged)),
        sources=sources(results),
        bad_seeds=list(bad_seeds(compared.variants, results)),
    )


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
        files = ", ".join(sorted(names))
        yield f"{files} changed between these runs; runs of different code are separate variants."


def _diverged(results: Results) -> Iterator[str]:
    for label, runs in results.runs.items():
        if messages := [run.result.diverged for run in runs if run.result.diverged]:
            even = math.log(len(runs[0].result.classes))
            yield (
                f"{label}: training diverged in {len(messages)} of {len(runs)} runs "
                f"({messages[0]}; an even guess has {even:.2f}). Such figures tell nothing of the "
                f"variant; use a smaller train.lr."
            )
