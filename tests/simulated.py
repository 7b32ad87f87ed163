"""Error rates of `attnexp.statistics.sequential`, by simulation.

`python tests/simulated.py` writes the tables in docs/statistics.md (a quarter of an hour on an idle
core); slow tests hold the figures, some with fewer studies.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attnexp.statistics.paired import seeds_needed
from attnexp.statistics.sequential import Decision, decide, design, looks
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


@dataclass(frozen=True, kw_only=True)
class Power:
    """Studies of a true difference, one variant."""

    power: float
    """Share that finds it."""
    mean_n: float
    """Seeds that they take."""
    fixed: int | None
    """Seeds of a study of fixed size with this power (at most 99 %), which must know the size of
    the difference beforehand."""
    fixed_80: int | None
    """Likewise for 80 %."""


def power(dz: float, studies: int = MANY) -> Power:
    """Of a difference of dz standard deviations."""
    found = [one for (one,) in decided("normal", 1, studies, mean=dz, margin=NO_MARGIN)]
    share = float(np.mean([one.verdict is Verdict.helps for one in found]))
    return Power(
        power=share,
        mean_n=float(np.mean([one.n for one in found])),
        fixed=seeds_needed(dz, power=min(share, 0.99)),
        fixed_80=seeds_needed(dz),
    )


def looking_each_time(studies: int) -> float:
    """Share of studies of nothing in which a t test at 5 % finds something at one of the looks."""
    from scipy.special import stdtrit

    d = np.random.default_rng(0).normal(size=(studies, MAX_SEEDS))
    found = np.zeros(studies, dtype=bool)
    for n in looks(MAX_SEEDS):
        t = d[:, :n].mean(axis=1) / d[:, :n].std(axis=1, ddof=1) * np.sqrt(n)
        found |= np.abs(t) > stdtrit(n - 1, 0.975)
    return float(found.mean())


def _share(
    law: str, num_variants: int, studies: int, mean: float, margin: float, wrong: set[Verdict]
) -> float:
    found = decided(law, num_variants, studies, mean=mean, margin=margin)
    return float(np.mean([any(one.verdict in wrong for one in study) for study in found]))


def tables() -> str:
    """Everything above, in Markdown."""
    lines = [
        f"In % of simulated studies: {5 * MANY:,} for false findings with one variant "
        f"({MANY // 2:,} with four), {MANY:,} for the rest. A rate of 5 % has a standard error of "
        f"0.2 points in the first, 0.7 and 0.5 in the others.",
        "",
        "| differences | false helps or hurts, 1 variant | 4 variants "
        "| false equivalent, 1 variant | 4 variants "
        "| interval holds the mean, d/sd = 0 | 0.5 | 0.8 |",
        "|---|" + "---:|" * 7,
    ]
    for law in LAWS:
        rates = [
            *(rate(law, variants, studies)
              for rate in (false_verdicts, false_equivalent)
              for variants, studies in ((1, 5 * MANY), (4, MANY // 2))),
            *(coverage(law, dz) for dz in (0.0, 0.5, 0.8)),
        ]  # fmt: skip
        lines.append(f"| {law} | {' | '.join(f'{100 * rate:.1f}' for rate in rates)} |")
    lines += [
        "",
        f"A t test at 5 % at each of the looks finds something in "
        f"{100 * looking_each_time(50 * MANY):.0f} % of the studies of nothing.",
        "",
        "| d/sd | found, % | seeds, mean | fixed n of that power | fixed n of 80 % |",
        "|---:|---:|---:|---:|---:|",
    ]
    for dz in (0.3, 0.5, 0.8, 1.2):
        found = power(dz)
        lines.append(
            f"| {dz} | {100 * found.power:.0f} | {found.mean_n:.1f} | {found.fixed} "
            f"| {found.fixed_80} |"
        )
    return "\n".join(lines)


def write() -> None:
    """Put the tables into docs/statistics.md."""
    start, end = "<!-- by tests/simulated.py -->", "<!-- until here -->"
    made = f"{start}\n{tables()}\n{end}"
    page, found = re.subn(f"{start}.*{end}", lambda _: made, PAGE.read_text(), flags=re.DOTALL)
    assert found == 1
    PAGE.write_text(page)


if __name__ == "__main__":
    write()
