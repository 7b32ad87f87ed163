"""Intervals and p-values that hold after every seed at once, so that one may look at any time.

The t confidence sequence of Lai ("On Confidence Sequences", Annals of Statistics 4, 1976) in the
form of Wang and Ramdas (arXiv 2310.03722). With n differences d_1 ... d_n of mean m and standard
deviation s, and with G = 1 + n g and K = (G / alpha²)^(1/n),

    interval = m ± s / √n √((n - 1) (K - 1) / (1 - K / G)),  infinite where K ≥ G

holds the true mean at all n together with probability 1 - alpha, if differences are normal. The
p-value is the smallest alpha at which 0 is outside: √G (1 - (1 - 1/G) n m² / Σ d²)^(n/2), at most
1. A larger g > 0 narrows the interval for few seeds and large effects, a smaller one for many.

There is no maximum n and nothing is planned but g, alpha and the margin; who looked before, and why
seeds were added, does not matter. `docs/statistics.md` has simulated error rates.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from attnexp.statistics.paired import Paired
from attnexp.statistics.verdict import (
    ALPHA,
    POINTS,
    Unit,
    Verdict,
    conclude,
    finished,
    format_p,
    format_verdict,
    holm,
)

G = 0.25
"""Declared for all studies."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """Anytime-valid verdict on one variant against the baseline."""

    verdict: Verdict | None
    """helps, hurts or equivalent; None while it is open."""
    size_known: bool
    """Whether helps or hurts is by at least the margin: the interval lies beyond it."""
    n: int
    """Number of seeds."""
    mean: float
    low: float | None
    high: float | None
    """Interval of the mean difference at confidence 1 - alpha; None where it is infinite."""
    p: float
    p_holm: float
    """p-value of no difference, Holm-adjusted over the variants."""
    p_equivalent_holm: float
    """Smallest alpha at which the interval is inside ± margin, Holm-adjusted."""
    line: str = field(compare=False)
    """One sentence, in the unit that was asked for. Not compared: a remark may end it."""


def interval(
    differences: ArrayLike, alpha: float = ALPHA, g: float = G, least_sd: float = 0.0
) -> tuple[Any, Any]:
    """Interval of the mean over the last axis of (..., n); infinite bounds for too few seeds.

    least_sd: least standard deviation that is assumed, as in `paired`.
    """
    d = np.asarray(differences, dtype=float)
    n = d.shape[-1]
    mean, scale = d.mean(-1), 1 + n * g
    k = (scale / alpha**2) ** (1 / n)
    if k >= scale:
        return mean - math.inf, mean + math.inf
    sd = np.maximum(d.std(-1, ddof=1), least_sd)
    half = sd * math.sqrt((n - 1) / n * (k - 1) / (1 - k / scale))
    return mean - half, mean + half


def p_no_difference(differences: ArrayLike, g: float = G, least_sd: float = 0.0) -> Any:
    """Smallest alpha at which 0 is outside `interval`, over the last axis of (..., n)."""
    d = np.asarray(differences, dtype=float)
    n, mean = d.shape[-1], d.mean(-1)
    if n == 1:
        return np.ones_like(mean)
    sd = np.maximum(d.std(-1, ddof=1), least_sd)
    squares = n * mean**2 + (n - 1) * sd**2  # sum of d², unless least_sd is the larger
    share = n * mean**2 / np.maximum(squares, 1e-290)
    scale = 1 + n * g
    return np.minimum(1, math.sqrt(scale) * (1 - (1 - 1 / scale) * share) ** (n / 2))


def p_equivalent(differences: ArrayLike, margin: float, g: float = G, least_sd: float = 0.0) -> Any:
    """Smallest alpha at which `interval` is inside ± margin; 1 where the mean is outside."""
    d = np.asarray(differences, dtype=float)
    above, below = (p_no_difference(d + bound, g, least_sd) for bound in (-margin, margin))
    return np.where(np.abs(d.mean(-1)) < margin, np.maximum(above, below), 1.0)


def fewest_seeds(alpha: float = ALPHA, g: float = G) -> int:
    """Fewest seeds with a finite interval: with fewer, nothing can be decided."""
    return next(n for n in count(2) if (1 + n * g) ** (1 - n) <= alpha**2)


def decide(
    pairs: Mapping[str, Paired],
    *,
    alpha: float = ALPHA,
    g: float = G,
    unit: Unit = POINTS,
    planned: Mapping[str, int] | None = None,
    remark: str = "",
) -> dict[str, Decision]:
    """Decide about variants that share a baseline, by name; `verdict.conclude` has the rules.

    With several variants p-values are Holm-adjusted, so one may be open although its own interval,
    which is always at confidence 1 - alpha, excludes 0; never the other way round.
    """
    # sorted, so that sums do not depend on the order of the seeds
    d = {name: np.sort([*pair.by_seed.values()]) for name, pair in pairs.items()}
    ps = [float(p_no_difference(d[name], g, pair.least_sd)) for name, pair in pairs.items()]
    by_holm = holm(ps)
    equivalent = holm(
        [float(p_equivalent(d[k], pair.margin, g, pair.least_sd)) for k, pair in pairs.items()]
    )
    found = {}
    for i, (name, pair) in enumerate(pairs.items()):
        low, high = map(float, interval(d[name], alpha, g, pair.least_sd))
        n, mean, finite = pair.difference.n, pair.difference.mean, math.isfinite(low)
        bounds = (low, high) if finite else (None, None)
        num_planned = (planned or {}).get(name, n)
        verdict, size_known = conclude(
            pair,
            *bounds,
            p=by_holm[i],
            p_equivalent=equivalent[i],
            planned=num_planned,
            alpha=alpha,
            unit=unit,
        )
        is_open = verdict is Verdict.inconclusive
        said = "open" if is_open else format_verdict(verdict, size_known, pair.margin, unit)
        size = f"{unit.signed(mean)}{unit.name}{unit.interval(*bounds)}"
        if verdict is Verdict.equivalent:
            size += f" is within ±{unit.margin(pair.margin)}"
        over = f", Holm over {len(d)}" if len(d) > 1 else ""
        p = equivalent[i] if verdict is Verdict.equivalent else by_holm[i]
        grounds = f"anytime-valid {format_p(p)}{over}, n = {n}"
        if not finite:
            grounds = f"n = {n}; an interval needs {fewest_seeds(alpha, g)} seeds"
        found[name] = Decision(
            verdict=None if is_open else verdict,
            size_known=size_known,
            n=n,
            mean=mean,
            low=bounds[0],
            high=bounds[1],
            p=ps[i],
            p_holm=by_holm[i],
            p_equivalent_holm=equivalent[i],
            line=f"{said}: {size}, {grounds}{finished(pair, num_planned)}{remark}",
        )
    return found
