"""Comparisons of variants, each a weight vector: seed by seed, values @ weights is one number. A
difference weighs its variants +1 and -1, an interaction +1, -1, -1, +1."""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from attnexp.analysis.frames import Group
from attnexp.base.errors import UserError
from attnexp.statistics import intervals
from attnexp.statistics.crossed import crossed, widen
from attnexp.statistics.meta import random_effects
from attnexp.statistics.verdict import Metric, is_at_chance, verdict

ACCURACY = Metric()
Weights = Mapping[str, float]  # of variants, by name


def contrast(
    group: Group, weights: Weights, point: str, metric: Metric = ACCURACY, m: int = 1, at: str = ""
) -> dict[str, Any]:
    """A weighted sum of variants, one number for each seed that they share; empty where none is.

    weights: by variant, of two or, in an interaction, four; the first half is weighed against the
    second. m: comparisons judged together. at: level of another factor, which the row names.
    `low` and `high` are the interval for other seeds, anytime-valid where seeds were added because
    of results; `texts_low` and `texts_high` that for other seeds and texts, never narrower.
    """
    wide, names, w = group.values(point, metric.name), [*weights], np.array([*weights.values()])
    d = wide.reindex(columns=names).dropna().dot(w).round(12)  # so that equal differences are equal
    if d.empty:
        return {}
    step, anytime = group.step(point, metric.name), not group.sequential.isdisjoint(names)
    found = (intervals.anytime_interval if anytime else intervals.t_interval)(d, m=m, step=step)
    places, texts = [(name, seed, point) for seed in d.index for name in names], None
    if metric.name == "accuracy" and not anytime and group.right.keys() >= {*places}:
        right = np.array([group.right[place] for place in places]).reshape(len(d), len(w), -1)
        texts = crossed(w @ right, m=m)
    wider = widen(texts, found) if texts else None
    reason = _why_no_verdict(group, wide, names, point, metric, found.n)
    spread = max(found.sd, step / 2)
    return {
        "data": group.data,
        "protocol": group.protocol,
        "point": point,
        "metric": metric.name,
        "variant": " − ".join(names[: len(names) // 2]),
        "baseline": " − ".join(names[len(names) // 2 :]),
        "within": at,
        **found._asdict(),
        "texts_low": wider[0] if wider else math.nan,
        "texts_high": wider[1] if wider else math.nan,
        "p": math.nan if anytime else intervals.p_value(d, m=m, step=step),
        "verdict": "" if reason else verdict(found.n, found.low, found.high, metric, wider),
        "reason": reason,
        "seeds_wanted": intervals.seeds_wanted(spread, metric.margin, m, anytime=anytime),
        "se": texts.se if texts else spread / math.sqrt(found.n),
        "margin": metric.margin,
        "is_share": metric.is_share,
        "m": m,
        "anytime": anytime,
    }


def differences(group: Group, metrics: Sequence[Metric] = (ACCURACY,)) -> pd.DataFrame:
    """Every variant minus the baseline, at every endpoint; a row each."""
    base, *others = group.variants
    return _judged(group, metrics, [({name: 1, base: -1}, "") for name in others])


def within(group: Group, metrics: Sequence[Metric] = (ACCURACY,)) -> pd.DataFrame:
    """Of two crossed factors: every level of the first against the baseline's, at each level of the
    second (in the column `within`); then the interactions, what a level adds beyond that."""
    labels = {tuple(levels.values()): name for name, levels in group.levels.items()}
    base, other_base = next(iter(labels), ("", ""))
    pairs, corners = [], []
    for (one, other), name in labels.items():
        if one != base and (base, other) in labels:
            second = labels[base, other]
            pairs.append(({name: 1, second: -1}, other))
            if other != other_base and (third := labels.get((one, other_base))):
                corners.append(({name: 1, second: -1, third: -1, labels[base, other_base]: 1}, ""))
    both = (_judged(group, metrics, of) for of in (pairs, corners))
    return pd.concat(both, ignore_index=True)


def across(groups: Sequence[Group], metrics: Sequence[Metric] = (ACCURACY,)) -> pd.DataFrame:
    """Differences over `n` data sets (of cuts of one, the first): mean, `low` and `high`, and the
    next one's true difference, `next_low` to `next_high`. Raises `UserError` where none is."""
    rows = pd.concat([make(group, metrics) for make in (differences, within) for group in groups])
    names, found = ["protocol", "variant", "baseline", "point", "metric"], []
    for _, of in rows[rows["n"] > 1].groupby(names, sort=False) if len(rows) else ():
        own = of[~of["data"].str.replace(r"( \(.* texts\))?( #\d+)?$", "", regex=True).duplicated()]
        if len(own) > 1:
            same = own.iloc[0][[*names, "within", "is_share", "margin"]].to_dict()
            mean = random_effects(own["mean"], own["se"])._asdict()
            found.append({"data": f"mean over {len(own)}", **same, "n": len(own), **mean})
    if not found:
        raise UserError("A mean needs two data sets with the same variants, two seeds of each.")
    return pd.DataFrame(found)


def _judged(
    group: Group, metrics: Sequence[Metric], pairs: Sequence[tuple[Weights, str]]
) -> pd.DataFrame:
    """Contrasts that are judged together at each endpoint, one metric at a time. pairs: the weights
    of each, by variant, and within which level."""
    found = []
    for point, metric in product(group.points, metrics):
        there = {*group.values(point, metric.name)}
        own = [pair for pair in pairs if pair[0].keys() <= there]
        found += [contrast(group, w, point, metric, len(own), at) for w, at in own]
    return pd.DataFrame([*filter(None, found)])


def _why_no_verdict(
    group: Group, wide: pd.DataFrame, names: Sequence[str], point: str, metric: Metric, n: int
) -> str:
    """Why there is no verdict: fewer than half of the planned seeds finished, or no variant is
    above always guessing the largest class. Empty where there may be one."""
    planned = len(set.intersection(*(set(group.planned.get(name, ())) for name in names)))
    if 2 * n < planned:
        return f"{n} of {planned} seeds finished"
    if metric.name == "accuracy" and group.chance is not None:
        columns = [wide[name].dropna() for name in wide]
        if all(is_at_chance(values, group.chance, group.num_texts[point]) for values in columns):
            return "no variant is above chance"
    return ""
