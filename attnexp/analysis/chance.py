"""Effects of chance on a variant: spread by source, seeds that fail, and chance level."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from attnexp.analysis.results import Results
from attnexp.analysis.summary import Variant
from attnexp.runs.identity import replicate
from attnexp.runs.result import Run
from attnexp.statistics.crossed import Spread, spread

FAR = 4.0
"""Robust standard deviations below the median from which a seed is an outlier."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Spread of a variant's accuracy by one source of chance, all others fixed."""

    variant: str
    name: str
    """`init`, `order`, `split` or `resample`."""
    num_points: int
    num_values: int
    spreads: dict[str, Spread]
    """Spread of accuracy, by endpoint."""


def sources(results: Results) -> list[Source]:
    """Every source of chance that a variant's seeds vary around several points, crossed."""
    found = []
    for label, runs in results.runs.items():
        for name in runs[0].result.config["seeds"]:
            grid = _grid(runs, name)
            if grid is None:
                continue
            spreads = {}
            for point in results.points:
                accuracies = results.metrics(label, point)["accuracy"]
                spreads[point] = spread([[accuracies[seed] for seed in row] for row in grid])
            size = {"num_points": len(grid), "num_values": len(grid[0])}
            found.append(Source(variant=label, name=name, **size, spreads=spreads))
    return found


def _grid(runs: Sequence[Run], name: str) -> list[list[str]] | None:
    """Seeds by point, which fixes all other sources, then by value of this one: a row for each of
    two points or more, all of the same two values or more. None if they are no such grid."""
    rows: dict[str, dict[int | None, str]] = {}
    for run in runs:
        config = run.result.config
        seeds = {
            s: config["seed"] if own is None and s != "resample" else own
            for s, own in config["seeds"].items()
        }
        value = seeds.pop(name)
        rows.setdefault(str(seeds), {})[value] = replicate(config)
    values = next(iter(rows.values())).keys()
    if len(rows) < 2 or len(values) < 2 or any(row.keys() != values for row in rows.values()):
        return None
    return [[row[value] for value in values] for row in rows.values()]


def bad_seeds(variants: Sequence[Variant], results: Results) -> Iterator[str]:
    """A message for each variant of ten seeds or more with seeds far below its median after its
    first or last epoch, the worst first.

    A robust standard deviation is 1.4826 times the median distance from the median, so a tail of
    bad seeds does not widen it; at least half a step of accuracy, since most may be equal.
    """
    least = results.step("accuracy", "final") / 2
    for variant in variants:
        for epoch in dict.fromkeys((variant.epochs[0], variant.epochs[-1])):
            by_seed = results.metrics(variant.label, epoch)["val_accuracy"]
            values = np.array([*by_seed.values()])
            distances = values - np.median(values)
            bound = -FAR * max(1.4826 * np.median(np.abs(distances)), least)
            below = {seed: d for seed, d in zip(by_seed, distances, strict=True) if d < bound}
            if below and len(values) >= 10:
                seeds = ", ".join(sorted(below, key=below.__getitem__))
                yield (
                    f"{variant.label}: {len(below)} of {len(by_seed)} seeds ({seeds}) are more "
                    f"than {FAR:g} robust sd below the median after epoch {epoch}."
                )


def at_chance_level(variants: Sequence[Variant], results: Results) -> Iterator[tuple[str, float]]:
    """Endpoints at which no variant is above chance level, with that level. The sampling error of
    a mean accuracy is that of the texts and of the seeds, at 95 %."""
    if (chance := results.chance) is None:
        return
    for point, n in results.num_texts.items():
        means = [variant.means[point]["accuracy"] for variant in variants]
        errors = [math.sqrt(chance * (1 - chance) / n + (m.sd or 0) ** 2 / m.n) for m in means]
        if all(m.mean <= chance + 1.96 * e for m, e in zip(means, errors, strict=True)):
            yield point, chance
