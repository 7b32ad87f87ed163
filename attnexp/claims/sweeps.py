"""Claims that only many runs on IMDB can answer: C10, C11, C20, C21, C22, C26.

They read finished sweeps and otherwise name the command that makes them. A difference is supported
when its 95 % interval lies on the claimed side of its bound, not supported when it lies on the
other, and inconclusive in between. K's table (C20) is supported when it could be one more of our
seeds. All figures are validated on test, as K's.
"""

from collections.abc import Callable
from pathlib import Path

from attnexp.claims.claim import Claim, Conclusion, Finding
from attnexp.config.schema import flatten
from attnexp.report import kexue
from attnexp.report.comparison import compare
from attnexp.runs import manifest
from attnexp.runs.identity import replicate
from attnexp.runs.result import Run, RunResult
from attnexp.statistics.agreement import FEWEST
from attnexp.statistics.paired import Paired, paired
from attnexp.statistics.verdict import POINTS

CLOSE = 0.01
"""Two accuracies this near count as close."""

INSIDE = 36
"""Of K's 40 figures. Were they independent, a run of the same law would have 36 or more in 95 % of
cases; those of one run move together, so C20 also says what our own runs have."""

Group = dict[str, Run]
"""Runs of a variant by the name of their seed."""


def c10(results: Path) -> Finding:
    """Learned and sinusoidal positions come out close."""
    return _close(results, "position", "learned", "sinusoidal")


def c11(results: Path) -> Finding:
    """Adding and concatenating positions both work: they come out close."""
    return _close(results, "position", "concat", "sinusoidal")


def c20(results: Path) -> Finding:
    """K's table: its figures could be those of one more of our seeds."""
    found = _variants(results, "blog", "no_pe", "pe", wanted=kexue.is_k, fewest=FEWEST)
    if isinstance(found, Finding):
        return found
    (comparison,) = compare([run for group in found for run in group.values()])
    count = comparison.agreement[-1]  # of both variants together
    label, epoch, name = count.furthest_figure
    measured = (
        f"{count.inside} of {count.num_figures} figures in the 95 % prediction interval of one "
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


def c21(results: Path) -> Finding:
    """Attention's best accuracy is slightly above an LSTM's."""
    found = _variants(results, "baselines", "attention", "lstm")
    if isinstance(found, Finding):
        return found
    pair = _difference(found[0], found[1], _peak)
    return _finding([("peak, attention − lstm", pair)], [_above(pair)])


def c22(results: Path) -> Finding:
    """PE raises accuracy (final epoch) and weakens over-fitting (the fall after the peak)."""
    found = _variants(results, "blog", "pe", "no_pe", wanted=kexue.is_k)
    if isinstance(found, Finding):
        return found
    final = _difference(found[0], found[1], _final)
    fall = _difference(found[0], found[1], lambda result: _peak(result) - _final(result))
    peak = _difference(found[0], found[1], _peak)
    shown = [("final", final), ("fall after the peak", fall), ("peak", peak)]
    return _finding(shown, [_above(final), _below(fall)])


def c26(results: Path) -> Finding:
    """Attention joined with CNN or RNN beats attention and its partner alone."""
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
    pairs = [
        (name, _difference(found[0], found[1], figure))
        for name, figure in (("peak", _peak), ("final", _final))
    ]
    return _finding(pairs, [_within(pair, CLOSE) for _, pair in pairs])


def _is_scaled(run: RunResult) -> bool:
    """Whether a run had K's data, protocol and epochs, but scaled scores, where it has scores, and
    today's epsilon, as is the default; the rest of its model is the study's business."""
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
    fewest: int = 2,
) -> list[Group] | Finding:
    """A study's runs by variant, reduced to the seeds that all have, or what is missing.

    fewest: seeds that there must be.
    """
    folder = results / study
    found = manifest.load_runs([folder]) if (folder / manifest.FILE).exists() else []
    groups: list[Group] = []
    for label in labels:
        chosen = [run for run in found if run.label == label and wanted(run.result)]
        groups.append({replicate(run.result.config): run for run in chosen})
    shared = set.intersection(*(set(group) for group in groups))
    if len(shared) < fewest:
        return Finding(
            measured=f"{len(shared)} of {fewest} seeds or more of {', '.join(labels)} in {folder}; "
            f"make them: attnexp sweep study={study}",
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


CLAIMS = [
    Claim(
        "C10", "K", "learned and sinusoidal positions give close results", c10, reads_sweeps=True
    ),
    Claim("C11", "K", "adding and concatenating positions both work", c11, reads_sweeps=True),
    Claim("C20", "K", "the published table of ten epochs", c20, reads_sweeps=True),
    Claim(
        "C21", "K", "attention's best accuracy is slightly above an LSTM's", c21, reads_sweeps=True
    ),
    Claim("C22", "K", "PE raises accuracy and weakens over-fitting", c22, reads_sweeps=True),
    Claim(
        "C26",
        "K",
        "attention joined with CNN or RNN plays to both strengths",
        c26,
        reads_sweeps=True,
    ),
]
