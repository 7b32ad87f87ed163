"""Evidence for claims: runs of finished sweeps, and what the interval of a difference says."""

import shlex
from collections.abc import Callable
from pathlib import Path

from attnexp.analysis.variants import by_variant
from attnexp.base.errors import UserError
from attnexp.claims.claim import Conclusion, Finding, NotRun, concluded
from attnexp.config.schema import flatten
from attnexp.runs import manifest
from attnexp.runs.identity import replicate
from attnexp.runs.points import best_epoch
from attnexp.runs.result import Run, RunResult
from attnexp.statistics.paired import Paired, paired
from attnexp.statistics.verdict import POINTS

MIN_SEEDS = 6
"""Fewest seeds with which the sign-flip test can find a difference."""

Group = dict[str, Run]
"""Runs of one variant, keyed by the name of their seed."""

Measure = Callable[[Group], dict[str, float]]
"""A number for each run of a variant, by seed."""


def is_scaled(run: RunResult) -> bool:
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


def variants(
    results: Path,
    study: str,
    *labels: str,
    wanted: Callable[[RunResult], bool] = is_scaled,
    min_seeds: int = MIN_SEEDS,
) -> list[Group]:
    """Runs of each of these variants for the seeds that all share.

    min_seeds: seeds that all variants must share. Raises `NotRun` where there are fewer.
    """
    folder = results / study
    make_them = f"make them: attnexp sweep study={study}"
    if min_seeds > MIN_SEEDS:
        make_them += f" 'seed=range({min_seeds})'"
    make_them += out_word(results)
    try:
        found = manifest.load_runs([folder]) if (folder / manifest.FILE).exists() else []
    except UserError as error:
        raise NotRun(f"{error} {make_them}") from error
    groups: list[Group] = []
    for label in labels:
        runs = [run for run in found if run.label == label and wanted(run.result)]
        same_label = by_variant(runs)
        if len(same_label) > 1:
            raise NotRun(
                f"{label} in {folder} is {len(same_label)} variants, of other settings or code: "
                f"{', '.join(same_label)}. Give them a folder each: out=DIR"
            )
        groups.append(
            {replicate(run.result.config): run for runs in same_label.values() for run in runs}
        )
    shared = set.intersection(*(set(group) for group in groups))
    if len(shared) < min_seeds:
        raise NotRun(
            f"{len(shared)} of {min_seeds} seeds or more of {', '.join(labels)} in {folder}; "
            f"{make_them}"
        )
    return [{seed: run for seed, run in group.items() if seed in shared} for group in groups]


def out_word(results: Path) -> str:
    """The word that makes a sweep write to this folder, after a space; empty for the default."""
    return "" if results == Path("outputs") else f" out={shlex.quote(str(results))}"


def best_epoch_of(group: Group) -> int:
    """The epoch whose accuracy is best on average over seeds."""
    return best_epoch([run.result for run in group.values()])


def after(group: Group, epoch: int) -> dict[str, float]:
    """Accuracy after an epoch, by seed."""
    return {seed: run.result.epochs[epoch - 1].val_accuracy for seed, run in group.items()}


def at_best(group: Group) -> dict[str, float]:
    """Accuracy after the best epoch of the variant."""
    return after(group, best_epoch_of(group))


def at_final(group: Group) -> dict[str, float]:
    """Accuracy after the last epoch."""
    return {seed: run.result.final.val_accuracy for seed, run in group.items()}


def overfitting(group: Group) -> dict[str, float]:
    """Accuracy on train, while training, minus that on test, at the last epoch."""
    rows = {seed: run.result.final for seed, run in group.items()}
    return {seed: row.train_accuracy - row.val_accuracy for seed, row in rows.items()}


def fall_after_best(group: Group, later: int) -> dict[str, float]:
    """Accuracy at the best epoch minus that so many epochs later."""
    then = after(group, best_epoch_of(group) + later)
    return {seed: accuracy - then[seed] for seed, accuracy in at_best(group).items()}


ENDPOINTS: dict[str, Measure] = {"best": at_best, "final": at_final}


def difference(one: Group, other: Group, measure: Measure) -> Paired:
    """Measure of one variant minus that of another, paired by seed."""
    pair = paired(measure(one), measure(other))
    assert pair is not None  # `variants` left shared seeds alone
    return pair


def above(pair: Paired) -> Conclusion:
    """Whether the 95 % interval lies above 0."""
    return beyond_zero(*interval(pair))


def below(pair: Paired) -> Conclusion:
    """Whether the 95 % interval lies below 0."""
    low, high = interval(pair)
    return beyond_zero(-high, -low)


def within(pair: Paired, bound: float) -> Conclusion:
    """Whether the 95 % interval lies between -bound and bound."""
    low, high = interval(pair)
    if -bound < low and high < bound:
        return Conclusion.supported
    beyond_bound = high < -bound or low > bound
    return Conclusion.not_supported if beyond_bound else Conclusion.inconclusive


def beyond_zero(low: float, high: float) -> Conclusion:
    """The conclusion of an interval above 0, below 0, or on both sides."""
    if low > 0:
        return Conclusion.supported
    return Conclusion.not_supported if high < 0 else Conclusion.inconclusive


def interval(pair: Paired) -> tuple[float, float]:
    """The 95 % interval of a difference over two seeds or more."""
    assert pair.low is not None
    assert pair.high is not None
    return pair.low, pair.high


def finding(parts: list[tuple[str, Paired, Conclusion | None]]) -> Finding:
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
