"""Studies of two crossed factors: one at each level of the other, and differences of these."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attnexp.analysis.differences import (
    BySeed,
    Difference,
    judged_differences,
    paired_differences,
)
from attnexp.analysis.metrics import Metric
from attnexp.analysis.results import Results
from attnexp.runs.manifest import Manifest


@dataclass(frozen=True, kw_only=True, slots=True)
class Within:
    """A level of one factor against the baseline's level, at one level of the other factor."""

    levels: dict[str, str]
    """Levels of the variant, by factor; the factor that is compared comes first."""
    baselines: dict[str, str]
    """Levels of what it is compared with; the second is the variant's own."""
    variant: str
    baseline: str
    points: dict[str, Difference]
    """Differences by point; those of all levels are judged together."""


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


def within(
    results: Results,
    metrics: Mapping[str, Metric],
    studies: Sequence[Manifest],
    at_chance: Mapping[str, float],
) -> list[Within]:
    """Every level of a study's first factor against the baseline's, at each level of the second, if
    both variants are there and share a seed.

    at_chance: chance level of accuracy, by the points where no variant is above it.
    """
    found = {
        (variant, baseline): Within(
            levels=study.variants[variant],
            baselines=study.variants[baseline],
            variant=variant,
            baseline=baseline,
            points={},
        )
        for study in studies
        for variant, baseline in study.within()
        if {variant, baseline} <= set(results.variants)
    }
    sequential = set(results.sequential)
    for point in results.points:
        pairs = {}
        steps = {name: results.step(name, point) for name in metrics}
        planned = {f"{one} − {other}": results.num_planned(one, other) for one, other in found}
        for one, other in found:
            pairs[f"{one} − {other}"] = paired_differences(
                results.paired_with(other, one, point),
                results.paired_with(one, other, point),
                metrics,
                steps,
            )
        added = [f"{one} − {other}" for one, other in found if {one, other} & sequential]
        judged = judged_differences(pairs, metrics, {}, planned, at_chance.get(point), added)
        for (one, other), each in found.items():
            if difference := judged.get(f"{one} − {other}"):
                each.points[point] = difference
    return [each for each in found.values() if each.points]


def interactions(
    results: Results, metrics: Mapping[str, Metric], studies: Sequence[Manifest]
) -> list[Interaction]:
    """Interactions of the studies that these runs belong to: one for each pair of levels that are
    not the baseline's, if all four variants are there and share a seed."""
    found = {
        corners[0]: Interaction(
            levels=study.variants[corners[0]],
            baselines=study.variants[corners[3]],
            variants=list(corners),
            points={},
        )
        for study in studies
        for corners in study.crossings()
        if set(corners) <= set(results.variants)
    }
    for point in results.points:
        pairs, steps = {}, {name: results.step(name, point) for name in metrics}
        planned = {label: results.num_planned(*each.variants) for label, each in found.items()}
        added = [label for label, each in found.items() if {*each.variants} & {*results.sequential}]
        for label, each in found.items():
            one, two, three, four = (results.metrics(corner, point) for corner in each.variants)
            pairs[label] = paired_differences(_minus(one, two), _minus(three, four), metrics, steps)
        for label, difference in judged_differences(
            pairs, metrics, {}, planned, sequential=added
        ).items():
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
