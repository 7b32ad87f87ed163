"""The results table: one measured number a row, whoever measured it.

Our runs (`results_of_runs`), the published run (`published.py`) and other trainers' files
(`other_results.py`) write rows; comparisons, tables and pictures read them.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnexp.analysis import published
from attnexp.analysis.variants import by_variant
from attnexp.base.errors import UserError
from attnexp.runs import manifest, points, predictions, store
from attnexp.runs.identity import replicate
from attnexp.runs.manifest import Manifest
from attnexp.runs.result import Run
from attnexp.statistics.paired import difference_of
from attnexp.training.metrics import most_probable

EPOCH_METRICS = ("train_loss", "train_accuracy", "train_accuracy_after", "val_loss", "val_accuracy")
"""Metrics of an epoch; those of an evaluation point are `runs.points.METRICS`."""

PUBLISHED = "published"
"""Seed of the rows of the published run."""

At = int | str
"""An epoch, counted from 1, or the name of an evaluation point."""

Bits = NDArray[np.bool_]


class Row(NamedTuple):
    """One measured number."""

    data: str
    protocol: str
    variant: str
    seed: str
    at: At
    metric: str
    value: float


@dataclass(frozen=True, kw_only=True)
class Results:
    """The rows of one data set and protocol, and what is known besides them."""

    rows: list[Row]
    points: dict[str, str]
    """Description of each endpoint, by name; the one that decides comes first."""
    right: Callable[[str, str], Mapping[str, Bits]]
    """For a variant and seed, by point: which examples it has right (n,). Empty if unknown."""
    runs: dict[str, list[Run]] = field(default_factory=dict)
    """The runs of each variant; empty for results of other trainers."""
    same_texts: Collection[str] = ()
    """Points at which every seed answers the same texts."""
    seedless: Collection[str] = ()
    """Variants in which nothing is random: their one run is compared with every seed."""
    best_epochs: dict[str, int] = field(default_factory=dict)
    """Epoch of the endpoint `best` of each variant; empty under other protocols."""
    num_texts: dict[str, int] = field(default_factory=dict)
    """Number of texts that accuracy is measured on, by endpoint; empty if unknown."""
    chance: float | None = None
    """Accuracy of always guessing the largest class; None if unknown."""
    sequential: Collection[str] = ()
    """Variants whose seeds were added because of results."""
    planned: dict[str, list[str]] = field(default_factory=dict)
    """Seeds that studies planned, by variant, also of variants without any finished run."""

    @cached_property
    def variants(self) -> list[str]:
        """Names of the variants, in the order of the rows."""
        return list(dict.fromkeys(row.variant for row in self.rows))

    @cached_property
    def _cells(self) -> dict[tuple[str, At], dict[str, dict[str, float]]]:
        """Values by variant and place, then by metric, then by seed."""
        cells: dict[tuple[str, At], dict[str, dict[str, float]]] = {}
        for row in self.rows:
            by_metric = cells.setdefault((row.variant, row.at), {})
            by_metric.setdefault(row.metric, {})[row.seed] = row.value
        return cells

    def metrics(self, variant: str, at: At) -> dict[str, dict[str, float]]:
        """Values by metric and seed, without the published run."""
        cells = self._cells.get((variant, at), {}).items()
        ours = {m: {k: v for k, v in cell.items() if k != PUBLISHED} for m, cell in cells}
        return {metric: by_seed for metric, by_seed in ours.items() if by_seed}

    def published(self, variant: str, at: At) -> dict[str, float]:
        """Values of the published run, by metric."""
        cells = self._cells.get((variant, at), {}).items()
        return {metric: cell[PUBLISHED] for metric, cell in cells if PUBLISHED in cell}

    def step(self, metric: str, point: str) -> float:
        """Smallest step of a metric: 1/n of an accuracy on n texts. If the number of texts is
        unknown, the smallest difference between two values; of equal values, the value itself, or 1
        if that is 0."""
        if self.num_texts:
            return 1 / self.num_texts[point] if metric == "accuracy" else 0.0
        values = sorted({row.value for row in self.rows if row.metric == metric})
        steps = [difference_of(b, a) for a, b in pairwise(values)]
        return min((step for step in steps if step > 0), default=abs(values[0]) or 1.0)

    def num_planned(self, *variants: str) -> int | None:
        """Number of seeds planned for all of these variants; None if unknown."""
        if not all(variant in self.planned for variant in variants):
            return None
        seeded = [variant for variant in variants if variant not in self.seedless] or variants
        return len(set.intersection(*(set(self.planned[variant]) for variant in seeded)))

    def seeds(self, variant: str) -> list[str]:
        """Seeds that a variant has at its evaluation points."""
        cells = (self.metrics(variant, at).values() for at in self.points)
        return list(dict.fromkeys(seed for found in cells for cell in found for seed in cell))

    def shared_seeds(self, variant: str, other: str) -> list[str]:
        """Seeds that two variants share: all of the other's where one of them has none."""
        if variant in self.seedless:
            return self.seeds(other)
        own, others = self.seeds(variant), self.seeds(other)
        return own if other in self.seedless else [seed for seed in own if seed in others]

    def paired_with(self, other: str, variant: str, at: At) -> dict[str, dict[str, float]]:
        """Values of a variant as in `metrics`, but of the runs that are also the other's; if it is
        seedless, under every seed of the other."""
        found = self.metrics(variant, at)
        ids = {run.result.run_id for run in self.runs.get(other, ())}
        same = {replicate(run.result.config) for run in self.runs.get(variant, ())
                if run.result.run_id in ids}  # fmt: skip
        if variant not in self.seedless:
            return {
                name: {seed: value for seed, value in by_seed.items() if seed not in same}
                for name, by_seed in found.items()
            }
        seeds = self.seeds(other)
        return {name: dict.fromkeys(seeds, *by_seed.values()) for name, by_seed in found.items()}


def results_of_runs(group: Sequence[Run], damaged: Callable[[str], object]) -> Results:
    """The table of runs that may be compared, with the published run where it is of their kind.

    damaged: called with a message for each run whose stored predictions cannot be read.
    """
    variants, studies = by_variant(group), studies_of(group)
    adding = {folder for folder, study in studies.items() if study.declaration}
    first = group[0].result
    protocol = first.config["train"]["protocol"]
    best = {label: points.best_epoch([run.result for run in of]) for label, of in variants.items()}
    by_name = {
        (label, replicate(run.result.config)): run for label, of in variants.items() for run in of
    }

    def right(variant: str, seed: str) -> dict[str, Bits]:
        run = by_name.get((variant, seed), variants[variant][0])  # of a seedless one, the only
        if not (run.path / predictions.FILE).exists():
            return {}
        try:
            return correct(run, best[variant])
        except UserError as error:
            damaged(str(error))
            return {}

    def rows() -> Iterator[Row]:
        for (label, seed), run in by_name.items():
            for at, metric, value in _measured(run, best[label]):
                yield Row(first.data["name"], protocol, label, seed, at, metric, value)
        for label, of in variants.items():
            for at, metric, value in published.measured([run.result for run in of]):
                yield Row(first.data["name"], protocol, label, PUBLISHED, at, metric, value)

    return Results(
        rows=list(rows()),
        points=points.POINTS[protocol],
        right=right,
        runs=variants,
        same_texts=_same_texts(group),
        seedless=[label for label, of in variants.items() if _is_seedless(of)],
        best_epochs=best if "best" in points.POINTS[protocol] else {},
        num_texts={
            point: first.data["n_test" if point == "chosen" else "n_val"]
            for point in points.POINTS[protocol]
        },
        chance=first.data.get("largest_class"),
        sequential=[
            label for label, of in variants.items() if any(adding & {*run.studies} for run in of)
        ],
        planned=_planned(studies, variants),
    )


def _same_texts(group: Sequence[Run]) -> list[str]:
    """Points at which all runs answer the same texts: those of the test set, unless that was drawn
    anew by each seed."""
    configs = [run.result.config for run in group]
    if len({config["seeds"].get("resample") for config in configs}) > 1:
        return []
    return ["chosen"] if configs[0]["train"]["protocol"] == "holdout" else ["final", "best"]


def _is_seedless(runs: Sequence[Run]) -> bool:
    """Whether nothing is random in a variant's one run."""
    return len(runs) == 1 and not runs[0].result.config["seeds"].keys() - {"resample"}


def studies_of(runs: Iterable[Run]) -> dict[Path, Manifest]:
    """The studies that have one of these runs, by folder, in order."""
    folders = dict.fromkeys(folder for run in runs for folder in run.studies)
    return {folder: study for folder in folders if (study := manifest.load(folder)) is not None}


def _planned(
    studies: Mapping[Path, Manifest], variants: Mapping[str, object]
) -> dict[str, list[str]]:
    """Planned seeds by variant: of these variants, and of those without any finished run."""
    planned: dict[str, dict[str, None]] = {}
    for folder, study in studies.items():
        finished = {
            entry.variant
            for entry in study.runs
            if store.has_finished(store.run_dir(folder.parent, entry.run_id))
        }
        for entry in study.runs:
            if entry.variant in variants or entry.variant not in finished:
                planned.setdefault(entry.variant, {})[entry.seed] = None
    return {label: [*seeds] for label, seeds in planned.items()}


def _measured(run: Run, best: int) -> Iterator[tuple[At, str, float]]:
    """Epoch or point, metric and value of everything that a run measured."""
    for row in run.result.epochs:
        for metric in EPOCH_METRICS:
            if (value := getattr(row, metric)) is not None:
                yield row.epoch, metric, value
    for point in points.POINTS[run.result.config["train"]["protocol"]]:
        for metric, value in points.metrics_at(run.result, point, best).items():
            yield point, metric, value


def correct(run: Run, best: int) -> dict[str, Bits]:
    """Which examples a run has right at each endpoint (n,), where that is stored.

    best: the `best_epoch` of its variant. Raises `UserError` if the run does not have its
    predictions.
    """
    stored, result = predictions.load(run), run.result
    of_epoch = {result.best.epoch: predictions.BEST, result.final.epoch: predictions.FINAL}
    found: dict[str, Bits] = {}
    for point in points.POINTS[result.config["train"]["protocol"]]:
        if epoch := {"best": best, "final": result.final.epoch}.get(point):
            n, labels = result.data["n_val"], predictions.VAL_LABELS
            logits = of_epoch.get(epoch)
        else:
            n, labels = result.data["n_test"], predictions.TEST_LABELS
            logits = predictions.TEST
        packed = stored.get(f"{predictions.CORRECT}{epoch or point}")
        if packed is not None:
            found[point] = predictions.unpack(packed, n)
        elif logits in stored:
            found[point] = most_probable(stored[logits]) == stored[labels]
    return found
