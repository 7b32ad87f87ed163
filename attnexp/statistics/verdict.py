"""Verdicts on variants against a baseline: helps, hurts, equivalent or inconclusive.

They are about one metric at one endpoint that was declared beforehand (say, final test accuracy).
No correction here allows for looking at several metrics and quoting the best.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum, auto

from attnexp.statistics.paired import MOST_SEEDS, Paired, max_t, seeds_for_equivalence, seeds_needed

ALPHA = 0.05
"""Share of studies without any difference in which one may be found."""

FEWEST_DIFFERENT = 6
"""Fewest seeds of which the sign-flip test can find a difference: 2 / 2^6 is below `ALPHA`."""

FEWEST_EQUIVALENT = 3
"""Fewest seeds for the verdict equivalent."""


class Verdict(StrEnum):
    """Verdict on a variant against its baseline."""

    helps = auto()
    hurts = auto()
    equivalent = auto()
    inconclusive = auto()


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """Unit in which differences are written, and the direction that is better."""

    name: str
    scale: int
    digits: str
    """Format specification of a number, such as `.2f`."""
    less_is_better: bool = False

    def signed(self, value: float) -> str:
        """`+1.40`."""
        return f"{self.scale * value:+z{self.digits}}"

    def plain(self, value: float) -> str:
        """`1.40`."""
        return f"{self.scale * value:{self.digits}}"

    def margin(self, value: float) -> str:
        """`0.25`, with as many digits as it was given."""
        return f"{self.scale * value:.4g}"

    def interval(self, low: float | None, high: float | None) -> str:
        """` [+0.90, +1.90]`, which follows a difference; empty where there is no interval."""
        if low is None or high is None:
            return ""
        return f" [{self.signed(low)}, {self.signed(high)}]"


POINTS = Unit(name=" points", scale=100, digits=".2f")
"""Percentage points, the unit of an accuracy or another share."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """A verdict on a fixed number of seeds."""

    verdict: Verdict
    size_known: bool
    """Whether helps or hurts is by at least the margin: the interval lies beyond it."""
    p_adjusted: float
    """Sign-flip p-value, adjusted by step-down maxT over the variants judged together."""
    p_equivalent_adjusted: float | None
    """TOST p-value, Holm-adjusted over these variants; None where n is 1."""
    more_seeds: int | None
    """Seeds that an inconclusive comparison still needs for 80 % power: 0 where there is a verdict,
    None where that is more than 10,000 or, with one seed, unknown."""
    line: str
    """One sentence for people, in the unit that was asked for."""


def holm(ps: Sequence[float]) -> list[float]:
    """Holm-adjusted p-values, in the order given: the i-th smallest of m times m - i + 1, monotone,
    at most 1. The chance of any false rejection is at most alpha, whatever the dependence."""
    adjusted = [0.0] * len(ps)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[index]))
        adjusted[index] = largest
    return adjusted


def conclude(
    pair: Paired,
    low: float | None,
    high: float | None,
    *,
    p: float,
    p_equivalent: float,
    planned: int,
    alpha: float,
    unit: Unit,
) -> tuple[Verdict, bool]:
    """The verdict on a difference, and whether its size is known: the only place that decides.

    - inconclusive where fewer than half of the planned seeds finished, or there is no interval.
    - equivalent: p_equivalent is at most alpha, the interval is inside ± margin, and there are at
      least three seeds.
    - helps, hurts: p is at most alpha and 0 is outside the interval. The size is known where the
      interval lies beyond the margin.

    So no verdict contradicts its interval. Used for fixed numbers of seeds and anytime-valid ones.

    low, high: the interval that is shown. p, p_equivalent: adjusted for several variants.
    """
    if 2 * pair.difference.n < planned or low is None or high is None:
        return Verdict.inconclusive, False
    inside = -pair.margin < low and high < pair.margin
    if p_equivalent <= alpha and inside and pair.difference.n >= FEWEST_EQUIVALENT:
        return Verdict.equivalent, False
    if p > alpha or low <= 0 <= high:
        return Verdict.inconclusive, False
    helps = (low > 0) is not unit.less_is_better
    size_known = low >= pair.margin or high <= -pair.margin
    return (Verdict.helps if helps else Verdict.hurts), size_known


def format_verdict(verdict: Verdict, size_known: bool, margin: float, unit: Unit) -> str:
    """`helps by at least 0.25 points`, `hurts, size not known`, `equivalent`, `inconclusive`."""
    if verdict not in (Verdict.helps, Verdict.hurts):
        return str(verdict)
    if size_known:
        return f"{verdict} by at least {unit.margin(margin)}{unit.name}"
    return f"{verdict}, size not known"


def judge(
    pairs: Mapping[str, Paired],
    *,
    unit: Unit = POINTS,
    planned: Mapping[str, int] | None = None,
    remark: str = "",
) -> dict[str, Judgement]:
    """Judge variants that were compared with the same baseline, by name; `conclude` has the rules.

    Of five variants that differ by 1.5 standard deviations six seeds find 48 %, where Holm's
    procedure finds none; with five that are all like the baseline, 4 % of studies find any.
    `python tests/simulated.py fixed` makes the table in docs/statistics.md.

    planned: number of seeds planned by variant, where it is known. remark: words that end every
    line.
    """
    adjusted = max_t([pair.by_seed for pair in pairs.values()])
    equivalent = holm([1.0 if p.p_equivalent is None else p.p_equivalent for p in pairs.values()])
    judged = {}
    for i, (name, pair) in enumerate(pairs.items()):
        num_planned = (planned or {}).get(name, pair.difference.n)
        verdict, size_known = conclude(
            pair,
            pair.low,
            pair.high,
            p=adjusted[i],
            p_equivalent=equivalent[i],
            planned=num_planned,
            alpha=ALPHA,
            unit=unit,
        )
        more, reasons = _reasons(
            pair, verdict, adjusted[i], equivalent[i], len(pairs), num_planned, unit
        )
        size = unit.signed(pair.difference.mean) + unit.name + unit.interval(pair.low, pair.high)
        judged[name] = Judgement(
            verdict=verdict,
            size_known=size_known,
            p_adjusted=adjusted[i],
            p_equivalent_adjusted=None if pair.p_equivalent is None else equivalent[i],
            more_seeds=more,
            line=f"{format_verdict(verdict, size_known, pair.margin, unit)}: {size}{reasons}"
            f"{finished(pair, num_planned)}{remark}",
        )
    return judged


def finished(pair: Paired, planned: int) -> str:
    """`; 3 of 10 seeds finished`, and what follows; empty where all finished."""
    n = pair.difference.n
    if n >= planned:
        return ""
    none = ", too few for a verdict" if 2 * n < planned else ""
    return f"; {n} of {planned} seeds finished{none}"


def _reasons(
    pair: Paired,
    verdict: Verdict,
    p: float,
    p_equivalent: float,
    num_variants: int,
    planned: int,
    unit: Unit,
) -> tuple[int | None, str]:
    """Number of seeds still needed, and the part of the line after the interval."""
    n, over = pair.difference.n, f", maxT over {num_variants}" if num_variants > 1 else ""
    grounds = f", {format_p(p)} (sign-flip{over}), n = {n}"
    if verdict is Verdict.equivalent:
        assert pair.low is not None
        assert pair.high is not None
        is_real = p <= ALPHA and not pair.low <= 0 <= pair.high
        real = f"real, {format_p(p)} (sign-flip{over}), but " if is_real else ""
        holm_over = f" (Holm over {num_variants})" if num_variants > 1 else ""
        tost = f"±{unit.margin(pair.margin)} by TOST, {format_p(p_equivalent)}{holm_over}, n = {n}"
        return 0, f" is {real}within {tost}"
    if verdict is not Verdict.inconclusive:
        return 0, grounds
    if n < planned:
        return planned - n, grounds
    if n < FEWEST_DIFFERENT:
        grounds = (
            f"; with {_seeds(n)} no result can reach p ≤ {ALPHA:g} (smallest possible "
            f"{pair.p_smallest:.3g}); {_seeds(FEWEST_DIFFERENT)} are the fewest"
        )
    more, plan = _plan(pair, ALPHA / num_variants, unit)
    return more, grounds + plan


def _plan(pair: Paired, level: float, unit: Unit) -> tuple[int | None, str]:
    """Number of seeds still needed, and what they would show: a difference or equivalence,
    whichever needs fewer.

    Planned as if the observed difference and spread were the true ones; with few seeds either may
    be far off, and a difference singled out for being large is probably smaller. Equivalence is
    planned only for differences observed inside the margin whose interval holds 0.
    """
    mean, spread, n = pair.difference.mean, pair.spread, pair.difference.n
    if spread is None or pair.low is None or pair.high is None:
        return None, ""
    dz = min(abs(mean) / spread, 100.0) if spread else 100.0  # more is as clear
    shown, ruled_out = seeds_needed(dz, alpha=level), None
    if abs(mean) < pair.margin and pair.low <= 0 <= pair.high:
        # the 95 % interval has to fit, so at most 0.025 on each side
        ruled_out = seeds_for_equivalence(spread, margin=pair.margin, alpha=min(level, ALPHA / 2))
    if shown is not None and (ruled_out is None or shown <= ruled_out):
        target, what = shown, "settle a difference of this size"
    elif ruled_out is None:
        return None, f"; more than {MOST_SEEDS:,} seeds would be needed"
    else:
        target = max(ruled_out, FEWEST_EQUIVALENT)
        what = f"show equivalence within ±{unit.margin(pair.margin)} if there is no difference"
    more = max(target, n + 1) - n
    return more, f"; about {_seeds(more, 'more ')} would {what} (80 % power)"


def format_p(p: float) -> str:
    """`p = 0.031`, `p < 0.001`."""
    return "p < 0.001" if p < 0.001 else f"p = {p_value(p, 3)}"


def p_value(p: float, decimals: int) -> str:
    """A p-value, with more decimals where rounding would put it on the other side of 0.05."""
    while (round(p, decimals) <= ALPHA) is not (p <= ALPHA):
        decimals += 1
    return f"{p:.{decimals}f}"


def _seeds(n: int, more: str = "") -> str:
    return f"{n} {more}seed" + "s" * (n != 1)
