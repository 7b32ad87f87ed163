"""Means, spreads and paired differences."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean with what one needs to weigh it."""

    mean: float
    sd: float | None
    """Sample standard deviation; None where n is 1."""
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Mean":
        """Of one number a seed."""
        return cls(fmean(values), stdev(values) if len(values) > 1 else None, len(values))


@dataclass(frozen=True, kw_only=True, slots=True)
class Paired:
    """Variant minus baseline, seed by seed."""

    by_seed: dict[int, float]
    difference: Mean
    low: float | None
    high: float | None
    """The 95 % interval of the mean difference by the paired t; None where n is 1."""


def paired(variant: Mapping[int, float], baseline: Mapping[int, float]) -> Paired | None:
    """Compare two variants over the seeds they share; None where they share none.

    Runs with one seed start from the same shared weights and see the same batches, so their
    difference is free of what the seed does to both. The interval is the textbook one,
    mean ± t(0.975, n - 1) sd / sqrt(n), and assumes differences that are roughly normal.
    """
    from scipy.special import stdtrit

    seeds = sorted(variant.keys() & baseline.keys())
    if not seeds:
        return None
    by_seed = {seed: variant[seed] - baseline[seed] for seed in seeds}
    difference = Mean.of(list(by_seed.values()))
    low = high = None
    if difference.sd is not None:
        half = float(stdtrit(len(seeds) - 1, 0.975)) * difference.sd / math.sqrt(len(seeds))
        low, high = difference.mean - half, difference.mean + half
    return Paired(by_seed=by_seed, difference=difference, low=low, high=high)
