"""Error rates, power and coverage of `attnexp.statistics`, by simulation.

    python dev/simulate.py

writes the tables of docs/statistics.md anew (three minutes of one core). In a study of several
variants all are compared with one baseline, which makes half of each difference's variance.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from attnexp.analysis.read_runs import load_groups
from attnexp.statistics.crossed import crossed
from attnexp.statistics.defaults import ALPHA
from attnexp.statistics.intervals import anytime_factor, t_factor

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "statistics.md"
STUDIES = 4_000
"""A rate of 5 % has a standard error of 0.3 points, one of 50 % of 0.8."""

SEEDS = (3, 6, 10, 20)

Array = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], tuple[Array, float]]


def failing(rng: np.random.Generator, size: tuple[int, ...]) -> Array:
    """Normal differences, one in ten of which is four standard deviations lower."""
    noise = rng.normal(size=size) - 4 * (rng.random(size) < 0.1)
    return (noise + 0.4) / np.sqrt(1 + 16 * 0.1 * 0.9)


LAWS = {
    "normal": lambda rng, size: rng.normal(size=size),
    "t3": lambda rng, size: rng.standard_t(3, size=size) / np.sqrt(3),
    "exponential": lambda rng, size: rng.exponential(size=size) - 1,
    "one seed in ten fails": failing,
}
"""Laws of differences, with mean 0 and standard deviation 1."""


def studies(law: str, m: int, n: int) -> Array:
    """Differences without any effect: (studies, variants, seeds)."""
    rng = np.random.default_rng([*law.encode(), m, n])
    draws = LAWS[law](rng, (STUDIES, m + 1, n))
    return (draws[:, 1:] - draws[:, :1]) / np.sqrt(2) if m > 1 else draws[:, 1:]


def bounds(d: Array, factor: float, effect: float = 0.0) -> tuple[Array, Array]:
    """Intervals (studies, variants) of differences with this effect, in standard deviations."""
    half = factor * d.std(-1, ddof=1) / np.sqrt(d.shape[-1])
    return d.mean(-1) + effect - half, d.mean(-1) + effect + half


def fixed() -> Iterator[str]:
    """The rule for a fixed number of seeds: found at 1.5 sd, found without any difference, and
    found "by at least" a margin that equals the true difference."""
    yield f"| law | variants | {' | '.join(f'n = {n}' for n in SEEDS)} |"
    yield f"|---|---:|{'---:|' * len(SEEDS)}"
    for law in LAWS:
        for m in (1, 5):
            cells = []
            for n in SEEDS:
                d = studies(law, m, n)
                low, high = bounds(d, t_factor(n, m))
                found = (bounds(d, t_factor(n, m), 1.5)[0] > 0).mean()
                rates = (found, ((low > 0) | (high < 0)).any(1).mean(), (low > 0).any(1).mean())
                cells.append(" / ".join(f"{100 * rate:.1f}" for rate in rates))
            yield f"| {law} | {m} | {' | '.join(cells)} |"


def anytime() -> Iterator[str]:
    """The rule where seeds are added after every look, up to 64."""
    yield (
        "| law | variants | found at 0.5 sd | at 1.5 sd | seeds then "
        "| found without any | by t intervals |"
    )
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for law in LAWS:
        for m in (1, 5):
            d = studies(law, m, 64)
            stops = {effect: np.full(d.shape[:2], 65) for effect in (0.0, 0.5, 1.5)}
            naive = np.zeros(d.shape[:2], bool)
            for n in range(3, 65):
                for effect, stop in stops.items() if np.isfinite(anytime_factor(n, m)) else ():
                    low, high = bounds(d[..., :n], anytime_factor(n, m), effect)
                    stop[(stop == 65) & ((low > 0) | (high < 0))] = n
                low, high = bounds(d[..., :n], t_factor(n, m))
                naive |= (low > 0) | (high < 0)
            cells = [(stops[0.5] < 65).mean() * 100, (stops[1.5] < 65).mean() * 100]
            cells += [np.minimum(stops[1.5], 64).mean(), (stops[0.0] < 65).any(1).mean() * 100]
            rates = " | ".join(f"{x:.1f}" for x in [*cells, naive.any(1).mean() * 100])
            yield f"| {law} | {m} | {rates} |"


def texts() -> Iterator[str]:
    """How often the interval for other seeds and texts holds: alone, and never narrower than that
    of seeds; for crossed normal effects, and for the answers of `study=blog` drawn again."""
    yield f"| seeds make, of the variance | {' | '.join(f'n = {n}' for n in SEEDS)} |"
    yield f"|---|{'---:|' * len(SEEDS)}"
    cases = [(f"{share:.0%}", _effects(share)) for share in (0.0, 0.3, 0.9)]
    for name, draw in [*cases, ("`study=blog`, last epoch", _answers())]:
        cells = []
        for n in SEEDS:
            rng, held = np.random.default_rng(n), np.zeros(2)
            for _ in range(STUDIES // 4):
                d, truth = draw(rng, n)
                found = crossed(d)
                low, high = bounds(d.mean(1)[None], t_factor(n))
                assert found is not None
                held += (
                    found.low <= truth <= found.high,
                    min(found.low, low[0]) <= truth <= max(found.high, high[0]),
                )
            cells.append(" / ".join(f"{100 * rate:.1f}" for rate in held / (STUDIES // 4)))
        yield f"| {name} | {' | '.join(cells)} |"


def _effects(share: float) -> Draw:
    def draw(rng: np.random.Generator, n: int) -> tuple[Array, float]:
        seeds = rng.normal(size=(n, 1)) * np.sqrt(share * n)
        texts = rng.normal(size=200) * np.sqrt((1 - share) * 200)
        return seeds + texts + rng.normal(size=(n, 200)), 0.0

    return draw


def _answers() -> Draw:
    (group,) = load_groups([ROOT / "outputs" / "published" / "blog"])
    seeds = [*group.values("final", "accuracy").index]
    right = {key: found.astype(float) for key, found in group.right.items()}
    d = np.array([right["pe", s, "final"] - right["no_pe", s, "final"] for s in seeds])

    def draw(rng: np.random.Generator, n: int) -> tuple[Array, float]:
        rows, columns = rng.integers(len(d), size=n), rng.integers(d.shape[1], size=2_000)
        return d[np.ix_(rows, columns)], float(d.mean())

    return draw


def main() -> None:
    """Write the tables between `<!-- NAME -->` and `<!-- end -->`."""
    page = PAGE.read_text()
    for make in (fixed, anytime, texts):
        part = re.compile(rf"(<!-- {make.__name__} -->\n).*?(<!-- end -->)", re.DOTALL)
        table = "\n".join(make())
        page = part.sub(lambda found, table=table: f"{found[1]}{table}\n{found[2]}", page)
    PAGE.write_text(page)


if __name__ == "__main__":
    assert abs(t_factor(6) - student.ppf(1 - ALPHA / 2, 5)) < 1e-9
    main()
