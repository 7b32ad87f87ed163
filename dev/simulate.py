"""Error rates, power and coverage of `attnexp.statistics`, by simulation.

    python dev/simulate.py

writes the tables of dev/simulated.md anew (half a minute of one core).
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from attnexp.api import results
from attnexp.statistics.chance import bound_by_answers, bound_by_means
from attnexp.statistics.crossed import crossed, widen
from attnexp.statistics.defaults import FEWEST_SEEDS, MARGIN
from attnexp.statistics.intervals import anytime_factor, t_factor, t_interval
from attnexp.statistics.meta import random_effects
from attnexp.statistics.planning import seeds_at_most

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "dev" / "simulated.md"
BLOG = ROOT / "outputs" / "published" / "blog.parquet"

STUDIES = 10_000
"""Simulated studies. A rate of 5 % has a standard error of 0.2 points, one of 50 % of 0.5."""

STUDIES_OF_TEXTS = 1_000
"""Simulated studies with an answer to every text."""

STUDIES_OF_CHANCE = 4_000
"""Simulated studies with an answer to every text, for a rate of 5 %."""

STUDIES_OF_SUMMARIES = 100_000
"""Simulated studies of which only mean and standard deviation are drawn."""

SEEDS = (3, 6, 10, 20)

MOST_SEEDS = 64
"""Budget of a study that adds seeds until it is decided."""

Array = NDArray[np.float64]
Law = Callable[[np.random.Generator, tuple[int, ...]], Array]
DrawAnswers = Callable[[np.random.Generator, int], tuple[Array, float]]


def draw_normal(rng: np.random.Generator, size: tuple[int, ...]) -> Array:
    """Normal values."""
    return rng.normal(size=size)


def draw_t3(rng: np.random.Generator, size: tuple[int, ...]) -> Array:
    """Values of the t distribution with three degrees of freedom, which has heavy tails."""
    return np.asarray(rng.standard_t(3, size=size) / np.sqrt(3))


def draw_exponential(rng: np.random.Generator, size: tuple[int, ...]) -> Array:
    """Exponential values, with skewness 2."""
    return rng.exponential(size=size) - 1


def draw_failing(rng: np.random.Generator, size: tuple[int, ...]) -> Array:
    """Normal values, one in ten of which is four standard deviations lower."""
    fails = rng.random(size) < 0.1
    values = rng.normal(size=size) - 4 * fails + 4 * 0.1
    return np.asarray(values / np.sqrt(1 + 4**2 * 0.1 * 0.9))


LAWS: dict[str, Law] = {
    "normal": draw_normal,
    "t3": draw_t3,
    "exponential": draw_exponential,
    "one seed in ten fails": draw_failing,
}
"""Laws of a variant's values, with mean 0 and standard deviation 1."""

CASES = {"1": (1, 0.0), "5": (5, 0.0), "5, noisy baseline": (5, 0.5)}
"""Number of variants, and the share of each difference's variance that the baseline makes."""

SKEWED = ("exponential", "one seed in ten fails")
"""Laws with a longer lower or upper tail. A noisy baseline makes their differences less skewed."""


def draw_studies(law: str, m: int, n: int, baseline_share: float) -> Array:
    """Differences without any effect and with standard deviation 1: (studies, variants, seeds).

    Each variant has the law; the baseline, which all share, is normal.
    """
    rng = np.random.default_rng([*law.encode(), m, n])
    variants = LAWS[law](rng, (STUDIES, m, n))
    baseline = rng.normal(size=(STUDIES, 1, n))
    return np.asarray(np.sqrt(1 - baseline_share) * variants - np.sqrt(baseline_share) * baseline)


def t_bounds(d: Array, m: int) -> tuple[Array, Array]:
    """t intervals of differences (..., seeds), m of which are judged together."""
    n = d.shape[-1]
    half = t_factor(n, m) * d.std(axis=-1, ddof=1) / np.sqrt(n)
    return d.mean(axis=-1) - half, d.mean(axis=-1) + half


def _leaves_out_0(d: Array, m: int) -> NDArray[np.bool_]:
    """Whether t intervals of differences (..., seeds) lie beyond 0."""
    low, high = t_bounds(d, m)
    return (low > 0) | (high < 0)


def percent(rate: float) -> str:
    """`4.9` of 0.049."""
    return f"{100 * rate:.1f}"


def row(*cells: str) -> str:
    """A line of a table."""
    return f"| {' | '.join(cells)} |"


def header(*columns: str, num_text: int = 1) -> str:
    """Two lines; columns after the first num_text ones hold numbers."""
    alignment = "|---" * num_text + "|---:" * (len(columns) - num_text)
    return f"{row(*columns)}\n{alignment}|"


def fixed() -> Iterator[str]:
    """Rates for a fixed number of seeds: found at 1.5 sd, found without any difference, and found
    "by at least" a margin that equals the true difference."""
    yield header("distribution", "variants", *(f"n = {n}" for n in SEEDS), num_text=2)
    for law in LAWS:
        for case, (m, baseline_share) in CASES.items():
            if baseline_share == 0 or law in SKEWED:
                cells = [_rates_of_fixed(law, m, n, baseline_share) for n in SEEDS]
                yield row(law, case, *cells)


def _rates_of_fixed(law: str, m: int, n: int, baseline_share: float) -> str:
    d = draw_studies(law, m, n, baseline_share)
    low, _ = t_bounds(d, m)
    at_effect = low + 1.5 > 0
    without = _leaves_out_0(d, m).any(axis=1)
    # with a true difference of one margin, the interval lies beyond the margin where low > 0 here
    by_margin = (low > 0).any(axis=1)
    return " / ".join(percent(flags.mean()) for flags in (at_effect, without, by_margin))


def anytime() -> Iterator[str]:
    """Rates where seeds are added after every result, up to 64."""
    columns = ["found at 0.5 sd", "at 1.5 sd", "mean seeds", "found at 0 sd", "by t intervals"]
    yield header("distribution", "variants", *columns, num_text=2)
    for law in ("normal", *SKEWED):
        for m in (1, 5):
            d = draw_studies(law, m, MOST_SEEDS, 0.0)
            found_at_half, _ = _watch(d, 0.5, m, anytime_factor)
            found_at_effect, mean_seeds = _watch(d, 1.5, m, anytime_factor)
            found_without, _ = _watch(d, 0.0, m, anytime_factor)
            found_by_t, _ = _watch(d, 0.0, m, t_factor)
            yield row(
                law,
                str(m),
                percent(found_at_half.mean()),
                percent(found_at_effect.mean()),
                f"{mean_seeds:.1f}",
                percent(found_without.any(axis=1).mean()),
                percent(found_by_t.any(axis=1).mean()),
            )


def _watch(
    d: Array, effect: float, m: int, make_factor: Callable[[int, int], float]
) -> tuple[NDArray[np.bool_], float]:
    """Look after every seed: which differences (studies, variants) are found at some time, and the
    mean number of seeds until then, or of the budget."""
    counts = np.arange(1, MOST_SEEDS + 1)
    means = d.cumsum(axis=-1) / counts
    squares = (d**2).cumsum(axis=-1) - counts * means**2
    variances = squares.clip(0) / np.maximum(counts - 1, 1)
    errors = np.sqrt(variances / counts)

    factors = np.array([make_factor(n, m) for n in counts.tolist()])
    can_be_found = np.isfinite(factors) & (counts >= FEWEST_SEEDS)
    half = factors[can_be_found] * errors[..., can_be_found]
    is_found = np.abs(means[..., can_be_found] + effect) > half

    is_ever_found = is_found.any(axis=-1)
    first = counts[can_be_found][is_found.argmax(axis=-1)]
    num_seeds = np.where(is_ever_found, first, MOST_SEEDS)
    return is_ever_found, float(num_seeds.mean())


def texts() -> Iterator[str]:
    """How often the interval for other seeds and texts holds: alone, and never narrower than that
    of seeds; for crossed normal effects, and for the answers of `study=blog` drawn again."""
    cases = {f"{share:.0%}": _crossed_effects(share) for share in (0.0, 0.3, 0.9)}
    cases["`study=blog`, last epoch"] = _answers_of_blog()
    yield header("share of the variance from seeds", *(f"n = {n}" for n in SEEDS))
    for case, draw in cases.items():
        yield row(case, *(_coverage_for_texts(draw, n) for n in SEEDS))


def _coverage_for_texts(draw: DrawAnswers, n: int) -> str:
    rng = np.random.default_rng(n)
    held = 0
    held_when_widened = 0
    for _ in range(STUDIES_OF_TEXTS):
        d, truth = draw(rng, n)
        interval = crossed(d)
        assert interval is not None
        held += interval.low <= truth <= interval.high
        low, high = widen(interval, t_interval(d.mean(axis=1)))
        held_when_widened += low <= truth <= high
    return f"{percent(held / STUDIES_OF_TEXTS)} / {percent(held_when_widened / STUDIES_OF_TEXTS)}"


def _crossed_effects(share: float) -> DrawAnswers:
    """Normal effects on 200 texts. share: of the variance of the mean that is due to seeds."""
    num_texts = 200

    def draw(rng: np.random.Generator, n: int) -> tuple[Array, float]:
        of_seeds = rng.normal(size=(n, 1)) * np.sqrt(share * n)
        of_texts = rng.normal(size=num_texts) * np.sqrt((1 - share) * num_texts)
        return of_seeds + of_texts + rng.normal(size=(n, num_texts)), 0.0

    return draw


def _answers_of_blog() -> DrawAnswers:
    """Seeds and 2,000 texts of `blog`, drawn with replacement."""
    runs = pd.read_parquet(BLOG)
    runs = runs[runs["epoch"] == runs["epoch"].max()]
    bits = runs.pivot(index="seed", columns="variant", values="correct")
    answers = _unpack(bits["pe"]) - _unpack(bits["no_pe"])

    def draw(rng: np.random.Generator, n: int) -> tuple[Array, float]:
        seeds = rng.integers(len(answers), size=n)
        places = rng.integers(answers.shape[1], size=2_000)
        return answers[np.ix_(seeds, places)], float(answers.mean())

    return draw


def _unpack(bits_of_seeds: "pd.Series[bytes]") -> Array:
    """Which texts are right, 1 or 0: (seeds, texts)."""
    packed = np.array([np.frombuffer(bits, np.uint8) for bits in bits_of_seeds])
    return np.unpackbits(packed, axis=1).astype(float)


def planning() -> Iterator[str]:
    """`seeds_at_most`, and how many studies with so many seeds get a verdict: "equivalent" where
    there is no difference, and any where it is as large as the margin."""
    families = (1, 5, 8)
    yield header("sd, points", *(f"m = {m}" for m in families))
    for sd in (0.001, 0.0025, 0.005, 0.015):
        yield row(f"{100 * sd:g}", *(_rates_of_planning(sd, m) for m in families))


def _rates_of_planning(sd: float, m: int) -> str:
    n = seeds_at_most(sd, MARGIN, m)
    assert n is not None
    rates = []
    for effect in (0.0, MARGIN):
        rng = np.random.default_rng([round(10_000 * sd), m])
        # mean and standard deviation of n normal differences are independent
        means = rng.normal(effect, sd / np.sqrt(n), STUDIES_OF_SUMMARIES)
        sds = sd * np.sqrt(rng.chisquare(n - 1, STUDIES_OF_SUMMARIES) / (n - 1))
        half = t_factor(n, m) * sds / np.sqrt(n)
        is_equivalent = np.abs(means) + half < MARGIN
        is_beyond_0 = np.abs(means) > half
        rates.append((is_equivalent | is_beyond_0 & (effect > 0)).mean())
    return f"{n}: {' / '.join(map(percent, rates))}"


def skew() -> Iterator[str]:
    """How often t intervals miss the mean of real differences, drawn again: one, and any of a
    family of five."""
    endpoints, _ = results(BLOG)
    accuracy = endpoints[endpoints["metric"] == "accuracy"]
    laws: dict[str, Law] = {}
    for point, rows in accuracy.groupby("point", sort=False):
        values = rows.pivot(index="seed", columns="variant", values="value")
        d = (values["pe"] - values["no_pe"]).to_numpy()
        laws[f"`blog`, {point}: skewness {stats.skew(d):.1f}"] = _resample(d)
    laws["normal"] = draw_normal
    yield header("differences", *(f"n = {n}" for n in SEEDS))
    for name, draw in laws.items():
        yield row(name, *(_rates_of_skew(draw, n) for n in SEEDS))


def _resample(d: Array) -> Law:
    """Differences drawn with replacement, minus their mean."""
    centred = d - d.mean()
    return lambda rng, size: rng.choice(centred, size=size)


def _rates_of_skew(draw: Law, n: int) -> str:
    d = draw(np.random.default_rng(n), (STUDIES, 5, n))
    misses = _leaves_out_0(d[:, 0], 1)
    family_misses = _leaves_out_0(d, 5).any(axis=1)
    return " / ".join(percent(flags.mean()) for flags in (misses, family_misses))


def chance() -> Iterator[str]:
    """How often a worthless classifier of 784 texts in two classes is shown to be above chance, by
    its answers, and by its accuracies alone. It answers the smaller class where a number is high
    that has nothing to do with the labels, and half of which all seeds share."""
    yield header("answers of the smaller class", *(f"n = {n}" for n in SEEDS[:3]))
    for share in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6):
        yield row(f"{share:.0%}", *(_rates_above_chance(share, n) for n in SEEDS[:3]))


def _rates_above_chance(share: float, n: int) -> str:
    rng = np.random.default_rng(n)
    num_texts = 784
    highest = np.sqrt(2) * stats.norm.ppf(1 - share)
    passes = []
    for _ in range(STUDIES_OF_CHANCE):
        numbers = rng.normal(size=num_texts) + rng.normal(size=(n, num_texts))
        is_smaller = rng.random(num_texts) < 0.5  # the true labels
        d = np.where(numbers > highest, np.where(is_smaller, 1.0, -1.0), 0.0)
        guess = 1 - is_smaller.mean()
        by_means = bound_by_means(guess + d.mean(axis=1), guess, num_texts)
        passes.append((bound_by_answers(d) > 0, by_means > 0))
    return " / ".join(map(percent, np.mean(passes, axis=0)))


def across() -> Iterator[str]:
    """How often any of twelve means over data sets leaves out 0 where nothing is true: in the
    family of the study, and each at 95 %."""
    numbers = (2, 3, 7)
    yield header("spread between data sets", *(f"{k} data sets" for k in numbers))
    for tau in (0.0, 1.0, 3.0):
        yield row(f"{tau:g} standard errors", *(_rates_of_means(tau, k) for k in numbers))


def _rates_of_means(tau: float, k: int) -> str:
    rng = np.random.default_rng(k)
    means = rng.normal(0, np.hypot(1, tau), (STUDIES_OF_TEXTS, 12, k))
    rates = []
    for m in (12, 1):
        intervals = [random_effects(own, np.ones(k), m)[0] for study in means for own in study]
        misses = [interval.low > 0 or interval.high < 0 for interval in intervals]
        rates.append(np.reshape(misses, (STUDIES_OF_TEXTS, 12)).any(axis=1).mean())
    return " / ".join(map(percent, rates))


TABLES = (fixed, skew, chance, planning, texts, across, anytime)


def main() -> None:
    """Write the tables between `<!-- NAME -->` and `<!-- end -->`."""
    page = PAGE.read_text()
    for table in TABLES:
        before, mark, rest = page.partition(f"<!-- {table.__name__} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        assert mark, table.__name__
        lines = "\n".join(table())
        page = f"{before}{mark}{lines}\n{end}{after}"
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
