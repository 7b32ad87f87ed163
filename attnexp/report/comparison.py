"""What a set of finished runs says, in numbers: the tables and files are made from this."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnexp.config.schema import flatten
from attnexp.data.contrast import order_blind_ceiling
from attnexp.report import kexue
from attnexp.runs import predictions
from attnexp.runs.identity import replicate
from attnexp.runs.result import Run, RunResult
from attnexp.statistics.paired import MARGIN, McNemar, Mean, Paired, mcnemar, paired
from attnexp.statistics.verdict import Judgement, judge

METRICS = ("train_loss", "train_accuracy", "train_accuracy_after", "val_loss", "val_accuracy")
"""Of an epoch."""

FIGURES = ("accuracy", "loss", "brier", "ece", "gap")
"""Of a point. loss is the negative log-likelihood; gap is accuracy on train, measured after the
epoch, minus accuracy: over-fitting in K's sense (C22)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """A moment of training, declared before any run, at which variants are compared."""

    name: str
    about: str
    prediction: str
    """Name of its logits in `predictions`."""


POINTS = {
    "blog": (
        Point(
            name="peak",
            about="the epoch that is best on the test set, as K reports: optimistic",
            prediction=predictions.BEST,
        ),
        Point(name="final", about="the last epoch, on the test set", prediction=predictions.FINAL),
    ),
    "holdout": (
        Point(
            name="chosen",
            about="the epoch chosen on held-out train data; the test set was touched once",
            prediction=predictions.TEST,
        ),
        Point(
            name="final",
            about="the last epoch, on held-out train data",
            prediction=predictions.FINAL,
        ),
    ),
}
"""By protocol, the one that decides first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EpochSummary:
    """One epoch over a variant's seeds."""

    epoch: int
    figures: dict[str, Mean]
    """By name, as in METRICS; without `train_accuracy_after` where it was not measured."""
    k: dict[str, float] | None
    """K's figures for this epoch, where the variant is K's experiment."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """The runs that differ in seed alone."""

    label: str
    seeds: list[str]
    """Their names, as `runs.replicate` gives them."""
    parameters: int
    flops_per_example: int
    epochs: list[EpochSummary]
    points: dict[str, dict[str, Mean]]
    """By point, then by figure; without `gap` where train was not measured after the epoch."""
    best_epochs: list[int]
    """The epoch of each run that is best on its validation set."""
    k: dict[str, float]
    """K's accuracy by point, where the variant is K's experiment."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """Variant minus baseline at one point."""

    figures: dict[str, Paired]
    """By name, as in FIGURES. Of loss, brier, ece and gap less is better."""
    mcnemar: dict[str, McNemar]
    """By seed: who was right where the other was wrong, review by review."""
    judgement: Judgement
    """On accuracy, with Holm over the variants at this point."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Variants side by side; the first is the baseline."""

    data: str
    protocol: str
    points: tuple[Point, ...]
    margin: float
    n_val: int
    n_test: int
    order_blind_ceiling: float | None
    """contrast only: what a bag of words can reach."""
    variants: list[Variant]
    differences: dict[str, dict[str, Difference]]
    """By variant, then by point; empty for one that shares no seed with the baseline."""

    def to_json(self) -> dict[str, Any]:
        """Plain containers and numbers."""
        return asdict(self)


def compare(found: Sequence[Run], *, margin: float = MARGIN) -> list[Comparison]:
    """One comparison for every data set and protocol among the runs.

    margin: differences of accuracy within ± this count as none.
    """
    arenas: dict[str, list[Run]] = {}
    for run in found:
        arenas.setdefault(arena(run.result), []).append(run)
    return [_compare(group, margin) for group in arenas.values()]


def by_variant(found: Sequence[Run]) -> dict[str, list[Run]]:
    """Runs that differ in seed alone, in the variants' order, sorted by seed. A label that stands
    for several configs (made at different times) is told apart by the keys that differ."""
    groups: dict[str, list[Run]] = {}
    for run in sorted(found, key=lambda run: (run.result.order, run.result.label)):
        settings = json.dumps([run.result.label, _settings(run.result)], sort_keys=True)
        groups.setdefault(settings, []).append(run)
    named = {}
    for group in groups.values():
        first = group[0].result
        label = first.label
        namesakes = [other[0].result for other in groups.values() if other[0].result.label == label]
        if len(namesakes) > 1:
            label = f"{label} {_differing(first, namesakes)}"
        named[label] = sorted(group, key=_seed_order)
    return named


def arena(result: RunResult) -> str:
    """What must agree before accuracies may be compared."""
    return json.dumps([result.data["fingerprint"], result.data["n_test"], _protocol(result)])


def _protocol(result: RunResult) -> str:
    return str(result.config["train"]["protocol"])


def _seed_order(run: Run) -> list[int]:
    config = run.result.config
    own = [value for value in config["seeds"].values() if value is not None]
    return [config["seed"], *own]


def _compare(found: list[Run], margin: float) -> Comparison:
    groups = by_variant(found)
    first = found[0].result
    points = POINTS[_protocol(first)]
    fraction = first.config["data"].get("order_fraction")
    (_, baseline), *others = groups.items()
    differences: dict[str, dict[str, Difference]] = {label: {} for label, _ in others}
    for point in points:
        paired_up = {label: _differences(group, baseline, point, margin) for label, group in others}
        shared = {label: pairs for label, pairs in paired_up.items() if pairs}
        judgements = judge({label: pairs["accuracy"] for label, pairs in shared.items()})
        for label, pairs in shared.items():
            differences[label][point.name] = Difference(
                figures=pairs,
                mcnemar=_mcnemar(groups[label], baseline, point),
                judgement=judgements[label],
            )
    return Comparison(
        data=first.data["name"],
        protocol=_protocol(first),
        points=points,
        margin=margin,
        n_val=first.data["n_val"],
        n_test=first.data["n_test"],
        order_blind_ceiling=None if fraction is None else order_blind_ceiling(fraction),
        variants=[_variant(label, group, points) for label, group in groups.items()],
        differences=differences,
    )


def _settings(result: RunResult) -> dict[str, Any]:
    """Everything that makes a variant: the config without seeds, place and machine."""
    flat = flatten(result.config)
    left_out = ("seed", "out", "data.path", "train.device", "train.threads")
    return {
        key: value
        for key, value in flat.items()
        if key not in left_out and not key.startswith("seeds.")
    }


def _differing(result: RunResult, others: list[RunResult]) -> str:
    own = _settings(result)
    keys = [key for key in own if any(_settings(other).get(key) != own[key] for other in others)]
    return " ".join(f"{key}={own[key]}" for key in keys)


def _differences(
    group: list[Run], baseline: list[Run], point: Point, margin: float
) -> dict[str, Paired]:
    found = {}
    for figure in FIGURES:
        values, others = _by_seed(group, point, figure), _by_seed(baseline, point, figure)
        pairs = paired(values, others, margin=margin)
        if pairs is not None:
            found[figure] = pairs
    return found


def _mcnemar(group: list[Run], baseline: list[Run], point: Point) -> dict[str, McNemar]:
    """By seed, wherever both runs still have their predictions of the same reviews."""
    others = {replicate(run.result.config): run for run in baseline}
    found = {}
    for run in group:
        seed = replicate(run.result.config)
        if seed in others and (right := _right(run, point)) is not None:
            right_too = _right(others[seed], point)
            if right_too is not None and len(right) == len(right_too):
                found[seed] = mcnemar(right, right_too)
    return found


def _right(run: Run, point: Point) -> NDArray[np.bool_] | None:
    if not (run.path / predictions.FILE).exists():
        return None
    stored = predictions.load(run.path)
    on_test = point.prediction == predictions.TEST
    labels = stored[predictions.TEST_LABELS if on_test else predictions.VAL_LABELS]
    return np.equal(stored[point.prediction] > 0, labels > 0)


def _by_seed(group: list[Run], point: Point, figure: str) -> dict[str, float]:
    """Empty where the figure was not measured."""
    values = {
        replicate(run.result.config): _figures(run.result, point).get(figure) for run in group
    }
    return {seed: value for seed, value in values.items() if value is not None}


def _figures(result: RunResult, point: Point) -> dict[str, float]:
    """The figures of one run at a point; no `gap` where train was not measured again."""
    row = result.final if point.name == "final" else result.best
    if point.name == "chosen":
        test = result.test
        figures = {
            "accuracy": test.accuracy,
            "loss": test.loss,
            "brier": test.brier,
            "ece": test.ece,
        }
    else:
        figures = {
            "accuracy": row.val_accuracy,
            "loss": row.val_loss,
            "brier": row.val_brier,
            "ece": row.val_ece,
        }
    if row.train_accuracy_after is not None:
        figures["gap"] = row.train_accuracy_after - figures["accuracy"]
    return figures


def _variant(label: str, group: list[Run], points: tuple[Point, ...]) -> Variant:
    first = group[0].result
    k = kexue.figures_for(first.config)
    num_epochs = min(len(run.result.epochs) for run in group)
    published = {}
    if k:
        published["peak"] = max(row["val_accuracy"] for row in k)
        if num_epochs == len(k):
            published["final"] = k[-1]["val_accuracy"]
    summaries: dict[str, dict[str, Mean]] = {}
    for point in points:
        by_figure = {name: _by_seed(group, point, name) for name in FIGURES}
        summaries[point.name] = {
            name: Mean.of(list(values.values())) for name, values in by_figure.items() if values
        }
    return Variant(
        label=label,
        seeds=[replicate(run.result.config) for run in group],
        parameters=first.parameters,
        flops_per_example=first.flops_per_example,
        epochs=[
            _epoch(index, group, k[index] if k and index < len(k) else None)
            for index in range(num_epochs)
        ],
        points=summaries,
        best_epochs=[run.result.best.epoch for run in group],
        k=published,
    )


def _epoch(index: int, group: list[Run], k: dict[str, float] | None) -> EpochSummary:
    figures = {}
    for name in METRICS:
        values = [getattr(run.result.epochs[index], name) for run in group]
        if None not in values:
            figures[name] = Mean.of(values)
    return EpochSummary(epoch=index + 1, figures=figures, k=k)
