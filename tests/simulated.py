"""Error rates and power of `attnexp.statistics`, by simulation.

`python tests/simulated.py` writes the tables in docs/statistics.md (some minutes of one core), or
only those named: `fixed`, `anytime`. Slow tests check the rates with fewer studies.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attnexp.statistics.anytime import fewest_seeds, interval, p_no_difference
from attnexp.statistics.paired import max_t
from attnexp.statistics.verdict import ALPHA, holm

STUDIES = 4_000
"""A rate of 5 % has a standard error of 0.3 points, one of 50 % of 0.8."""

PAGE = Path(__file__).parent.parent / "docs" / "statistics.md"
EFFECTS = (0.0, 0.3, 0.5, 0.8, 1.2)

Array = NDArray[np.float64]

LAWS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Array]] = {
    "normal": lambda rng, size: rng.normal(size=size),
    "t3": lambda rng, size: rng.standard_t(3, size=size) / np.sqrt(3),
    "stepped": lambda rng, size: np.round(1.5 * rng.normal(size=size)) / np.sqrt(1.5**2 + 1 / 12),
    "exponential": lambda rng, size: rng.exponential(size=size) - 1,
}
"""Laws of differences, with mean 0 and standard deviation 1. stepped: accuracies are counts, so
their differences come in steps; here of two thirds of a standard deviation, so many are equal."""


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Studies that look after every seed and stop a variant when it helps or hurts."""

    any_found: float
    """Share of studies in which some variant is found to differ."""
    found: float
    """Share of variants that are found to differ."""
    seeds: float
    """Mean number of seeds of a variant at the stop."""
    coverage: float
    """Share of intervals at the stop that hold the true mean."""


def simulate(
    law: str, effect: float, *, num_variants: int = 1, max_seeds: int = 64, studies: int = STUDIES
) -> Rates:
    """Simulate studies of variants that all differ from the baseline by `effect` in sd.

    Several variants share their baseline's part of the noise, which is half of its variance.
    """
    rng = np.random.default_rng([*law.encode(), num_variants, round(1000 * effect)])
    draws = LAWS[law](rng, (studies, num_variants + 1, max_seeds))
    noise = (draws[:, 1:] - draws[:, :1]) / np.sqrt(2) if num_variants > 1 else draws[:, 1:]
    d = effect + noise
    p = np.ones((studies, num_variants))
    stopped = np.zeros((studies, num_variants), dtype=int)
    low, high = np.full_like(p, -np.inf), np.full_like(p, np.inf)
    for n in range(fewest_seeds(), max_seeds + 1):
        still, variants = np.nonzero(stopped == 0)
        so_far = d[still, variants, :n]
        p[still, variants] = p_no_difference(so_far)
        low[still, variants], high[still, variants] = interval(so_far)
        stopped[(stopped == 0) & rejected(p)] = n
    return Rates(
        any_found=float((stopped > 0).any(1).mean()),
        found=float((stopped > 0).mean()),
        seeds=float(np.where(stopped > 0, stopped, max_seeds).mean()),
        coverage=float(((low <= effect) & (effect <= high)).mean()),
    )


def rejected(p: Array) -> NDArray[np.bool_]:
    """Which of (studies, variants) p-values Holm's procedure rejects."""
    order = np.argsort(p, axis=1)
    small = np.take_along_axis(p, order, 1) * np.arange(p.shape[1], 0, -1) <= ALPHA
    found = np.zeros_like(small)
    np.put_along_axis(found, order, np.logical_and.accumulate(small, axis=1), 1)
    return found


def t_test_at_every_seed(max_seeds: int = 64, studies: int = STUDIES) -> float:
    """Share of studies of nothing in which a t test at 5 % after each of 6 to `max_seeds` seeds
    finds something."""
    from scipy.special import stdtrit

    d = np.random.default_rng(0).normal(size=(studies, max_seeds))
    found = np.zeros(studies, dtype=bool)
    for n in range(6, max_seeds + 1):
        t = d[:, :n].mean(axis=1) / d[:, :n].std(axis=1, ddof=1) * np.sqrt(n)
        found |= np.abs(t) > stdtrit(n - 1, 0.975)
    return float(found.mean())


def several(
    n: int, num_variants: int, effect: float, law: str, studies: int = STUDIES // 4
) -> tuple[Array, Array]:
    """Which variants max_t and Holm's procedure find, of n seeds: (studies, num_variants) each.

    Differences have standard deviation 1 and share their baseline's part of the noise.
    """
    rng = np.random.default_rng([n, num_variants, round(10 * effect), *law.encode()])
    draws = LAWS[law](rng, (studies, num_variants + 1, n))
    by_max_t, by_holm = np.zeros((2, studies, num_variants))
    for i, d in enumerate(effect + (draws[:, 1:] - draws[:, :1]) / np.sqrt(2)):
        named = [{str(seed): float(x) for seed, x in enumerate(variant)} for variant in d]
        by_max_t[i] = np.array(max_t(named)) <= ALPHA
        by_holm[i] = np.array(holm([max_t([one])[0] for one in named])) <= ALPHA
    return by_max_t, by_holm


def fixed_table() -> str:
    """Power and error of several variants at a fixed number of seeds, in Markdown."""
    lines = [
        f"{STUDIES // 4:,} simulated studies each; the difference is in standard deviations.",
        "",
        "| seeds | variants | found at 1.5 sd, maxT, % | Holm, % | any false finding, maxT, % "
        "| Holm, % | exponential, maxT, % |",
        "|---:|" + "---:|" * 6,
    ]
    for n, m in ((6, 1), (6, 5), (10, 1), (10, 5)):
        found = [100 * each.mean() for each in several(n, m, 1.5, "normal")]
        false = [100 * each.any(1).mean() for each in several(n, m, 0, "normal")]
        skewed = 100 * several(n, m, 0, "exponential")[0].any(1).mean()
        cells = [f"{rate:.1f}" for rate in (*found, *false, skewed)]
        lines.append(f"| {n} | {m} | {' | '.join(cells)} |")
    return "\n".join(lines)


def anytime_tables() -> str:
    """Error rates and power of adding seeds until decided, in Markdown."""
    lines = [
        f"{STUDIES:,} simulated studies each, looking after every seed. d/sd: the true difference "
        "in standard deviations.",
        "",
        "| d/sd, normal | 1 variant: found by 64 seeds, % | seeds, mean | by 400, % | seeds, mean "
        "| interval at the stop holds d, % | 4 variants: found by 64, % | by 400, % "
        "| holds d, % |",
        "|---:|" + "---:|" * 8,
    ]
    for effect in EFFECTS:
        one, long = (simulate("normal", effect, max_seeds=n) for n in (64, 400))
        four, four_long = (
            simulate("normal", effect, num_variants=4, max_seeds=n, studies=STUDIES // 2)
            for n in (64, 400)
        )
        # with no difference, any variant found makes the study a false one
        shares = [r.found if effect else r.any_found for r in (one, long, four, four_long)]
        cells = [
            _percent(shares[0]), f"{one.seeds:.1f}", _percent(shares[1]), f"{long.seeds:.1f}",
            _percent(long.coverage), _percent(shares[2]), _percent(shares[3]),
            _percent(four_long.coverage),
        ]  # fmt: skip
        lines.append(f"| {effect:g} | {' | '.join(cells)} |")
    lines += [
        "",
        "Studies of four variants, half as many: with d/sd = 0 the share in which any is found, "
        "else the share of variants found. A t test at 5 % after every seed finds something in "
        f"{_percent(t_test_at_every_seed())} % of the studies of nothing by 64 seeds.",
        "",
        "| law, up to 400 seeds | false findings, 1 variant, % | 4 variants, % "
        "| interval at the stop holds d, d/sd = 0, % | 0.5 | 1.2 |",
        "|---|" + "---:|" * 5,
    ]
    for law in LAWS:
        nothing, half, large = (simulate(law, effect, max_seeds=400) for effect in (0, 0.5, 1.2))
        four = simulate(law, 0, num_variants=4, max_seeds=400, studies=STUDIES // 2)
        rates = [nothing.found, four.any_found, nothing.coverage, half.coverage, large.coverage]
        lines.append(f"| {law} | {' | '.join(map(_percent, rates))} |")
    return "\n".join(lines)


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


PARTS = {"fixed": fixed_table, "anytime": anytime_tables}


def write(names: list[str]) -> None:
    """Put these tables into docs/statistics.md."""
    for name in names:
        start, end = f"<!-- {name}, by tests/simulated.py -->", "<!-- until here -->"
        before, _, rest = PAGE.read_text().partition(start)
        _, _, after = rest.partition(end)
        PAGE.write_text(f"{before}{start}\n{PARTS[name]()}\n{end}{after}")


if __name__ == "__main__":
    write(sys.argv[1:] or [*PARTS])
