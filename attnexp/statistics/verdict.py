"""Helps, hurts, equivalent or inconclusive: a decision over several variants and one baseline.

For one figure declared beforehand (say, final test accuracy); looking at several figures and
quoting the best is what no correction here can mend.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, auto
from itertools import count

from attnexp.statistics.paired import (
    MOST_SEEDS,
    Paired,
    holm,
    seeds_for_equivalence,
    seeds_needed,
    smallest_p,
)

ALPHA = 0.05
"""Share of studies of nothing in which something may be found."""


class Verdict(StrEnum):
    """What may be said of a variant against its baseline."""

    helps = auto()
    hurts = auto()
    equivalent = auto()
    inconclusive = auto()


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """How differences are written, and which of them are good."""

    name: str
    scale: int
    digits: str
    """As in format strings."""
    less_is_better: bool = False

    def signed(self, value: float) -> str:
        """`+1.40`."""
        return f"{self.scale * value:+{self.digits}}"

    def plain(self, value: float) -> str:
        """`1.40`."""
        return f"{self.scale * value:{self.digits}}"

    def margin(self, value: float) -> str:
        """`0.25`, and as many digits as it was given with."""
        return f"{self.scale * value:.4g}"

    def interval(self, low: float | None, high: float | None) -> str:
        """` [+0.90, +1.90]`, to stand behind a difference; nothing where there is none."""
        if low is None or high is None:
            return ""
        return f" [{self.signed(low)}, {self.signed(high)}]"


POINTS = Unit(name=" points", scale=100, digits=".2f")
"""Of an accuracy, or another share."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """A verdict with its grounds."""

    verdict: Verdict
    p_holm: float
    """The sign-flip p, by Holm over the variants judged together."""
    p_equivalent_holm: float | None
    """TOST's p likewise; None where n is 1."""
    more_seeds: int | None
    """How many more an open question needs at 80 % power: 0 where it is settled, None where that
    is more than 10,000 or, with one seed, unknown."""
    line: str
    """One sentence for people, in the unit that was asked for."""


def judge(
    pairs: Mapping[str, Paired], *, alpha: float = ALPHA, unit: Unit = POINTS
) -> dict[str, Judgement]:
    """Judge variants that were compared with the same baseline, by name.

    - equivalent: TOST's p, by Holm, is at most alpha: the difference is inside the margin. One
      that is also significantly not 0 is real, but smaller than what was declared to matter.
    - helps, hurts: the sign-flip p, by Holm, is at most alpha and the 95 % interval lies on that
      side of 0; where less is better, on the other. The p, because it holds whatever the
      differences' shape and corrects for many variants; the interval too, because nobody should
      read "helps" beside an interval with 0.
    - inconclusive: neither. The line says what would settle it, and whether no result could have.

    One false helps or hurts or more, among variants that are all like the baseline, was found in
    2.7 % of 5,000 simulated studies at n = 6, 4.6 % at 10 and 4.8 % at 20 with one variant, 4.7 %
    at 10 and 4.3 % at 20 with four, and in none below 6 seeds:
    `pytest -m slow -s tests/statistics/test_verdict.py`.

    All differences 0 over two seeds or more is equivalent. Of one seed nothing is concluded.
    The 95 % intervals are each variant's own, whatever alpha and however many variants.
    """
    ps = [pair.p for pair in pairs.values()]
    p_holm = holm(ps)
    # one seed has none
    p_equivalent = holm([1.0 if p.p_equivalent is None else p.p_equivalent for p in pairs.values()])
    judged = {}
    for i, (name, pair) in enumerate(pairs.items()):
        case = _Case(
            pair=pair,
            p=p_holm[i],
            p_equivalent=p_equivalent[i],
            num_variants=len(pairs),
            fewest=_fewest(ps, i, alpha),
            alpha=alpha,
            unit=unit,
        )
        judged[name] = _judge(case)
    return judged


@dataclass(frozen=True, kw_only=True, slots=True)
class _Case:
    """A variant with what the others make of its p."""

    pair: Paired
    p: float
    p_equivalent: float
    """Both by Holm."""
    num_variants: int
    fewest: int
    """Seeds from which the variant could be significant, were it as clear as it can be."""
    alpha: float
    unit: Unit


def _judge(case: _Case) -> Judgement:
    pair, n = case.pair, case.pair.difference.n
    side = _side(case)
    more: int | None = 0
    if case.p_equivalent <= case.alpha:
        verdict = Verdict.equivalent
        tost = f"by TOST, {_p(case.p_equivalent)}{_over(case, ' (Holm over {})')}"
        real = f"real, {_grounds(case)}, but " if side else ""
        said = f"{_size(case)} is {real}within ±{case.unit.margin(pair.margin)} {tost}, n = {n}"
    elif side:
        verdict = side
        said = f"{_size(case)}, {_grounds(case)}, n = {n}"
    else:
        verdict = Verdict.inconclusive
        more, way = _to_go(case)
        said = f"{_size(case)}, {_grounds(case)}, n = {n}" if n >= case.fewest else _too_few(case)
        said += way
    return Judgement(
        verdict=verdict,
        p_holm=case.p,
        p_equivalent_holm=None if pair.p_equivalent is None else case.p_equivalent,
        more_seeds=more,
        line=f"{verdict}: {said}",
    )


def _side(case: _Case) -> Verdict | None:
    """Which side of 0 both the sign flips and the interval put it on, if they do."""
    low, high = case.pair.low, case.pair.high
    if case.p > case.alpha or low is None or high is None:
        return None
    if low <= 0 <= high:
        return None
    return Verdict.helps if (low > 0) is not case.unit.less_is_better else Verdict.hurts


def _fewest(ps: list[float], i: int, alpha: float) -> int:
    """Seeds at which variant i's smallest p would pass Holm, the others' being what they are."""
    for n in count(1):
        if holm([*ps[:i], smallest_p(n), *ps[i + 1 :]])[i] <= alpha:
            return n
    raise AssertionError  # 2 / 2^n passes at alpha over the number of variants, whatever the rest


def _to_go(case: _Case) -> tuple[int | None, str]:
    """How many more seeds, and what they would settle: the nearer of a difference and of none.

    Planned at alpha over the number of variants, the level of Holm's first step. The difference
    is taken to be as large as the one observed, the spread too; with few seeds either may be far
    off, and a difference one looks at because it is large is probably smaller. That there is none
    is a plan only for differences seen to be inside the margin.
    """
    pair, level = case.pair, case.alpha / case.num_variants
    mean, sd, n = pair.difference.mean, pair.difference.sd, pair.difference.n
    if sd is None:
        return None, ""
    dz = min(abs(mean) / sd, 100.0) if sd else 100.0  # a hundred sd are as clear as any more
    shown, ruled_out = seeds_needed(dz, alpha=level), None
    if abs(mean) < pair.margin:
        ruled_out = seeds_for_equivalence(sd, margin=pair.margin, alpha=level)
    if shown is None and ruled_out is None:
        return None, f"; more than {MOST_SEEDS:,} seeds would be needed"
    if ruled_out is None or (shown is not None and shown <= ruled_out):
        target, what = shown, "settle a difference of this size"
    else:
        target = ruled_out
        what = f"show equivalence within ±{case.unit.margin(pair.margin)} if there is no difference"
    assert target is not None
    fewest = case.fewest if target is shown else 0  # TOST has no such floor
    more = max(target, fewest, n + 1) - n
    return more, f"; about {_seeds(more, 'more ')} would {what} (80 % power)"


def _too_few(case: _Case) -> str:
    pair, n = case.pair, case.pair.difference.n
    smallest = f"smallest possible {pair.p_smallest:.3g}{_over(case, ' before Holm over {}')}"
    return (
        f"{_size(case)}; with {_seeds(n)} no result can reach p ≤ {case.alpha:g} ({smallest}); "
        f"{_seeds(case.fewest)} are the fewest"
    )


def _size(case: _Case) -> str:
    pair, unit = case.pair, case.unit
    return f"{unit.signed(pair.difference.mean)}{unit.name}{unit.interval(pair.low, pair.high)}"


def _grounds(case: _Case) -> str:
    how = "exact" if case.pair.p_exact else "Monte Carlo"
    return f"{_p(case.p)} ({how} sign-flip{_over(case, ', Holm over {}')})"


def _p(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p_value(p, 3)}"


def p_value(p: float, decimals: int) -> str:
    """With more decimals where rounding would put it on the other side of 0.05."""
    while (round(p, decimals) <= ALPHA) is not (p <= ALPHA):
        decimals += 1
    return f"{p:.{decimals}f}"


def _over(case: _Case, text: str) -> str:
    """Holm is worth words where there are several variants."""
    return text.format(case.num_variants) if case.num_variants > 1 else ""


def _seeds(n: int, more: str = "") -> str:
    return f"{n} {more}seed" + "s" * (n != 1)
