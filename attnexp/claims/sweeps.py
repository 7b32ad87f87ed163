"""Claims that need many runs on IMDB: C10, C11, C20, C21, C22, C26.

Their checks read finished sweeps, or name the command that makes them. A difference is supported if
its 95 % interval lies on the claimed side of its bound, not supported if it lies on the other side,
and inconclusive in between. All accuracies are measured on the test set after every epoch, as K's
were, and compared at the endpoints `best` (one epoch for all seeds of a variant) and `final`.
"""

from pathlib import Path

from attnexp.analysis import published
from attnexp.analysis.comparison import compare
from attnexp.claims.claim import Conclusion, Finding, claim
from attnexp.claims.evidence import (
    ENDPOINTS,
    Group,
    above,
    at_best,
    at_final,
    below,
    best_epoch_of,
    difference,
    fall_after_best,
    finding,
    overfitting,
    variants,
    within,
)
from attnexp.statistics.paired import MARGIN, Paired, max_t
from attnexp.statistics.verdict import ALPHA, POINTS

CLOSE = 0.25
"""Largest difference that counts as close, as a share of what positions give (sinusoidal − none);
at least the project's margin."""

MIN_SEEDS_OF_RANK = 19
"""Fewest of our seeds among which one more run can be in the lowest 5 %."""


@claim("C10", "K", reads_sweeps=True)
def c10(results: Path) -> Finding:
    """Learned and sinusoidal positions give close results."""
    learned, sinusoidal, none = variants(results, "position", "learned", "sinusoidal", "none")
    return finding(_close(learned, sinusoidal, none))


@claim("C11", "K", reads_sweeps=True)
def c11(results: Path) -> Finding:
    """Adding and concatenating positions both work.

    Either is better than none after the last epoch, and the two are close.
    """
    concat, added, none = variants(results, "position", "concat", "sinusoidal", "none")
    gains = []
    for name, group in (("concat", concat), ("sinusoidal", added)):
        pair = difference(group, none, at_final)
        gains.append((f"final, {name} − none", pair, above(pair)))
    return finding([*_close(concat, added, none), *gains])


@claim("C20", "K", reads_sweeps=True)
def c20(results: Path) -> Finding:
    """The published table of ten epochs is reproduced.

    Its values could be those of one more of our seeds. Counted is how many of them lie in the 95 %
    prediction interval of one more seed; since the values of one run move together, that count is
    ranked among those of our own seeds, each held against the others. Not supported if K's rank is
    in the lowest 5 %.
    """
    found = variants(
        results, "blog", "no_pe", "pe", wanted=published.is_k, min_seeds=MIN_SEEDS_OF_RANK
    )
    (comparison,) = compare([run for group in found for run in group.values()])
    (count,) = (count for count in comparison.agreement if len(count.variants) == 2)
    label, epoch, name = count.furthest_value
    own = sorted(count.own.values())
    rank = 1 + sum(inside <= count.inside for inside in own)
    share = rank / (1 + len(own))
    return Finding(
        measured=(
            f"{count.inside} of {count.num_values} values in the 95 % prediction interval of one "
            f"more seed, the furthest {abs(count.furthest):.1f} sd from our mean ({label}, {name}, "
            f"epoch {epoch}); our own runs, each held against the others: {own[0]} to {own[-1]}; "
            f"K's rank, from the fewest: {rank} of {1 + len(own)} (above {ALPHA:.0%} needed)"
        ),
        conclusion=Conclusion.supported if share > ALPHA else Conclusion.not_supported,
        n=count.n,
    )


@claim("C21", "K", reads_sweeps=True)
def c21(results: Path) -> Finding:
    """Attention's best accuracy is slightly above an LSTM's.

    Held at the best epoch of each, and at the last.
    """
    attention, lstm = variants(results, "baselines", "attention", "lstm")
    pairs = [(at, difference(attention, lstm, measure)) for at, measure in ENDPOINTS.items()]
    return finding([(f"{at}, attention − lstm", pair, above(pair)) for at, pair in pairs])


@claim("C22", "K", reads_sweeps=True)
def c22(results: Path) -> Finding:
    """PE raises accuracy and reduces over-fitting.

    Accuracy is that of the final epoch; that of the best epoch is shown. Over-fitting is the gap
    between the accuracies on train (while training, as K shows it) and on test at the final epoch,
    and the fall of test accuracy from the best epoch to as many epochs later for both variants.
    """
    found = variants(results, "blog", "pe", "no_pe", wanted=published.is_k)
    later = min(
        len(run.result.epochs) - best_epoch_of(group) for group in found for run in group.values()
    )
    pe, none = found
    final, gap = difference(pe, none, at_final), difference(pe, none, overfitting)
    fall = difference(pe, none, lambda group: fall_after_best(group, later))
    return finding(
        [
            ("final", final, above(final)),
            ("gap", gap, below(gap)),
            (f"fall {later} epochs after the best", fall, below(fall)),
            ("best", difference(pe, none, at_best), None),
        ]
    )


@claim("C26", "K", reads_sweeps=True)
def c26(results: Path) -> Finding:
    """Attention joined with CNN or RNN combines both strengths.

    The joint model beats attention and its partner alone at the best epoch of each: four
    differences, whose p-values are corrected by step-down maxT.
    """
    names = ("attention", "cnn", "cnn_attention", "lstm", "lstm_attention")
    group = dict(zip(names, variants(results, "baselines", *names), strict=True))
    pairs = {
        f"{partner}_attention − {part}": difference(
            group[f"{partner}_attention"], group[part], at_best
        )
        for partner in ("cnn", "lstm")
        for part in ("attention", partner)
    }
    ps = max_t([pair.by_seed for pair in pairs.values()])
    return finding(
        [
            (f"{name} (p = {p:.3f})", pair, above(pair) if p <= ALPHA else Conclusion.inconclusive)
            for (name, pair), p in zip(pairs.items(), ps, strict=True)
        ]
    )


def _close(one: Group, other: Group, none: Group) -> list[tuple[str, Paired, Conclusion | None]]:
    """Whether two kinds of position differ by little of what positions give, at each endpoint."""
    parts: list[tuple[str, Paired, Conclusion | None]] = []
    for at, measure in ENDPOINTS.items():
        pair = difference(one, other, measure)
        effect = abs(difference(other, none, measure).difference.mean)
        bound = max(MARGIN, CLOSE * effect)
        parts.append((f"{at} (close: ±{POINTS.plain(bound)})", pair, within(pair, bound)))
    return parts
