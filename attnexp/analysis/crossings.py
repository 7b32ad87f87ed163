"""Studies of two crossed factors: one at each level of the other, and differences of these."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from attnexp.analysis.differences import Difference, judged_differences
from attnexp.analysis.metrics import Metric
from attnexp.analysis.results import Results
from attnexp.runs.manifest import Manifest


@dataclass(frozen=True, kw_only=True, slots=True)
class Within:
    """A level of one factor against the baseline's level, at one level of the other factor."""

    levels: dict[str, str]
    """Levels of the variant, by factor; the factor that is compared comes first."""
    baselines: dict[str, str]
    """Levels of the variant that it is compared with; only the first differs."""
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
    """Differences by point, over the seeds that all four share; judged together."""


def within(
    results: Results,
    metrics: Mapping[str, Metric],
    studies: Iterable[Manifest],
    at_chance: Mapping[str, float],
) -> list[Within]:
    """Every level of a study's first factor against the baseline's, at each level of the second, if
    both variants are there and share a seed.

    at_chance: chance level of accuracy, by the points where no variant is above it.
    """
    return [
        Within(
            levels=study.variants[variant],
            baselines=study.variants[baseline],
            variant=variant,
            baseline=baseline,
            points=points,
        )
        for study, (variant, baseline), points in _contrasts(
            results, metrics, studies, Manifest.within, at_chance
        )
    ]


def interactions(
    results: Results, metrics: Mapping[str, Metric], studies: Iterable[Manifest]
) -> list[Interaction]:
    """Interactions of the studies that these runs belong to: one for each pair of levels that are
    not the baseline's, if all four variants are there and share a seed."""
    return [
        Interaction(
            levels=study.variants[corners[0]],
            baselines=study.variants[corners[3]],
            variants=[*corners],
            points=points,
        )
        for study, corners, points in _contrasts(results, metrics, studies, Manifest.crossings, {})
    ]


def _contrasts(
    results: Results,
    metrics: Mapping[str, Metric],
    studies: Iterable[Manifest],
    choose: Callable[[Manifest], Iterable[Sequence[str]]],
    at_chance: Mapping[str, float],
) -> list[tuple[Manifest, Sequence[str], dict[str, Difference]]]:
    """Study, variants and differences by point of every contrast whose variants are all there and
    share a seed; all are judged together. choose: the contrasts of a study."""
    found = {
        " − ".join(variants): (study, variants)
        for study in studies
        for variants in choose(study)
        if set(variants) <= set(results.variants)
    }
    contrasts = {label: variants for label, (_, variants) in found.items()}
    added = [
        label
        for label, variants in contrasts.items()
        if not set(variants).isdisjoint(results.sequential)
    ]
    differences = judged_differences(results, metrics, contrasts, added, at_chance)
    return [(*found[label], points) for label, points in differences.items() if points]
