"""Claims that need many runs on IMDB: C10, C11, C20, C21, C22, C26.

Their checks read finished sweeps, or name the command that makes them. A difference is supported if
its 95 % interval lies on the claimed side of its bound, not supported if it lies on the other side,
and inconclusive in between. K's table (C20) is supported if it could be one more of our seeds. All
accuracies are measured on the test set after every epoch, as K's were.
"""

import shlex
from collections.abc import Callable
from pathlib import Path

from attnexp.analysis import published
from attnexp.analysis.comparison import compare
from attnexp.analysis.variants import by_variant
from attnexp.base.errors import UserError
from attnexp.claims.claim import Conclusion, Finding, claim
from attnexp.config.schema import flatten
from attnexp.runs import manifest
from attnexp.runs.identity import replicate
from attnexp.runs.result import Run, RunResult
from attnexp.statistics import agreement
from attnexp.statistics.paired import Paired, paired
from attnexp.statistics.verdict import POINTS

CLOSE = 0.01
"""Largest difference between two accuracies that count as close."""

INSIDE = 36
"""Number of K's 40 metric values that must lie inside. If they were independent, a run of the same
distribution would have 36 or more in 95 % of cases; those of one run are correlated, so C20 also
says how many our own runs have."""

MIN_SEEDS = 6
"""Fewest seeds with which the sign-flip test can find a difference."""

Group = dict[str, Run]
"""Runs of one variant, keyed by the name of their seed."""


@claim("C10", "K", reads_sweeps=True)
def c10(results: Path) -> Finding:
    """Learned and sinusoidal positions give close results."""
    return _close(results, "position", "learned", "sinusoidal")


@claim("C11", "K", reads_sweeps=True)
def c11(results: Path) -> Finding:
    """Adding and concatenating positions both work.

    Either is better than none after the last epoch, and the two are close.
    """
    found = _variants(results, "position", "concat", "sinusoidal", "none")
    if isinstance(found, Finding):
        return found
    concat, added, none = found
    gains = [
        (f"final, {name} − none", _difference(group, none, _final))
        for name, group in (("concat", concat), ("sinusoidal", added))
    ]
    close = _peak_and_final(concat, added)
    conclusions = [_within(pair, CLOSE) for _, pair in close] + [_above(pair) for _, pair in gains]
    return _finding([*close, *gains], conclusions)


@claim("C20", "K", reads_sweeps=True)
def c20(results: Path) -> Finding:
    """The published table of ten epochs is reproduced.

    Its figures could be those of one more of our seeds.
    """
    found = _variants(
        results, "blog", "no_pe", "pe", wanted=published.is_k, min_seeds=agreement.FEWEST
    )
    if isinstance(found, Finding):
        return found
    (comparison,) = compare([run for group in found for run in group.values()])
    (count,) = (count for count in comparison.agreement if len(count.variants) == 2)
    label, epoch, name = count.furthest_value
    measured = (
        f"{count.inside} of {count.num_values} figures in the 95 % prediction interval of one "
        f"more seed (38 expected, {INSIDE} needed), the furthest {abs(count.furthest):.1f} sd from "
        f"our mean ({label}, {name}, epoch {epoch})"
    )
    if count.own:
        own = sorted(count.own.values())
        enough = sum(inside >= INSIDE for inside in own)
        measured += (
            f"; our own runs, each held against the others: {own[0]} to {own[-1]}, "
            f"{enough} of {len(own)} with {INSIDE} or more"
        )
    return Finding(
        measured=measured,
        conclusion=Conclusion.supported if count.inside >= INSIDE else Conclusion.not_supported,
        n=count.n,
    )


@claim("C21", "K", reads_sweeps=True)
def c21(results: Path) -> Finding:
    """Attention's best accuracy is slightly above an LSTM's."""
    found = _variants(results, "baselines", "attention", "lstm")
    if isinstance(found, Finding):
        return found
    pair = _difference(found[0], found[1], _peak)
    return _finding([("peak, attention − lstm", pair)], [_above(pair)])


@claim("C22", "K", reads_sweeps=True)
def c22(results: Path) -> Finding:
    """PE raises accuracy and reduces over-fitting.

    Accuracy is that of the final epoch, over-fitting the fall after the peak.
    """
    found = _variants(results, "blog", "pe", "no_pe", wanted=published.is_k)
    if isinstance(found, Finding):
        return found
    final = _difference(found[0], found[1], _final)
    fall = _difference(found[0], found[1], lambda result: _peak(result) - _final(result))
    peak = _difference(found[0], found[1], _peak)
    shown = [("final", final), ("fall after the peak", fall), ("peak", peak)]
    return _finding(shown, [_above(final), _below(fall)])


@claim("C26", "K", reads_sweeps=True)
def c26(results: Path) -> Finding:
    """Attention joined with CNN or RNN combines both strengths.

    The joint model beats attention and its partner alone.
    """
    names = ("attention", "cnn", "cnn_attention", "lstm", "lstm_attention")
    found = _variants(results, "baselines", *names)
    if isinstance(found, Finding):
        return found
    group = dict(zip(names, found, strict=True))
    pairs = [
        (f"{joined} − {part}", _difference(group[joined], group[part], _peak))
        for partner in ("cnn", "lstm")
        for joined in (f"{partner}_attention",)
        for part in ("attention", partner)
    ]
    return _finding(pairs, [_above(pair) for _, pair in pairs])


def _close(results: Path, study: str, one: str, other: str) -> Finding:
    found = _variants(results, study, one, other)
    if isinstance(found, Finding):
        return found
    pairs = _peak_and_final(*found)
    return _finding(pairs, [_within(pair, CLOSE) for _, pair in pairs])


def _peak_and_final(one: Group, other: Group) -> list[tuple[str, Paired]]:
    return [
        (name, _difference(one, other, figure))
        for name, figure in (("peak", _peak), ("final", _final))
    ]


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


def _peak(result: RunResult) -> float:
    return result.best.val_accuracy


def _final(result: RunResult) -> float:
    return result.final.val_accuracy


def _difference(one: Group, other: Group, figure: Callable[[RunResult], float]) -> Paired:
    pair = paired(
        {seed: figure(run.result) for seed, run in one.items()},
        {seed: figure(run.result) for seed, run in other.items()},
    )
    assert pair is not None  # `_variants` left shared seeds alone
    return pair


def _above(pair: Paired) -> Conclusion:
    low, high = _interval(pair)
    return _concluded(low > 0, high < 0)


def _below(pair: Paired) -> Conclusion:
    low, high = _interval(pair)
    return _concluded(high < 0, low > 0)


def _within(pair: Paired, bound: float) -> Conclusion:
    low, high = _interval(pair)
    return _concluded(-bound < low and high < bound, high < -bound or low > bound)


def _concluded(supported: bool, contradicted: bool) -> Conclusion:
    if supported:
        return Conclusion.supported
    return Conclusion.not_supported if contradicted else Conclusion.inconclusive


def _interval(pair: Paired) -> tuple[float, float]:
    assert pair.low is not None  # there are two seeds or more
    assert pair.high is not None
    return pair.low, pair.high


def _finding(pairs: list[tuple[str, Paired]], conclusions: list[Conclusion]) -> Finding:
    """Supported when all parts are, not supported when any part is not, else inconclusive."""
    lines = []
    for name, pair in pairs:
        mean = POINTS.signed(pair.difference.mean)
        lines.append(f"{name} {mean}{POINTS.interval(pair.low, pair.high)}")
    if all(conclusion is Conclusion.supported for conclusion in conclusions):
        conclusion = Conclusion.supported
    elif Conclusion.not_supported in conclusions:
        conclusion = Conclusion.not_supported
    else:
        conclusion = Conclusion.inconclusive
    return Finding(measured="; ".join(lines), conclusion=conclusion, n=pairs[0][1].difference.n)
