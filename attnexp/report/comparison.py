"""What a set of finished runs says, in numbers: the tables and files are made from this."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from attnexp.config import flatten
from attnexp.data.contrast import order_blind_ceiling
from attnexp.report import kexue
from attnexp.runs import RunResult
from attnexp.stats import Mean, Paired, paired

METRICS = ("train_loss", "train_accuracy", "train_accuracy_after", "val_loss", "val_accuracy")


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
    seeds: list[int]
    parameters: int
    flops_per_example: int
    epochs: list[EpochSummary]
    peak: Mean
    """Highest validation accuracy of each run."""
    peak_epochs: list[int]
    final: Mean
    """Validation accuracy after the last epoch."""
    test: Mean
    """Under `protocol: blog` the same as `final`, else at the epoch chosen on held-out data."""
    k_peak: float | None
    k_final: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Variants side by side; the first is the baseline."""

    data: str
    protocol: str
    n_val: int
    n_test: int
    order_blind_ceiling: float | None
    """contrast only: what a bag of words can reach."""
    variants: list[Variant]
    differences: dict[str, dict[str, Paired]]
    """By variant, then by figure (`peak`, `final`, `test`): variant minus baseline."""

    def to_json(self) -> dict[str, Any]:
        """Plain containers and numbers."""
        return asdict(self)


def compare(results: Sequence[RunResult]) -> list[Comparison]:
    """One comparison for every data set and protocol among the results."""
    arenas: dict[str, list[RunResult]] = {}
    for result in results:
        arenas.setdefault(_arena(result), []).append(result)
    return [_compare(group) for group in arenas.values()]


def _arena(result: RunResult) -> str:
    """What must agree before accuracies may be compared."""
    return json.dumps([result.data["fingerprint"], result.data["n_test"], _protocol(result)])


def _protocol(result: RunResult) -> str:
    return str(result.config["train"]["protocol"])


def _compare(results: list[RunResult]) -> Comparison:
    groups = _by_variant(results)
    first = results[0]
    fraction = first.config["data"]["order_fraction"]
    baseline, *others = groups.items()
    differences = {}
    for label, group in others:
        found = {
            name: paired(_by_seed(group, name), _by_seed(baseline[1], name))
            for name in ("peak", "final", "test")
        }
        differences[label] = {name: value for name, value in found.items() if value}
    return Comparison(
        data=first.data["name"],
        protocol=_protocol(first),
        n_val=first.data["n_val"],
        n_test=first.data["n_test"],
        order_blind_ceiling=None if fraction is None else order_blind_ceiling(fraction),
        variants=[_variant(label, group) for label, group in groups.items()],
        differences=differences,
    )


def _by_variant(results: list[RunResult]) -> dict[str, list[RunResult]]:
    """Runs that differ in seed alone, in the variants' order, sorted by seed. A label that stands
    for several configs (made at different times) is told apart by the keys that differ."""
    groups: dict[str, list[RunResult]] = {}
    for result in sorted(results, key=lambda result: (result.order, result.label, result.seed)):
        groups.setdefault(json.dumps(_settings(result), sort_keys=True), []).append(result)
    named = {}
    for group in groups.values():
        label = group[0].label
        namesakes = [other[0] for other in groups.values() if other[0].label == label]
        if len(namesakes) > 1:
            label = f"{label} {_differing(group[0], namesakes)}"
        named[label] = sorted(group, key=lambda result: result.seed)
    return named


def _settings(result: RunResult) -> dict[str, Any]:
    """Everything that makes a variant: the config without seed, place and machine."""
    flat = flatten(result.config)
    left_out = ("seed", "out", "data.path", "train.device", "train.threads")
    return {
        key: value
        for key, value in flat.items()
        if key not in left_out and not key.startswith("seeds.")
    }


def _differing(result: RunResult, others: list[RunResult]) -> str:
    own = _settings(result)
    keys = [key for key in own if any(_settings(other)[key] != own[key] for other in others)]
    return " ".join(f"{key}={own[key]}" for key in keys)


def _by_seed(group: list[RunResult], name: str) -> dict[int, float]:
    return {result.seed: _figure(result, name) for result in group}


def _figure(result: RunResult, name: str) -> float:
    match name:
        case "peak":
            return result.best.val_accuracy
        case "final":
            return result.final.val_accuracy
        case _:
            return result.test.accuracy


def _variant(label: str, group: list[RunResult]) -> Variant:
    first = group[0]
    k = kexue.figures_for(first.config)
    num_epochs = len(first.epochs)
    return Variant(
        label=label,
        seeds=[result.seed for result in group],
        parameters=first.parameters,
        flops_per_example=first.flops_per_example,
        epochs=[
            _epoch(index, group, k[index] if k and index < len(k) else None)
            for index in range(num_epochs)
        ],
        peak=Mean.of([_figure(result, "peak") for result in group]),
        peak_epochs=[result.best.epoch for result in group],
        final=Mean.of([_figure(result, "final") for result in group]),
        test=Mean.of([_figure(result, "test") for result in group]),
        k_peak=max(row["val_accuracy"] for row in k) if k else None,
        k_final=k[-1]["val_accuracy"] if k and num_epochs == len(k) else None,
    )


def _epoch(index: int, group: list[RunResult], k: dict[str, float] | None) -> EpochSummary:
    figures = {}
    for name in METRICS:
        values = [getattr(result.epochs[index], name) for result in group]
        if None not in values:
            figures[name] = Mean.of(values)
    return EpochSummary(epoch=index + 1, figures=figures, k=k)
