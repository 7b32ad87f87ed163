"""Statistics of paired differences: mean, interval, p-values, equivalence, seeds needed.

Runs of two variants with one seed start from the same shared weights and see the same batches, so
everything here is computed from one vector d_1 ... d_n, variant minus baseline, one number a seed.
Differences are in the units of the metric: an accuracy is a share, so 0.0025 is a quarter of a
point. `attnexp.statistics.verdict` turns these numbers into verdicts.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np
from numpy.typing import ArrayLike, NDArray

MARGIN = 0.0025
"""Differences smaller than this do not matter, unless the caller says otherwise."""

EXACT_TO = 20
"""Number of seeds up to which all sign flips are counted, 2^19 of them."""

FLIPS = 99_999
"""Number of random flips beyond that: standard error 0.0007 at p = 0.05."""

MOST_SEEDS = 10_000
"""Largest number of seeds that is proposed."""

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean with its sample size and standard deviation."""

    mean: float
    sd: float | None
    """Sample standard deviation; None where n is 1."""
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Mean":
        """Mean of one number a seed."""
        return cls(fmean(values), stdev(values) if len(values) > 1 else None, len(values))


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """A share of the seeds with its 95 % interval by Clopper and Pearson."""

    share: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Paired:
    """Variant minus baseline, seed by seed."""

    by_seed: dict[str, float]
    """Differences by the name of the seed, in the variant's order."""
    difference: Mean
    low: float | None
    high: float | None
    """The 95 % interval of the mean difference; None where n is 1."""
    p: float
    """Two-sided sign-flip p-value of the mean; 1 where n is 1."""
    p_smallest: float
    """Smallest p-value that this many seeds can give: 2 / 2^n."""
    better: Share
    """Share of seeds whose difference is above 0, ties as half. (Of a loss, these are worse.)"""
    dz: float | None
    """Cohen's dz, mean / sd; None where sd is None or 0."""
    p_equivalent: float | None
    """TOST p-value: the larger of two one-sided paired t tests' against ± margin; None where n is
    1."""
    margin: float
    least_sd: float
    """Least standard deviation used for intervals and tests: half a step of the metric."""

    @property
    def spread(self) -> float | None:
        """Standard deviation used for intervals and tests; None where n is 1."""
        sd = self.difference.sd
        return None if sd is None else max(sd, self.least_sd)

    @property
    def se(self) -> float:
        """Standard error of the mean difference; 0 where n is 1."""
        return (self.spread or 0.0) / math.sqrt(self.difference.n)


@dataclass(frozen=True, kw_only=True, slots=True)
class McNemar:
    """McNemar's test of two classifiers on the same examples: those that only one has right."""

    only_variant: int
    only_baseline: int
    p: float
    """Two-sided exact p-value: a fair coin over the examples on which they differ."""


def difference_of(one: float, other: float) -> float:
    """one - other, rounded to 12 decimals, of numbers below 1 to as many digits: far below one
    example of a test set, and above the noise of subtracting doubles, so that equal differences are
    equal: 0.8525 - 0.85 and 0.9025 - 0.9 are both 0.0025.
    """
    larger = max(abs(one), abs(other), 1e-290)
    return round(one - other, 12 - math.ceil(math.log10(larger)) if larger < 1 else 12)


def paired(
    variant: Mapping[str, float],
    baseline: Mapping[str, float],
    *,
    margin: float = MARGIN,
    step: float = 0.0,
) -> Paired | None:
    """Compare two variants over the seeds they share; None where they share none.

    step: the smallest step of the metric, 1/n of an accuracy on n texts. Equal differences are not
    certain ones: numbers that lie on one of two neighbouring steps have a standard deviation of up
    to half a step, so at least that much is assumed.

    ValueError where a shared value is not finite (comparisons with it would be silently false), or
    the margin is not above 0.
    """
    by_seed = {
        seed: difference_of(variant[seed], baseline[seed]) for seed in variant if seed in baseline
    }
    if margin <= 0:
        raise ValueError(f"margin must be above 0, not {margin}")
    if not by_seed:
        return None
    for seed, value in by_seed.items():
        if not math.isfinite(value):
            raise ValueError(f"{seed}: {variant[seed]} - {baseline[seed]} is no difference")
    d = list(by_seed.values())
    difference = Mean.of(d)
    if difference.sd == 0:  # the mean of equal numbers can miss them by a bit
        difference = Mean(d[0], 0.0, len(d))
    low, high, p_equivalent = _t_tests(difference, margin, step / 2)
    return Paired(
        by_seed=by_seed,
        difference=difference,
        low=low,
        high=high,
        p=max_t([by_seed])[0],
        p_smallest=smallest_p(len(d)),
        better=_better(d),
        dz=difference.mean / difference.sd if difference.sd else None,
        p_equivalent=p_equivalent,
        margin=margin,
        least_sd=step / 2,
    )


def smallest_p(n: int) -> float:
    """The smallest sign-flip p-value of n seeds, of one variant or several: of all 2^n flips, those
    to all plus and all minus; of random flips, the observed one."""
    return 2.0 ** (1 - n) if n <= EXACT_TO else 1 / (FLIPS + 1)


def max_t(variants: Sequence[Mapping[str, float]]) -> list[float]:
    """Sign-flip p-values of variants that share a baseline, adjusted by step-down maxT.

    Westfall and Young, "Resampling-Based Multiple Testing", 1993: flip the signs of all variants'
    differences of a seed together, and count how often the largest statistic among a variant and
    all those less significant is as large as the observed one. Differences may be of any shape that
    is symmetric about 0. For one variant this is the sign-flip test of its mean. Up to 20 seeds all
    flips are counted.

    The statistic is |sum d| / sqrt(sum d²), which grows with |t|. Sums that agree to 1e-9 are ties
    and count.

    variants: differences by seed. Returns p-values in the same order.
    """
    if not variants:
        return []
    seeds = dict.fromkeys(seed for by_seed in variants for seed in by_seed)
    d = np.array([[by_seed.get(seed, 0.0) for seed in seeds] for by_seed in variants])
    d /= np.maximum(np.abs(d).max(1, keepdims=True), 1e-290)  # no square underflows
    d /= np.maximum(np.sqrt((d**2).sum(1, keepdims=True)), 1e-290)
    sums = np.abs(_flipped_sums(d))
    order = np.argsort(-sums[:, 0], kind="stable")
    largest = np.maximum.accumulate(sums[order[::-1]])[::-1]  # over it and the less significant
    observed = sums[order, :1] - 1e-9 * np.abs(d[order]).sum(1, keepdims=True)
    p = np.empty(len(d))
    p[order] = np.maximum.accumulate((largest >= observed).mean(1))
    return [float(each) for each in p]


def mcnemar(variant_right: ArrayLike, baseline_right: ArrayLike) -> McNemar:
    """Compare two runs by what each has right, over the same examples in the same order.

    Takes two boolean vectors of one length, else ValueError. The result is about these two trained
    models on more such examples, not about other seeds. p = 1 where the two never differ.
    """
    from scipy.special import bdtr

    a, b = np.asarray(variant_right, dtype=bool), np.asarray(baseline_right, dtype=bool)
    if a.ndim != 1 or a.shape != b.shape:
        raise ValueError(f"examples do not pair: shapes {a.shape} and {b.shape}")
    only_a, only_b = int((a & ~b).sum()), int((b & ~a).sum())
    p = min(1.0, 2 * float(bdtr(float(min(only_a, only_b)), only_a + only_b, 0.5)))
    return McNemar(only_variant=only_a, only_baseline=only_b, p=p)


def seeds_needed(dz: float, *, alpha: float = 0.05, power: float = 0.8) -> int | None:
    """Fewest seeds that show a true difference of `dz` standard deviations; None above 10,000.

    Power is that of a two-sided paired t test, by the upper tail of the noncentral t. Its level is
    the largest one at most alpha that the sign-flip test has at n, a multiple of 2 / 2^n, because
    the sign-flip test decides: at dz = 1.5 the t test has 80 % at n = 6, sign flips have 68 %.
    An observed `dz` is optimistic where it was singled out for being large.
    """
    from scipy.special import nctdtr, ndtri, stdtrit

    def enough(n: int) -> bool:
        flips = 2.0 ** min(n - 1, 50)  # beyond, the level is alpha
        level = math.floor(alpha * flips) / flips
        critical = stdtrit(n - 1, 1 - level / 2)
        return level > 0 and 1 - float(nctdtr(n - 1, abs(dz) * math.sqrt(n), critical)) >= power

    return _first(enough, float(ndtri(1 - alpha / 2) + ndtri(power)), abs(dz))


def seeds_for_equivalence(
    sd: float, *, margin: float = MARGIN, alpha: float = 0.05, power: float = 0.8
) -> int | None:
    """Fewest seeds by which TOST shows equivalence where there is no difference; None above 10,000.

    The power of TOST is at least P(T > t) + P(T' > t) - 1 over its two one-sided tests, each a
    noncentral t with margin sqrt(n) / sd, so each may miss by half of 1 - power.
    """
    from scipy.special import nctdtr, ndtri, stdtrit

    # more than 100 sd to the margin change nothing; a sd of 0 must not divide
    dz = margin / max(sd, margin / 100)

    def enough(n: int) -> bool:
        missed = float(nctdtr(n - 1, dz * math.sqrt(n), stdtrit(n - 1, 1 - alpha)))
        return missed <= (1 - power) / 2

    return _first(enough, float(ndtri(1 - alpha) + ndtri((1 + power) / 2)), dz)


def _first(enough: Callable[[int], bool], z: float, dz: float) -> int | None:
    """The first n that is enough, searched from (z / dz)², the number if sd were known."""
    if dz * math.sqrt(MOST_SEEDS) < z:
        return None
    start = max(2, int((z / dz) ** 2))
    return next((n for n in range(start, MOST_SEEDS + 1) if enough(n)), None)


def _t_tests(
    difference: Mean, margin: float, least_sd: float
) -> tuple[float | None, float | None, float | None]:
    """Low and high of the 95 % interval, mean ± t(0.975, n - 1) sd / sqrt(n), and TOST's p-value.

    The interval held the mean in so many % of 20,000 simulated studies each:

        n                           3     5    10    30    50
        normal                    95.1  94.9  95.0  94.9  95.2
        steps of 1 / 25,000       95.1  95.1  95.0  94.7  95.1
        exponential               88.2  88.2  89.9  92.2  93.7
        lognormal                 84.0  82.7  83.9  88.1  90.0

    `pytest -m slow -s tests/statistics/test_stats.py -k docstring` makes the table. No interval of
    few seeds can be trusted where a seed fails now and then.
    """
    from scipy.special import stdtr, stdtrit

    mean, sd, n = difference.mean, difference.sd, difference.n
    if sd is None:
        return None, None, None
    error, room = max(sd, least_sd) / math.sqrt(n), margin - abs(mean)
    half = float(stdtrit(n - 1, 0.975)) * error
    p = float(stdtr(n - 1, -room / error)) if error else float(room <= 0)
    return mean - half, mean + half, p


def _flipped_sums(d: Array) -> Array:
    """Sums of (m, n) differences under common sign flips: (m, flips), the unflipped sum first."""
    m, n = d.shape
    if n <= EXACT_TO:  # one sign may stay: the other half of the flips has the same |sums|
        return d[:, :1] + _signed_sums(d[:, 1:])
    rng, sums = np.random.default_rng(0), np.zeros((m, FLIPS + 1))
    for start in range(0, n, 8):  # a random byte is eight signs, whose 256 sums are known
        of_eight = _signed_sums(d[:, start : start + 8])
        flips = np.frombuffer(bytes(1) + rng.bytes(FLIPS), np.uint8)
        sums += of_eight[:, flips & (of_eight.shape[1] - 1)]
    return sums


def _signed_sums(d: Array) -> Array:
    """All 2^n signed sums of (m, n) differences: (m, 2^n), that of all plus first."""
    sums = np.zeros((len(d), 1))
    for column in d.T[:, :, None]:
        sums = np.concatenate([sums + column, sums - column], axis=1)
    return sums


def _better(d: list[float]) -> Share:
    from scipy.special import betaincinv

    n = len(d)
    k = sum(value > 0 for value in d) + sum(value == 0 for value in d) / 2
    return Share(
        share=k / n,
        low=float(betaincinv(k, n - k + 1, 0.025)) if k > 0 else 0.0,
        high=float(betaincinv(k + 1, n - k, 0.975)) if k < n else 1.0,
    )
