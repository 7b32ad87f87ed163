"""Seeds added look by look until a question is decided, with its error rates held.

Testing at 5 % after every few seeds finds something in far more than 5 % of the studies where there
is nothing. Here the looks are declared beforehand and share one error rate: by the look at n of N
seeds A(n) = alpha ln(1 + (e - 1) n / N) of it may be spent (Lan and DeMets, "Discrete Sequential
Boundaries for Clinical Trials", Biometrika 70, 1983; the form that resembles Pocock's boundary).

All is about differences d_1 ... d_n, variant minus baseline, one number a seed, in the order of the
seeds. What is decided at a look depends on no later seed, so it is made again from stored runs.
`docs/statistics.md` has the error rates.
"""

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnexp.statistics.paired import MARGIN, Array
from attnexp.statistics.verdict import POINTS, Verdict

NUM_LOOKS = 8
FIRST_LOOK = 6
"""With fewer seeds no two-sided p is at most 0.05: 2 / 2^5 is 0.0625."""

GROWTH = 1.5
"""Each gap between looks is this many times the one before."""

NUM_ROWS = 10_000
"""Of signs, the first all plus."""

NUM_STUDIES = 1_000_000
"""Simulated for the levels of the intervals: their standard errors are 1 to 2 % of them."""

NUM_FUTURES = 400
"""Drawn for the chance that the next look decides: a standard error of 2.5 % at most."""

UNDECIDED = (None, Verdict.inconclusive)

Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class Design:
    """What is declared before the first run."""

    looks: tuple[int, ...]
    """Numbers of seeds at which one may decide; the last is the most there will be."""
    alpha: float
    """Share of studies that may err, over all looks and variants."""
    margin: float
    """Differences smaller than this do not matter."""
    levels: tuple[float, ...] = field(compare=False)
    """By look: the interval there is the t interval of confidence 1 - level. They follow from the
    rest, but for what another version of numpy draws."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """How things stand with a variant at its last look, or at the one that decided it."""

    verdict: Verdict | None
    """None while more seeds are to come."""
    n: int
    """Seeds at that look; 0 before the first, when all below is None."""
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    """The interval of the mean difference: see `design`."""
    p: float | None = None
    """Share of all rows of signs that reach as far from 0, of those that earlier looks left."""
    bound: float | None = None
    """The largest p at which this look finds a difference."""
    p_equivalent: float | None = None
    bound_equivalent: float | None = None
    """Likewise for that of ± margin which is harder to exclude."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Flip:
    """A sign-flip test after the looks so far: see `flip`."""

    d: Array
    plan: Design
    alpha: float
    one_sided: bool
    steps: dict[int, tuple[float, float]]
    """By look: p and bound, as in `Decision`. What has rejected looks no more."""
    rejected_at: int | None
    """The look at which it did."""
    left: Flags
    """(rows,): those that no look has removed."""
    sums: Array
    """(rows,): of the signed differences."""

    def has_rejected(self, n: int) -> bool:
        """By the look at n seeds."""
        return self.rejected_at is not None and self.rejected_at <= n

    def step(self, n: int) -> tuple[float, float]:
        """p and bound at the look at n seeds, or at the one that rejected."""
        return self.steps[min(n, self.rejected_at or n)]


def design(max_seeds: int, *, margin: float = MARGIN, alpha: float = 0.05) -> Design:
    """The looks for up to `max_seeds`, at least 6 or ValueError, and the levels of the intervals.

    The levels are found by simulation (a second): by each look the t intervals of normal
    differences have missed in A(n) of the studies. So all intervals of a study together hold the
    mean in 1 - alpha of studies, and the one at the stop does, whatever made the study stop.
    """
    planned = looks(max_seeds)
    levels = _interval_levels(planned, alpha)
    return Design(looks=planned, alpha=alpha, margin=margin, levels=levels)


def looks(max_seeds: int) -> tuple[int, ...]:
    """6, 8, 11, 15, 21, 30, 43, 64 for 64; for others as many, whose gaps grow alike."""
    if max_seeds < FIRST_LOOK:
        raise ValueError(f"{max_seeds} seeds decide nothing; give {FIRST_LOOK} or more")
    unit = (max_seeds - FIRST_LOOK) / (GROWTH ** (NUM_LOOKS - 1) - 1)
    found = (round(FIRST_LOOK + unit * (GROWTH**k - 1)) for k in range(NUM_LOOKS))
    return tuple(dict.fromkeys(found))


def spent(n: int, max_seeds: int, alpha: float) -> float:
    """A(n): how much of alpha may be spent by the look at n seeds."""
    return alpha * math.log1p((math.e - 1) * n / max_seeds)


def flip(d: ArrayLike, plan: Design, *, alpha: float, one_sided: bool = False) -> Flip:
    """Test whether the differences' mean is 0, at every look that they reach, by flipping signs.

    A fixed table has 10,000 rows of signs, the first all plus. At a look each row's sum of signed
    differences is found, absolute unless one-sided, and of the rows left those with the largest are
    removed: as many as A(n) x 10,000 allows, less those removed before; sums within 1e-9 of sum |d|
    go together or stay. The test rejects when the first row goes; one-sided, for means above 0.

    Where the differences are symmetric about 0, flipping one changes nothing: the first row is one
    of 10,000 alike, of which at most alpha x 10,000 go. Nothing else is assumed of their shape.
    """
    signs = _signs(plan.looks[-1])
    values = np.asarray(d, dtype=np.float64)
    left, sums = np.ones(NUM_ROWS, dtype=bool), np.zeros(NUM_ROWS)
    steps, rejected_at = dict[int, tuple[float, float]](), None
    for before, n in zip([0, *plan.looks], plan.looks, strict=False):
        if n > len(values) or rejected_at is not None:
            break
        sums = sums + values[before:n] @ signs[before:n]
        reach = (sums if one_sided else np.abs(sums))[left]
        tie = 1e-9 * np.abs(values[:n]).sum()
        allowed = _allowed(n, plan, alpha, left)
        as_far = int(np.count_nonzero(reach >= reach[0] - tie))
        steps[n] = as_far / NUM_ROWS, allowed / NUM_ROWS
        if as_far <= allowed:
            rejected_at = n
        else:
            largest_kept = np.partition(reach, -1 - allowed)[-1 - allowed]
            left[left] = reach <= largest_kept + tie
    return Flip(
        d=values,
        plan=plan,
        alpha=alpha,
        one_sided=one_sided,
        steps=steps,
        rejected_at=rejected_at,
        left=left,
        sums=sums,
    )


def decide(differences: Mapping[str, Sequence[float]], plan: Design) -> dict[str, Decision]:
    """Decide on variants that are compared with one baseline, look by look.

    differences: by variant, in the order of the seeds, as far as there are any; only whole looks
    count. ValueError for one that is not finite.

    - equivalent: margin - d and margin + d, each one-sided, have both rejected by now.
    - helps, hurts: else, where d itself has rejected by now.
    - inconclusive: neither, at the last look.

    The first and the second kind of finding may each be false in alpha of the studies. The variants
    share that as in Holm's procedure: each of m has alpha / m, and one of which it has been found
    leaves its part to the others, for the looks so far too (Maurer and Bretz, "Multiple Testing in
    Group Sequential Trials Using Graphical Approaches", Statistics in Biopharmaceutical Research
    5, 2013).
    """
    for name, d in differences.items():
        if not all(map(math.isfinite, d)):
            raise ValueError(f"{name}: a difference is not finite")

    @functools.cache
    def tests(name: str, share: _Share) -> _Tests:
        return _Tests.of(differences[name], plan, share)

    found = {name: Decision(verdict=None, n=0) for name in differences}
    for n in plan.looks:
        news = True
        while news:  # what is found of one changes what the others may spend
            share, news = _Share.of(found.values(), plan.alpha), False
            for name, d in differences.items():
                if found[name].verdict in UNDECIDED and len(d) >= n:
                    found[name] = tests(name, share).at(n)
                    news = news or found[name].verdict not in UNDECIDED
    return found


def chances(
    differences: Mapping[str, Sequence[float]], plan: Design, decisions: Mapping[str, Decision]
) -> dict[str, float]:
    """How likely the next look finds something, 0 to 1, of each open variant that has had a look.

    The share of 400 futures in which it does. They are drawn from a normal law of which mean and
    spread are as uncertain as the differences so far leave them (the posterior predictive law under
    Jeffreys's prior); what may be spent is taken to stay. decisions: what `decide` made of these.
    """
    share = _Share.of(decisions.values(), plan.alpha)
    return {
        name: _Tests.of(differences[name][: decision.n], plan, share).chance()
        for name, decision in decisions.items()
        if decision.verdict is None and decision.n
    }


def in_words(decision: Decision, plan: Design) -> str:
    """One sentence, such as `helps: +1.20 points [+1.01, +1.39], p = 0.0078 ≤ 0.0097, n = 8`.

    In points of accuracy (hundredths of what is compared).
    """
    said = decision.verdict or "open"
    if not decision.n:
        return f"{said}: no look yet"
    assert decision.mean is not None
    size = f"{POINTS.signed(decision.mean)} points{POINTS.interval(decision.low, decision.high)}"
    differs = _against(decision.p, decision.bound)
    within = f"within ±{POINTS.margin(plan.margin)}"
    within += f" with {_against(decision.p_equivalent, decision.bound_equivalent)}"
    match decision.verdict:
        case Verdict.helps | Verdict.hurts:
            grounds = differs
        case Verdict.equivalent:
            grounds = within
        case _:
            grounds = f"{differs}; {within}"
    return f"{said}: {size}, {grounds}, n = {decision.n}"


def _against(p: float | None, bound: float | None) -> str:
    assert p is not None
    assert bound is not None
    return f"p = {p:.4f} {'≤' if p <= bound else '>'} {bound:.4f}"


class _Share(NamedTuple):
    """What one variant may spend on finding a difference, and on finding that there is none."""

    different: float
    equivalent: float

    @classmethod
    def of(cls, decisions: Iterable[Decision], alpha: float) -> "_Share":
        """Those of which it has been found leave theirs to the others."""
        verdicts = [decision.verdict for decision in decisions]
        different = len(verdicts) - sum(verdicts.count(v) for v in (Verdict.helps, Verdict.hurts))
        equivalent = len(verdicts) - verdicts.count(Verdict.equivalent)
        return cls(alpha / max(different, 1), alpha / max(equivalent, 1))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Tests:
    """Of one variant: that it differs, that it is below + margin, that it is above - margin."""

    differs: Flip
    below: Flip
    above: Flip

    @classmethod
    def of(cls, d: Sequence[float], plan: Design, share: _Share) -> "_Tests":
        values, equivalent = np.asarray(d), share.equivalent
        return cls(
            differs=flip(values, plan, alpha=share.different),
            below=flip(plan.margin - values, plan, alpha=equivalent, one_sided=True),
            above=flip(plan.margin + values, plan, alpha=equivalent, one_sided=True),
        )

    def at(self, n: int) -> Decision:
        """The look at n seeds."""
        from scipy.special import stdtrit

        plan, d = self.differs.plan, self.differs.d[:n].tolist()
        mean, level = fmean(d), plan.levels[plan.looks.index(n)]
        half = float(stdtrit(n - 1, 1 - level / 2)) * stdev(d) / math.sqrt(n)
        verdict = None
        if self.below.has_rejected(n) and self.above.has_rejected(n):
            verdict = Verdict.equivalent
        elif self.differs.has_rejected(n):
            verdict = Verdict.helps if mean > 0 else Verdict.hurts
        elif n == plan.looks[-1]:
            verdict = Verdict.inconclusive
        p, bound = self.differs.step(n)
        sides = self.below.step(n), self.above.step(n)
        p_equivalent, bound_equivalent = max(sides, key=lambda side: side[0] - side[1])
        return Decision(
            verdict=verdict,
            n=n,
            mean=mean,
            low=mean - half,
            high=mean + half,
            p=p,
            bound=bound,
            p_equivalent=p_equivalent,
            bound_equivalent=bound_equivalent,
        )

    def chance(self) -> float:
        """That the look after all these differences finds something."""
        plan, d = self.differs.plan, self.differs.d
        n, rng = len(d), np.random.default_rng(0)
        size = plan.looks[plan.looks.index(n) + 1] - n
        sd = d.std(ddof=1) * np.sqrt((n - 1) / rng.chisquare(n - 1, size=(NUM_FUTURES, 1)))
        mean = d.mean() + sd / math.sqrt(n) * rng.normal(size=(NUM_FUTURES, 1))
        futures = mean + sd * rng.normal(size=(NUM_FUTURES, size))
        below = _would_reject(self.below, plan.margin - futures)
        above = _would_reject(self.above, plan.margin + futures)
        return float((_would_reject(self.differs, futures) | below & above).mean())


def _would_reject(test: Flip, futures: Array) -> Flags:
    """Whether a test rejects by its next look. futures: (studies, seeds until then)."""
    if test.rejected_at is not None:
        return np.ones(len(futures), dtype=bool)
    before = len(test.d)
    n = before + futures.shape[1]
    reach = test.sums[test.left] + futures @ _signs(test.plan.looks[-1])[before:n, test.left]
    if not test.one_sided:
        reach = np.abs(reach)
    tie = 1e-9 * (np.abs(test.d).sum() + np.abs(futures).sum(1, keepdims=True))
    as_far = np.count_nonzero(reach >= reach[:, :1] - tie, axis=1)
    return np.asarray(as_far <= _allowed(n, test.plan, test.alpha, test.left))


def _allowed(n: int, plan: Design, alpha: float, left: Flags) -> int:
    """How many rows may go at the look at n seeds."""
    by_now = spent(n, plan.looks[-1], alpha) * NUM_ROWS
    return int(by_now + 1e-6) - int(np.count_nonzero(~left))


@functools.lru_cache(maxsize=2)
def _signs(max_seeds: int) -> Array:
    """(seeds, rows): ±1. numpy promises the generator's raw numbers to every version of it."""
    words = -(-max_seeds // 64)
    raw = np.random.PCG64(0).random_raw(NUM_ROWS * words).astype("<u8")
    bits = np.unpackbits(raw.view(np.uint8)).reshape(NUM_ROWS, -1)[:, :max_seeds]
    signs = 2.0 * bits - 1
    signs[0] = 1
    return np.ascontiguousarray(signs.T)


@functools.cache
def _interval_levels(planned: tuple[int, ...], alpha: float) -> tuple[float, ...]:
    """See `design`. The seeds between two looks enter by their sum and, about their mean, their sum
    of squares."""
    from scipy.special import stdtr

    rng = np.random.default_rng(0)
    sums, squares = np.zeros(NUM_STUDIES), np.zeros(NUM_STUDIES)
    held = np.ones(NUM_STUDIES, dtype=bool)
    levels = []
    for before, n in zip([0, *planned], planned, strict=False):
        size = n - before
        block = rng.normal(scale=math.sqrt(size), size=NUM_STUDIES)
        squares += block**2 / size
        if size > 1:
            squares += rng.chisquare(size - 1, size=NUM_STUDIES)
        sums += block
        t = np.abs(sums) / np.sqrt((squares - sums**2 / n) * n / (n - 1))
        misses = round(spent(n, planned[-1], alpha) * NUM_STUDIES) - int(np.count_nonzero(~held))
        critical = -float(np.partition(-t[held], misses)[misses])
        held &= t <= critical
        levels.append(round(2 * float(stdtr(n - 1, -critical)), 5))
    return tuple(levels)
