"""Error rates of `attnexp.statistics.sequential`, by simulation.

`python tests/simulated.py` writes the table in docs/statistics.md (half an hour); the slow tests
hold its figures with fewer studies.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attnexp.statistics.paired import seeds_needed
from attnexp.statistics.sequential import Decision, decide, design
from attnexp.statistics.verdict import Verdict

MANY = 2_000
"""Studies, for tests: a rate of 5 % to ±0.5 points (a standard error)."""

PAGE = Path(__file__).parent.parent / "docs" / "statistics.md"
MAX_SEEDS = 64
NO_MARGIN = 1e-9
"""Nothing is ever equivalent."""

Array = NDArray[np.float64]

LAWS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Array]] = {
    "normal": lambda rng, size: rng.normal(size=size),
    "t3": lambda rng, size: rng.standard_t(3, size=size) / np.sqrt(3),
    "stepped": lambda rng, size: np.round(1.5 * rng.normal(size=size)) / np.sqrt(1.5**2 + 1 / 12),
    "exponential": lambda rng, size: rng.exponential(size=size) - 1,
}
"""Of differences, with mean 0 and standard deviation 1. stepped: accuracies are counts, so their
differences come in steps; here of two thirds of a standard deviation, so that many are equal."""


def differences(law: str, num_variants: int, studies: int, *, mean: float) -> Iterator[Array]:
    """(variants, seeds) for each study. Several variants share their baseline's chance, which is
    half of all."""
    rng = np.random.default_rng([*law.encode(), num_variants, round(1000 * mean)])
    for _ in range(studies):
        draws = LAWS[law](rng, (num_variants + 1, MAX_SEEDS))
        yield mean + ((draws[1:] - draws[0]) / np.sqrt(2) if num_variants > 1 else draws[1:])


def decided(
    law: str, num_variants: int, studies: int, *, mean: float, margin: float
) -> Iterator[list[Decision]]:
    """Of each study, by variant."""
    plan = design(MAX_SEEDS, margin=margin)
    for d in differences(law, num_variants, studies, mean=mean):
        yield [*decide({str(i): row.tolist() for i, row in enumerate(d)}, plan).values()]


def false_verdicts(law: str, num_variants: int, studies: int = MANY) -> float:
    """Share of studies of nothing in which some variant helps or hurts."""
    return _share(law, num_variants, studies, 0.0, NO_MARGIN, {Verdict.helps, Verdict.hurts})


def false_equivalent(law: str, num_variants: int, studies: int = MANY) -> float:
    """Share of studies in which some variant is equivalent, where all differ by the margin, 0.3
    standard deviations."""
    return _share(law, num_variants, studies, 0.3, 0.3, {Verdict.equivalent})


def coverage(law: str, dz: float, studies: int = MANY) -> float:
    """How often the interval at the stop holds the mean, dz standard deviations from 0."""
    found = decided(law, 1, studies, mean=dz, margin=NO_MARGIN)
    return float(np.mean([one.low <= dz <= one.high for (one,) in found]))  # type: ignore[operator]


def power(dz: float, studies: int = MANY) -> tuple[float, float, int]:
    """Share of studies in which a variant helps that does, how many seeds they take in the mean,
    and how many a study of fixed size needs for 80 % that knows dz."""
    found = [one for (one,) in decided("normal", 1, studies, mean=dz, margin=NO_MARGIN)]
    fixed = seeds_needed(dz)
    assert fixed is not None
    helps = [one.verdict is Verdict.helps for one in found]
    return float(np.mean(helps)), float(np.mean([one.n for one in found])), fixed


def _share(
    law: str, num_variants: int, studies: int, mean: float, margin: float, wrong: set[Verdict]
) -> float:
    found = decided(law, num_variants, studies, mean=mean, margin=margin)
    return float(np.mean([any(one.verdict in wrong for one in study) for study in found]))
