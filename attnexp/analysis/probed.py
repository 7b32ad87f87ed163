"""Summary of `attnexp probe` over the seeds of each variant: effects of interventions."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Any

import numpy as np

from attnexp.analysis.variants import by_variant, comparison_groups
from attnexp.runs.identity import replicate
from attnexp.runs.probed import ATTENTION, Results, load
from attnexp.runs.result import Run
from attnexp.statistics.crossed import Crossed, Sums, crossed
from attnexp.statistics.paired import Mean, Paired, paired


@dataclass(frozen=True, kw_only=True, slots=True)
class Effect:
    """What an intervention changes, over the seeds of a variant."""

    num_texts: int
    accuracy: Paired
    """Accuracy under the intervention minus that of the intact model, paired by seed."""
    texts: Crossed | None
    """Interval of this difference for other seeds and texts; None below two seeds, or if no answer
    changes."""
    flips: float
    """Share of answers that change."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Probed:
    """What is known of one variant, by intervention and by measure."""

    data: str
    variant: str
    effects: dict[str, Effect]
    impossible: dict[str, str]
    """Reasons why an intervention cannot be done on this model, by intervention."""
    measures: dict[str, Mean]
    """Means over seeds: entropy (over its maximum) and distance (in tokens) of every head's
    attention, and Kendall's tau of how much tokens count, by two measures, or by one in two
    seeds."""


def summarise(runs: Sequence[Run], ids: Sequence[str] = ()) -> list[Probed]:
    """Results of each variant, restricted to these ids if any are given.

    Of several results of one intervention, those of most seeds count, then those of most texts.
    """
    found = []
    for group in comparison_groups(runs):
        for label, of_variant in by_variant(group).items():
            stored = {replicate(run.result.config): load(run.path) for run in of_variant}
            by_name: dict[str, Results] = {}
            for id in ids or dict.fromkeys(id for results in stored.values() for id in results):
                by_seed = {k: results[id] for k, results in stored.items() if id in results}
                for name in {result["name"] for result in by_seed.values()}:
                    by_name[name] = max(by_name.get(name, {}), by_seed, key=_extent)
            if not by_name:
                continue
            read = by_name.pop(ATTENTION, {}).values()
            impossible = {
                name: result["impossible"]
                for name, by_seed in by_name.items()
                for result in by_seed.values()
                if "impossible" in result
            }
            effects = {
                name: _effect(by_seed)
                for name, by_seed in by_name.items()
                if name not in impossible
            }
            found.append(
                Probed(
                    data=of_variant[0].result.data["name"],
                    variant=label,
                    effects=effects,
                    impossible=impossible,
                    measures=_measures(read),
                )
            )
    return found


def _extent(by_seed: Results) -> tuple[int, int]:
    """Number of seeds, and of texts."""
    return len(by_seed), max((result["n"] for result in by_seed.values()), default=0)


def _effect(by_seed: Results) -> Effect:
    intact, changed, sums = dict[str, float](), dict[str, float](), Sums()
    num_texts = _extent(by_seed)[1]
    for seed, result in by_seed.items():
        won, lost = (np.isin(np.arange(num_texts), result[key]) for key in ("won", "lost"))
        sums.add(won, lost)
        intact[seed] = result["accuracy"]
        changed[seed] = intact[seed] + (len(result["won"]) - len(result["lost"])) / num_texts
    pair = paired(changed, intact, step=1 / num_texts)
    assert pair is not None
    flips = fmean(result["flips"] for result in by_seed.values())
    texts = crossed(sums.by_seed, sums.by_text, sums.squares)
    return Effect(num_texts=num_texts, accuracy=pair, texts=texts, flips=flips)


def _measures(read: Iterable[dict[str, Any]]) -> dict[str, Mean]:
    """Means of what is stored of `attention`, a dict for each seed."""
    found: dict[str, list[float]] = {}
    before: dict[str, list[list[float]]] = {}
    for one in read:
        for what, of_heads in one["heads"].items():
            for head, value in enumerate(of_heads, start=1):
                found.setdefault(f"{what}, head {head}", []).append(value)
        counts = one["counts"]
        pairs = {f"{a}, {b}": (counts[a], counts[b]) for a, b in combinations(counts, 2)}
        both = [why for why in before if why in counts]  # a published run has no counts
        pairs |= {f"{why}, two seeds": (before[why], counts[why]) for why in both}
        for name, pair in pairs.items():
            found.setdefault(name, []).extend(_tau(*pair))
        before = counts
    return {name: Mean.of(values) for name, values in found.items() if values}


def _tau(one: list[list[float]], other: list[list[float]]) -> list[float]:
    """Kendall's tau-b of how much tokens count, mean over texts; none where one is constant."""
    from scipy.stats import kendalltau

    texts = [pair for pair in zip(one, other, strict=True) if len(pair[0]) > 1]
    taus = [float(kendalltau(*text).statistic) for text in texts]
    defined = [tau for tau in taus if math.isfinite(tau)]
    return [fmean(defined)] if defined else []
