"""Error rates, power and coverage of `attnexp.statistics`, by simulation.

    python dev/simulate.py

writes the tables of docs/statistics.md anew (three minutes of one core). In a study of several
variants all are compared with one baseline, which makes half of each difference's variance.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from attnexp.analysis.read_runs import load_groups
from attnexp.statistics.crossed import crossed, widen
from attnexp.statistics.defaults import ALPHA
from attnexp.statistics.intervals import anytime_factor, t_factor, t_interval

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "statistics.md"
STUDIES = 4_000
"""A rate of 5 % has a standard error of 0.3 points, one of 50 % of 0.8."""

SEEDS = (3, 6, 10, 20)

MOST_SEEDS = 64
"""Of studies whose seeds are added."""

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
    baseline = draws[:, :1]
    variants = draws[:, 1:]
    if m == 1:
        return variants
    return (variants - baseline) / np.sqrt(2)


def bounds(d: Array, factor: float, effect: float = 0.0) -> tuple[Array, Array]:
    """Intervals (studies, variants) of differences with this effect, in standard deviations."""
    half = factor * d.std(axis=-1, ddof=1) / np.sqrt(d.shape[-1])
    mean = d.mean(axis=-1) + effect
    return mean - half, mean + half


def excludes_zero(low: Array, high: Array) -> NDArray[np.bool_]:
    """Which intervals lie beyond 0, on either side."""
    return (low > 0) | (high < 0)


def fixed() -> Iterator[str]:
    """The rule for a fixed number of seeds: found at 1.5 sd, found without any difference, and
    found "by at least" a margin that equals the true difference."""
    heads = " | ".join(f"n = {n}" for n in SEEDS)
    yield f"| law | variants | {heads} |"
    yield f"|---|---:|{'---:|' * len(SEEDS)}"
    for law in LAWS:
        for m in (1, 5):
            cells = [_rates_of_fixed(law, m, n) for n in SEEDS]
            yield f"| {law} | {m} | {' | '.join(cells)} |"


def _rates_of_fixed(law: str, m: int, n: int) -> str:
    d = studies(law, m, n)
    low, high = bounds(d, t_factor(n, m))
    low_at_effect, _ = bounds(d, t_factor(n, m), 1.5)
    rates = [
        (low_at_effect > 0).mean(),
        excludes_zero(low, high).any(axis=1).mean(),
        (low > 0).any(axis=1).mean(),
    ]
    return " / ".join(f"{100 * rate:.1f}" for rate in rates)


def anytime() -> Iterator[str]:
    """The rule where seeds are added after every look, up to 64."""
    yield (
        "| law | variants | found at 0.5 sd | at 1.5 sd | seeds then "
        "| found without any | by t intervals |"
    )
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for law in LAWS:
        for m in (1, 5):
            d = studies(law, m, MOST_SEEDS)
            stop_at_none = _first_look_that_finds(d, m, effect=0.0)
            stop_at_half = _first_look_that_finds(d, m, effect=0.5)
            stop_at_large = _first_look_that_finds(d, m, effect=1.5)
            cells = [
                100 * (stop_at_half <= MOST_SEEDS).mean(),
                100 * (stop_at_large <= MOST_SEEDS).mean(),
                np.minimum(stop_at_large, MOST_SEEDS).mean(),
                100 * (stop_at_none <= MOST_SEEDS).any(axis=1).mean(),
                100 * _ever_found_by_t(d, m).any(axis=1).mean(),
            ]
            rates = " | ".join(f"{cell:.1f}" for cell in cells)
            yield f"| {law} | {m} | {rates} |"


def _first_look_that_finds(d: Array, m: int, *, effect: float) -> NDArray[np.integer]:
    """Number of seeds at which the anytime interval first excludes 0; one more than there are where
    it never does. d: (studies, variants, seeds)."""
    stop = np.full(d.shape[:2], MOST_SEEDS + 1)
    for n in range(3, MOST_SEEDS + 1):
        factor = anytime_factor(n, m)
        if np.isfinite(factor):
            low, high = bounds(d[..., :n], factor, effect)
            is_first = stop > MOST_SEEDS
            stop[is_first & excludes_zero(low, high)] = n
    return stop


def _ever_found_by_t(d: Array, m: int) -> NDArray[np.bool_]:
    """Where the t interval excludes 0 at some look, as for a number of seeds fixed beforehand."""
    found = np.zeros(d.shape[:2], bool)
    for n in range(3, MOST_SEEDS + 1):
        low, high = bounds(d[..., :n], t_factor(n, m))
        found |= excludes_zero(low, high)
    return found


def texts() -> Iterator[str]:
    """How often the interval for other seeds and texts holds: alone, and never narrower than that
    of seeds; for crossed normal effects, and for the answers of `study=blog` drawn again."""
    heads = " | ".join(f"n = {n}" for n in SEEDS)
    yield f"| share of the variance from seeds | {heads} |"
    yield f"|---|{'---:|' * len(SEEDS)}"
    cases = [(f"{share:.0%}", _effects(share)) for share in (0.0, 0.3, 0.9)]
    for name, draw in [*cases, ("`study=blog`, last epoch", _answers())]:
        cells = [_coverage(draw, n) for n in SEEDS]
        yield f"| {name} | {' | '.join(cells)} |"


def _coverage(draw: Draw, n: int) -> str:
    """How often the truth is in the interval for texts: alone, and never narrower than seeds'."""
    rng = np.random.default_rng(n)
    num_draws = STUDIES // 4
    num_held = 0
    num_held_wider = 0
    for _ in range(num_draws):
        d, truth = draw(rng, n)
        texts = crossed(d)
        assert texts is not None
        low, high = widen(texts, t_interval(d.mean(axis=1)))
        num_held += texts.low <= truth <= texts.high
        num_held_wider += low <= truth <= high
    rates = (num_held / num_draws, num_held_wider / num_draws)
    return " / ".join(f"{100 * rate:.1f}" for rate in rates)


def _effects(share: float) -> Draw:
    def draw(rng: np.random.Generator, n: int) -> tuple[Array, float]:
        seeds = rng.normal(size=(n, 1)) * np.sqrt(share * n)
        texts = rng.normal(size=200) * np.sqrt((1 - share) * 200)
        return seeds + texts + rng.normal(size=(n, 200)), 0.0

    return draw


def _answers() -> Draw:
    (group,) = load_groups([ROOT / "outputs" / "published" / "blog"])
    rows = []
    for seed in group.values("final", "accuracy").index:
        with_pe = group.right["pe", seed, "final"].astype(float)
        rows.append(with_pe - group.right["no_pe", seed, "final"])
    d = np.array(rows)  # (seeds, texts)

    def draw(rng: np.random.Generator, n: int) -> tuple[Array, float]:
        seeds = rng.integers(len(d), size=n)
        texts = rng.integers(d.shape[1], size=2_000)
        return d[np.ix_(seeds, texts)], float(d.mean())

    return draw


def main() -> None:
    """Write the tables between `<!-- NAME -->` and `<!-- end -->`."""
    page = PAGE.read_text()
    for make in (fixed, anytime, texts):
        start = f"<!-- {make.__name__} -->\n"
        before, _, rest = page.partition(start)
        _, end, after = rest.partition("<!-- end -->")
        table = "\n".join(make())
        page = f"{before}{start}{table}\n{end}{after}"
    PAGE.write_text(page)


if __name__ == "__main__":
    assert abs(t_factor(6) - student.ppf(1 - ALPHA / 2, 5)) < 1e-9
    main()
