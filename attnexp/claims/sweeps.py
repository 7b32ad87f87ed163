"""Claims that need many runs on IMDB: C10, C11, C20, C21, C22, C26.

Their checks read finished sweeps, or name the command that makes them. A difference is supported if
its 95 % interval lies on the claimed side of its bound, not supported if it lies on the other side,
and inconclusive in between. All accuracies are measured on the test set after every epoch, as K's
were, and compared at the endpoints `best` (one epoch for all seeds of a variant) and `final`.
"""

import shlex
from collections.abc import Callable
from pathlib import Path

from attnexp.analysis import published
from attnexp.analysis.comparison import compare
from attnexp.analysis.variants import by_variant
from attnexp.base.errors import UserError
from attnexp.claims.claim import Conclusion, Finding, claim, concluded
from attnexp.config.schema import flatten
from attnexp.runs import manifest
from attnexp.runs.identity import replicate
from attnexp.runs.points import best_epoch
from attnexp.runs.result import Run, RunResult
from attnexp.statistics.paired import MARGIN, Paired, max_t, paired
from attnexp.statistics.verdict import ALPHA, POINTS

CLOSE = 0.25
"""Largest difference that counts as close, as a share of what positions give (sinusoidal − none);
at least the project's margin."""

MIN_SEEDS = 6
"""Fewest seeds with which the sign-flip test can find a difference."""

MIN_SEEDS_OF_RANK = 19
"""Fewest of our seeds among which one more run can be in the lowest 5 %."""

Group = dict[str, Run]
"""Runs of one variant, keyed by the name of their seed."""

Measure = Callable[[Group], dict[str, float]]
"""A number for each run of a variant, by seed."""


@claim("C10", "K", reads_sweeps=True)
def c10(results: Path) -> Finding:
    """Learned and sinusoidal positions give close results."""
    found = _variants(results, "position", "learned", "sinusoidal", "none")
    if isinstance(found, Finding):
        return found
    learned, sinusoidal, none = found
    return _finding(_close(learned, sinusoidal, none))


@claim("C11", "K", reads_sweeps=True)
def c11(results: Path) -> Finding:
    """Adding and concatenating positions both work.

    Either is better than none after the last epoch, and the two are close.
    """
    found = _variants(results, "position", "concat", "sinusoidal", "none")
    if isinstance(found, Finding):
        return found
    concat, added, none = found
    gains = []
    for name, group in (("concat", concat), ("sinusoidal", added)):
        pair = _difference(group, none, _final)
        gains.append((f"final, {name} − none", pair, _above(pair)))
    return _finding([*_close(concat, added, none), *gains])


@claim("C20", "K", reads_sweeps=True)
def c20(results: Path) -> Finding:
    """The published table of ten epochs is reproduced.

    Its values could be those of one more of our seeds. Counted is how many of them lie in the 95 %
    prediction interval of one more seed; since the values of one run move together, that count is
    ranked among those of our own seeds, each held against the others. Not supported if K's rank is
    in the lowest 5 %.
    """
    found = _variants(
        results, "blog", "no_pe", "pe", wanted=published.is_k, min_seeds=MIN_SEEDS_OF_RANK
    )
    if isinstance(found, Finding):
        return found
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
    found = _variants(results, "baselines", "attention", "lstm")
    if isinstance(found, Finding):
        return found
    attention, lstm = found
    pairs = [(at, _difference(attention, lstm, measure)) for at, measure in ENDPOINTS.items()]
    return _finding([(f"{at}, attention − lstm", pair, _above(pair)) for at, pair in pairs])


@claim("C22", "K", reads_sweeps=True)
def c22(results: Path) -> Finding:
    """PE raises accuracy and reduces over-fitting.

    Accuracy is that of the final epoch; that of the best epoch is shown. Over-fitting is the gap
    between the accuracies on train (while training, as K shows it) and on test at the final epoch,
    and the fall of test accuracy from the best epoch to as many epochs later for both variants.
    """
    found = _variants(results, "blog", "pe", "no_pe", wanted=published.is_k)
    if isinstance(found, Finding):
        return found
    later = min(
        len(run.result.epochs) - _best_epoch(group) for group in found for run in group.values()
    )
    pe, none = found
    final, gap = _difference(pe, none, _final), _difference(pe, none, _gap)
    fall = _difference(pe, none, lambda group: _fall(group, later))
    return _finding(
        [
            ("final", final, _above(final)),
            ("gap", gap, _below(gap)),
            (f"fall {later} epochs after the best", fall, _below(fall)),
            ("best", _difference(pe, none, _best), None),
        ]
    )


@claim("C26", "K", reads_sweeps=True)
def c26(results: Path) -> Finding:
    """Attention joined with CNN or RNN combines both strengths.

    The joint model beats attention and its partner alone at the best epoch of each: four
    differences, whose p-values are corrected by step-down maxT.
    """
    names = ("attention", "cnn", "cnn_attention", "lstm", "lstm_attention")
    found = _variants(results, "baselines", *names)
    if isinstance(found, Finding):
        return found
    group = dict(zip(names, found, strict=True))
    pairs = {
        f"{partner}_attention − {part}": _difference(
            group[f"{partner}_attention"], group[part], _best
        )
        for partner in ("cnn", "lstm")
        for part in ("attention", partner)
    }
    ps = max_t([pair.by_seed for pair in pairs.values()])
    return _finding(
        [
            (f"{name} (p = {p:.3f})", pair, _above(pair) if p <= ALPHA else Conclusion.inconclusive)
            for (name, pair), p in zip(pairs.items(), ps, strict=True)
        ]
    )


def _close(one: Group, other: Group, none: Group) -> list[tuple[str, Paired, Conclusion | None]]:
    """Whether two kinds of position differ by little of what positions give, at each endpoint."""
    parts: list[tuple[str, Paired, Conclusion | None]] = []
    for at, measure in ENDPOINTS.items():
        pair = _difference(one, other, measure)
        effect = abs(_difference(other, none, measure).difference.mean)
        bound = max(MARGIN, CLOSE * effect)
        parts.append((f"{at} (close: ±{POINTS.plain(bound)})", pair, _within(pair, bound)))
    return parts


def _is_scaled(run: RunResult) -> bool:
    """Whether a run has K's data, protocol and epochs, and the default score scaling and epsilon.

    The study decides the rest of the model.
    """
    given = flatten(run.config)
    return (
        run.data["name"] == "imdb"
        and (run.data["n_train"], run.data["n_test"]) == (25_000, 25_000)
        and given["data.max_len"] == 80
        and given["train.protocol"] == "blog"
        and given.get("train.epochs") == 5  # tfidf has none
        and given.get("train.eps") == 1e-7
        and given.get("model.score.scale", True)
    )


def _variants(
    results: Path,
    study: str,
    *labels: str,
    wanted: Callable[[RunResult], bool] = _is_scaled,
    min_seeds: int = MIN_SEEDS,
) -> list[Group] | Finding:
    """Runs of each of these variants for the seeds that all share, or a finding that names the
    missing runs.

    min_seeds: seeds that all variants must share.
    """
    folder = results / study
    make_them = f"make them: attnexp sweep study={study}"
    if min_seeds > MIN_SEEDS:
        make_them += f" 'seed=range({min_seeds})'"
    if results != Path("outputs"):  # the default
        make_them += f" out={shlex.quote(str(results))}"
    try:
        found = manifest.load_runs([folder]) if (folder / manifest.FILE).exists() else []
    except UserError as error:
        return Finding(measured=f"{error} {make_them}", conclusion=Conclusion.not_run)
    groups: list[Group] = []
    for label in labels:
        runs = [run for run in found if run.label == label and wanted(run.result)]
        same_label = by_variant(runs)
        if len(same_label) > 1:
            return Finding(
                measured=f"{label} in {folder} is {len(same_label)} variants, of other settings or "
                f"code: {', '.join(same_label)}. Give them a folder each: out=DIR",
                conclusion=Conclusion.not_run,
            )
        groups.append(
            {replicate(run.result.config): run for runs in same_label.values() for run in runs}
        )
    shared = set.intersection(*(set(group) for group in groups))
    if len(shared) < min_seeds:
        return Finding(
            measured=f"{len(shared)} of {min_seeds} seeds or more of {', '.join(labels)} in "
            f"{folder}; {make_them}",
            conclusion=Conclusion.not_run,
        )
    return [{seed: run for seed, run in group.items() if seed in shared} for group in groups]


def _best_epoch(group: Group) -> int:
    return best_epoch([run.result for run in group.values()])


def _after(group: Group, epoch: int) -> dict[str, float]:
    return {seed: run.result.epochs[epoch - 1].val_accuracy for seed, run in group.items()}


def _best(group: Group) -> dict[str, float]:
    return _after(group, _best_epoch(group))


def _final(group: Group) -> dict[str, float]:
    return {seed: run.result.final.val_accuracy for seed, run in group.items()}


def _gap(group: Group) -> dict[str, float]:
    rows = {seed: run.result.final for seed, run in group.items()}
    return {seed: row.train_accuracy - row.val_accuracy for seed, row in rows.items()}


def _fall(group: Group, later: int) -> dict[str, float]:
    """Accuracy at the best epoch minus that so many epochs later."""
    then = _after(group, _best_epoch(group) + later)
    return {seed: accuracy - then[seed] for seed, accuracy in _best(group).items()}


ENDPOINTS: dict[str, Measure] = {"best": _best, "final": _final}


def _difference(one: Group, other: Group, measure: Measure) -> Paired:
    pair = paired(measure(one), measure(other))
    assert pair is not None  # `_variants` left shared seeds alone
    return pair


def _above(pair: Paired) -> Conclusion:
    low, high = _interval(pair)
    return _side(low > 0, high < 0)


def _below(pair: Paired) -> Conclusion:
    low, high = _interval(pair)
    return _side(high < 0, low > 0)


def _within(pair: Paired, bound: float) -> Conclusion:
    low, high = _interval(pair)
    return _side(-bound < low and high < bound, high < -bound or low > bound)


def _side(supported: bool, contradicted: bool) -> Conclusion:
    if supported:
        return Conclusion.supported
    return Conclusion.not_supported if contradicted else Conclusion.inconclusive


def _interval(pair: Paired) -> tuple[float, float]:
    assert pair.low is not None  # there are two seeds or more
    assert pair.high is not None
    return pair.low, pair.high


def _finding(parts: list[tuple[str, Paired, Conclusion | None]]) -> Finding:
    """parts: name, difference, and the conclusion on it; None if it is only shown."""
    lines = []
    for name, pair, _ in parts:
        mean = POINTS.signed(pair.difference.mean)
        lines.append(f"{name} {mean}{POINTS.interval(pair.low, pair.high)}")
    return Finding(
        measured="; ".join(lines),
        conclusion=concluded([each for _, _, each in parts if each is not None]),
        n=parts[0][1].difference.n,
    )
