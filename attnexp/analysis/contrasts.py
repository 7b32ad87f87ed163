"""Differences: a contrast of variants at an endpoint, its intervals and its verdict."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from attnexp.analysis.endpoints import Endpoint
from attnexp.analysis.families import Contrast, Family
from attnexp.analysis.group import Group
from attnexp.analysis.metrics import ACCURACY
from attnexp.statistics import intervals
from attnexp.statistics.chance import bound_by_answers, bound_by_means
from attnexp.statistics.crossed import crossed, widen
from attnexp.statistics.defaults import FEWEST_SEEDS
from attnexp.statistics.intervals import Bounds, Floats, Interval
from attnexp.statistics.meta import random_effects
from attnexp.statistics.planning import describe_seeds, seeds_at_most, seeds_if_as_measured
from attnexp.statistics.verdict import (
    TOO_FEW,
    UNDECIDED,
    WITHHELD,
    MetricSpec,
    Verdict,
    judge_interval,
)

NO_BOUNDS = (math.nan, math.nan)
NOT_ABOVE_CHANCE = "neither is shown to be above chance"
FIELDS = """data protocol variant baseline within point metric n mean sd low high texts_low
texts_high texts_n next_low next_high m sequential p verdict seeds_if_as_measured seeds_at_most
reason""".split()  # of the JSON document, in its order


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A weighted sum of variants, one number for each seed that they share."""

    data: str
    protocol: str
    contrast: Contrast
    endpoint: Endpoint
    metric: MetricSpec
    interval: Interval  # for other seeds, anytime-valid if sequential; of a mean for data sets
    texts: Bounds | None = None  # for other seeds and texts, never narrower; None where not known
    texts_n: int = 0  # seeds behind `texts`, whose answers are stored
    error: float = math.nan  # standard error, for other texts too where it is known
    m: int  # contrasts that are judged together
    sequential: bool = False  # whether seeds were added because of results; never of a mean
    p: float = math.nan  # of the paired t test, times m; NaN where there is none
    verdict: Verdict
    seeds_if_as_measured: int | None = None  # enough in four of five cases if it is as measured
    seeds_at_most: int | None = None  # enough whatever it is
    next: Bounds | None = None  # where the next data set's would lie; of a mean over data sets only

    @property
    def is_mean(self) -> bool:
        """Whether it is a mean over data sets, which n counts."""
        return self.next is not None

    @property
    def has_verdict(self) -> bool:
        """Whether there is a verdict, be it undecided: seeds are enough, and no reason forbids."""
        return self.verdict.kind not in (TOO_FEW, WITHHELD)

    @property
    def words(self) -> str:
        """The verdict as tables show it, with its size or the seeds it takes; or the reason."""
        if self.verdict.kind != UNDECIDED or self.is_mean:
            return self.verdict.words
        seeds = describe_seeds(self.interval.n, self.seeds_if_as_measured, self.seeds_at_most)
        return f"{UNDECIDED}, needs {seeds}" if seeds else UNDECIDED

    @property
    def record(self) -> dict[str, Any]:
        """The flat record of the JSON document."""
        texts_low, texts_high = self.texts or NO_BOUNDS
        next_low, next_high = self.next or NO_BOUNDS
        values = {
            **vars(self),
            **vars(self.contrast),  # variant, baseline, within
            **self.interval._asdict(),  # n, mean, sd, low, high
            "point": self.endpoint.name,
            "metric": self.metric.name,
            "texts_low": texts_low,
            "texts_high": texts_high,
            "next_low": next_low,
            "next_high": next_high,
            "verdict": self.verdict.name,
            "reason": self.verdict.words if self.verdict.kind == WITHHELD else "",
        }
        return {name: values[name] for name in FIELDS}


def difference_frame(rows: Sequence[Difference]) -> pd.DataFrame:
    """A row for each difference, with the keys of the JSON document."""
    return pd.DataFrame([row.record for row in rows], columns=FIELDS)


def contrasts_with_m(families: Sequence[Family]) -> list[tuple[Contrast, int]]:
    """Every contrast once, with the size of its family, of the larger one where two have it."""
    by_pair: dict[tuple[str, str], tuple[Contrast, int]] = {}
    for family in families:
        for contrast in family:
            key = (contrast.variant, contrast.baseline)
            _, m = by_pair.get(key, (contrast, 0))
            if m < len(family):
                by_pair[key] = (contrast, len(family))
    return list(by_pair.values())


def judge_all(group: Group, metric: MetricSpec) -> list[Difference]:
    """All differences of a group, at each endpoint, of variants that share a seed."""
    if metric.name != ACCURACY.name:  # Which texts are right says nothing of other metrics.
        group = replace(group, right={})
    contrasts = contrasts_with_m(group.families)
    rows = []
    for endpoint in group.endpoints:
        values = group.values(endpoint.name, metric.name)
        above_chance = _find_above_chance(group, values, endpoint, metric)
        for contrast, m in contrasts:
            d = _weigh_values(values, contrast.weights)
            if len(d):
                is_above = not above_chance.isdisjoint(contrast.weights)
                rows.append(_judge_contrast(group, endpoint, metric, contrast, d, m, is_above))
    return rows


def _judge_contrast(
    group: Group,
    endpoint: Endpoint,
    metric: MetricSpec,
    contrast: Contrast,
    d: "pd.Series[float]",
    m: int,
    is_above_chance: bool,  # whether any of its variants is
) -> Difference:
    """The difference of a contrast, judged with m - 1 others. d: its values by seed."""
    step = group.step(contrast, endpoint.name, metric)
    sequential = not group.sequential.isdisjoint(contrast.weights)
    make_interval = intervals.anytime_interval if sequential else intervals.t_interval
    interval = make_interval(d, m=m, step=step)
    sd = intervals.assumed_sd(interval.sd, step)
    answers = _weigh_answers(group, contrast.weights, endpoint, d.index)
    crossing = None
    if not sequential and len(answers) >= FEWEST_SEEDS:
        crossing = crossed(answers, m=m)
    texts = widen(crossing, interval) if crossing else None
    reason = _why_no_verdict(group, contrast, interval.n, answers, is_above_chance)
    verdict = Verdict(WITHHELD, "", reason) if reason else judge_interval(interval, metric, texts)
    if_as_measured = at_most = None
    if is_above_chance:  # Else more seeds would show nothing.
        if_as_measured = seeds_if_as_measured(interval.mean, sd, m, sequential=sequential)
        at_most = seeds_at_most(sd, metric.margin, m, sequential=sequential)
    return Difference(
        data=group.data,
        protocol=group.protocol,
        contrast=contrast,
        endpoint=endpoint,
        metric=metric,
        interval=interval,
        texts=texts,
        texts_n=len(answers) if crossing else 0,
        error=crossing.se if crossing else sd / math.sqrt(interval.n),
        m=m,
        sequential=sequential,
        p=math.nan if sequential else intervals.p_value(d, m=m, step=step),
        verdict=verdict,
        seeds_if_as_measured=if_as_measured,
        seeds_at_most=at_most,
    )


def _find_above_chance(
    group: Group, values: pd.DataFrame, endpoint: Endpoint, metric: MetricSpec
) -> set[str]:
    """Variants shown to do better than a guess of the largest class; all if no guess is known."""
    guess = group.chance.get(metric.name)
    if guess is None:
        return set(group.variants)
    above = set()
    for variant, column in values.items():
        by_seed = column.dropna()
        answers = _weigh_answers(group, {variant: 1.0}, endpoint, by_seed.index)
        if group.guess is not None and len(answers) >= FEWEST_SEEDS:  # paired by text
            bound = bound_by_answers(answers - group.guess)
        else:
            num_texts = group.num_texts[variant, endpoint.name]
            bound = bound_by_means(by_seed.to_numpy(), guess, num_texts)
        if bound > 0:
            above.add(variant)
    return above


def average_differences(rows: Sequence[Difference]) -> Difference:
    """The mean over data sets of one contrast, which speaks of other data sets like these."""
    first = rows[0]
    m = max(row.m for row in rows)
    means = [row.interval.mean for row in rows]
    interval, next_bounds = random_effects(means, [row.error for row in rows], m)
    # Data sets are drawn with their texts, so no second interval can say otherwise.
    verdict = judge_interval(interval, first.metric, interval.bounds, counted="data sets")
    return Difference(
        data=f"mean over {len(rows)}",
        protocol=first.protocol,
        contrast=first.contrast,
        endpoint=first.endpoint,
        metric=first.metric,
        interval=interval,
        next=next_bounds,
        m=m,
        verdict=verdict,
    )


def _weigh_values(values: pd.DataFrame, weights: Mapping[str, float]) -> "pd.Series[float]":
    """Weighted sums of values (seeds, variants) by seed, rounded so that equal ones are equal."""
    shared = values.reindex(columns=list(weights)).dropna()
    weighted = shared @ pd.Series(weights)
    rounded = intervals.round_to_scale(weighted.to_numpy(), shared.to_numpy())
    return pd.Series(rounded, shared.index)


def _weigh_answers(
    group: Group, weights: Mapping[str, float], endpoint: Endpoint, seeds: Iterable[str]
) -> Floats:
    """Weighted sums of `Group.right` (seeds, texts), without seeds whose answers are not stored."""
    sums = []
    for seed in seeds:
        keys = [(variant, seed, endpoint.name) for variant in weights]
        if group.right.keys() >= set(keys):
            answers = np.array([group.right[key] for key in keys])  # (variants, texts)
            sums.append([*weights.values()] @ answers)
    return np.array(sums)


def _why_no_verdict(
    group: Group, contrast: Contrast, n: int, answers: Floats, is_above_chance: bool
) -> str:
    """Why there is no verdict after n seeds, whatever the interval is; else empty."""
    planned = [set(group.origin.planned.get(variant, ())) for variant in contrast.weights]
    num_planned = len(set.intersection(*planned))
    if 2 * n < num_planned:
        return f"{n} of {num_planned} seeds finished"
    if not is_above_chance:
        return NOT_ABOVE_CHANCE
    # Of four variants the answers may differ, and their sums yet be 0.
    if len(contrast.weights) == 2 and len(answers) == n and not answers.any():
        return "the same texts are right"
    return ""
