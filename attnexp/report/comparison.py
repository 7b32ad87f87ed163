"""What a set of finished runs says, in numbers: the tables and files are made from this."""

import functools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnexp.base.errors import UserError
from attnexp.config.compose import compose
from attnexp.config.options import name_of
from attnexp.config.schema import to_dict
from attnexp.data.contrast import order_blind_ceiling
from attnexp.report import kexue
from attnexp.runs import code, manifest, predictions
from attnexp.runs.identity import default_label, replicate, settings
from attnexp.runs.points import FIGURES, POINTS, Point, figures
from attnexp.runs.result import Run, RunResult
from attnexp.statistics.agreement import Agreement
from attnexp.statistics.paired import MARGIN, McNemar, Mean, Paired, mcnemar, paired
from attnexp.statistics.sequential import Decision, Design, decide
from attnexp.statistics.verdict import Judgement, judge
from attnexp.training.metrics import most_probable

METRICS = ("train_loss", "train_accuracy", "train_accuracy_after", "val_loss", "val_accuracy")
"""Of an epoch."""


BySeed = dict[str, dict[str, float]]
"""What the runs of a variant measured at a point: by figure, as in FIGURES, then by seed."""

Measured = dict[str, BySeed]
"""Likewise at every point, by name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EpochSummary:
    """One epoch over a variant's seeds."""

    epoch: int
    figures: dict[str, Mean]
    """By name, as in METRICS; without `train_accuracy_after` where it was not measured."""
    k: dict[str, float] | None
    """K's figures for this epoch, where the variant is K's experiment."""
    agreement: dict[str, Agreement]
    """By name, as in `kexue.NAMES`: could K's figure be that of one more seed? Empty where there is
    none, or fewer than three seeds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """The runs that differ in seed alone."""

    label: str
    seeds: list[str]
    """Their names, as `identity.replicate` gives them."""
    parameters: int
    flops_per_example: int
    epochs: list[EpochSummary]
    points: dict[str, dict[str, Mean]]
    """By point, then by figure; without `gap` where train was not measured after the epoch."""
    best_epochs: list[int]
    """The epoch of each run that is best on its validation set."""
    k: dict[str, float]
    """K's accuracy by point, where the variant is K's experiment."""
    unlike_k: list[str]
    """Settings in which it still is not K's run, as `key=value`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """Variant minus baseline at one point."""

    figures: dict[str, Paired]
    """By name, as in FIGURES. Of loss, brier, ece and gap less is better."""
    mcnemar: dict[str, McNemar]
    """By seed: who was right where the other was wrong, text by text."""
    judgement: Judgement
    """On accuracy, with Holm over the variants at this point."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Interaction:
    """A difference of differences: what a level of one factor adds, under two levels of another."""

    levels: dict[str, str]
    """By factor, the one that adds first."""
    baselines: dict[str, str]
    """Likewise."""
    variants: list[str]
    """Four: (the first − the second) − (the third − the fourth)."""
    points: dict[str, Difference]
    """By point, over the seeds that all four share; judged with Holm over the interactions."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sequential:
    """A study whose seeds were added, look by look, until it was decided."""

    design: Design
    point: str
    """At which accuracy decides."""
    baseline: str
    finished_before: int
    """Runs that were there when it was declared."""
    decisions: dict[str, Decision]
    """By variant."""


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
    other_code: str
    """A line where not all runs were made by the same code, else empty."""
    diverged: list[str]
    """A line for each variant with runs whose loss left every sensible range."""
    damaged: list[str]
    """A line for each run whose predictions are not what it wrote: it has no McNemar test."""
    variants: list[Variant]
    differences: dict[str, dict[str, Difference]]
    """By variant, then by point; empty for one that shares no seed with the baseline."""
    interactions: list[Interaction]
    """Of a study of two crossed factors."""
    sequential: list[Sequential]
    """By study. All else here takes the number of seeds as fixed beforehand."""
    agreement: list[kexue.Count]
    """How many of K's figures could be those of one more seed: of each variant, and of both."""

    @property
    def title(self) -> str:
        """The data set; generated data say so wherever they are named."""
        return self.data if self.order_blind_ceiling is None else f"{self.data} (synthetic)"


def compare(found: Sequence[Run], *, margin: float = MARGIN) -> list[Comparison]:
    """One comparison for every data set and protocol among the runs.

    margin: differences of accuracy within ± this count as none.
    """
    return [_compare(group, margin) for group in arenas(found)]


def arenas(found: Iterable[Run]) -> list[list[Run]]:
    """The runs of each data set and protocol: whose accuracies may be compared."""
    groups: dict[str, list[Run]] = {}
    for run in found:
        result = run.result
        one = json.dumps([result.data["fingerprint"], result.data["n_test"], _protocol(result)])
        groups.setdefault(one, []).append(run)
    return list(groups.values())


def by_variant(found: Sequence[Run]) -> dict[str, list[Run]]:
    """Runs of the same settings and code, which differ in seed alone, sorted by seed.

    They are called what their study calls them, and come in its order. One name for several is
    told apart by the settings that differ, or by the code; runs of no study have no other name, and
    the fewest departures from the default settings come first.
    """
    groups: dict[str, list[Run]] = {}
    for run in sorted(found, key=_departures):
        made_by = [run.label, settings(run.result.config), run.result.code]
        groups.setdefault(json.dumps(made_by, sort_keys=True), []).append(run)
    firsts = [group[0] for group in groups.values()]
    named: dict[str, list[Run]] = {}
    for first, group in zip(firsts, groups.values(), strict=True):
        name = _name(first, [other for other in firsts if other.label == first.label])
        if name in named:  # a bare run may bear another's label by chance
            name = f"{name} ({first.path.name})"
        named[name] = sorted(group, key=_seed_order)
    return named


def _departures(run: Run) -> list[str]:
    """Sorts runs without a label; those with one stay as they are."""
    if run.label:
        return []
    default, given = _default(), settings(run.result.config)
    differing = [_word(k, v) for k, v in given.items() if default.get(k) != v]
    return [f"{len(differing):03d}", *differing]


@functools.cache
def _default() -> dict[str, Any]:
    return settings(to_dict(compose([])))


def _name(run: Run, namesakes: Sequence[Run]) -> str:
    """What a variant is called among those of the same label."""
    own = settings(run.result.config)
    others = [settings(other.result.config) for other in namesakes if other is not run]
    # A setting that another's pieces do not have tells no more than the pieces do.
    differing = [key for key in own if any(o.get(key, own[key]) != own[key] for o in others)]
    parts = [run.label, *(_word(key, own[key]) for key in differing)]
    if any(other == own for other in others):
        parts.append(f"code {run.result.run_id.rpartition('-')[2]}")
    return " ".join(filter(None, parts)) or default_label(run.result.config)


def _word(key: str, value: Any) -> str:
    """A setting as a user writes it: `position=rotary`, and not its class."""
    section, dot, last = key.rpartition(".")
    return f"{section}={name_of(value)}" if dot and last == "kind" else f"{key}={value}"


def _of_other_code(found: Sequence[Run]) -> str:
    """A line for runs that were not made by the same code; empty where all were."""
    first, names = dict[str, str](), set[str]()
    for run in found:
        for name, digest in run.result.code.items():
            if first.setdefault(name, digest) != digest:
                names.add(name)
    if not names:
        return ""
    files = ", ".join(code.files(names))
    return f"{files} changed between these runs; what differs in code is kept apart."


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
    measured = {label: _measured(group, points) for label, group in groups.items()}
    (_, baseline), *others = measured.items()
    damaged = dict[str, None]()
    right = _mcnemar(groups, points, damaged)
    differences: dict[str, dict[str, Difference]] = {label: {} for label, _ in others}
    for point in points:
        pairs = {
            label: _differences(group[point.name], baseline[point.name], margin)
            for label, group in others
        }
        right_here = {label: by_point[point.name] for label, by_point in right.items()}
        for label, difference in _judged(pairs, right_here).items():
            differences[label][point.name] = difference
    held = {label: kexue.hold([run.result for run in group]) for label, group in groups.items()}
    return Comparison(
        data=first.data["name"],
        protocol=_protocol(first),
        points=points,
        margin=margin,
        n_val=first.data["n_val"],
        n_test=first.data["n_test"],
        order_blind_ceiling=None if fraction is None else order_blind_ceiling(fraction),
        other_code=_of_other_code(found),
        diverged=[line for label, group in groups.items() for line in _diverged(label, group)],
        damaged=list(damaged),
        variants=[
            _variant(label, group, measured[label], held[label]) for label, group in groups.items()
        ],
        differences=differences,
        interactions=_interactions(groups, measured, points, margin),
        sequential=list(_sequential(found)),
        agreement=kexue.counts({label: found for label, found in held.items() if found}),
    )


def _measured(group: list[Run], points: tuple[Point, ...]) -> Measured:
    seeds = [replicate(run.result.config) for run in group]
    found: Measured = {point.name: {figure: {} for figure in FIGURES} for point in points}
    for point in points:
        for seed, run in zip(seeds, group, strict=True):
            for figure, value in figures(run.result, point.name).items():
                found[point.name][figure][seed] = value
    return found


def _differences(values: BySeed, baseline: BySeed, margin: float) -> dict[str, Paired]:
    pairs = {name: paired(values[name], baseline[name], margin=margin) for name in FIGURES}
    return {name: pair for name, pair in pairs.items() if pair is not None}


def _judged(
    pairs: Mapping[str, dict[str, Paired]], right: Mapping[str, dict[str, McNemar]]
) -> dict[str, Difference]:
    """Those that share a seed, judged together on accuracy."""
    accuracies = {label: found["accuracy"] for label, found in pairs.items() if found}
    return {
        label: Difference(figures=pairs[label], mcnemar=right.get(label, {}), judgement=judgement)
        for label, judgement in judge(accuracies).items()
    }


def _interactions(
    groups: dict[str, list[Run]],
    measured: dict[str, Measured],
    points: tuple[Point, ...],
    margin: float,
) -> list[Interaction]:
    """Of every study that has runs here, one for each pair of levels, neither being a baseline, of
    which all four variants are here and share a seed."""
    folders = _studies(run for group in groups.values() for run in group)
    found = {
        corners[0]: Interaction(
            levels=study.variants[corners[0]],
            baselines=study.variants[corners[3]],
            variants=list(corners),
            points={},
        )
        for study in filter(None, map(manifest.load, folders))
        for corners in study.crossings()
        if set(corners) <= set(groups)
    }
    for point in points:
        pairs = {
            label: _crossed([measured[one][point.name] for one in each.variants], margin)
            for label, each in found.items()
        }
        for label, difference in _judged(pairs, {}).items():
            found[label].points[point.name] = difference
    return [interaction for interaction in found.values() if interaction.points]


def _sequential(found: Sequence[Run]) -> Iterator[Sequential]:
    """Of every study here that was declared to be one."""
    for folder in _studies(found):
        study = manifest.load(folder)
        if study is None or study.declaration is None:
            continue
        declared = study.declaration
        differences = declared.differences(run for run in found if folder in run.studies)
        yield Sequential(
            design=declared.design,
            point=declared.metric,
            baseline=next(iter(declared.runs)),
            finished_before=declared.finished_before,
            decisions=decide(differences, declared.design),
        )


def _studies(found: Iterable[Run]) -> dict[Path, None]:
    """The folders of all studies that have one of these runs, in order."""
    return dict.fromkeys(study for run in found for study in run.studies)


def _crossed(corners: Sequence[BySeed], margin: float) -> dict[str, Paired]:
    one, two, three, four = corners

    def minus(variant: BySeed, other: BySeed) -> BySeed:
        return {
            figure: {seed: v[seed] - other[figure][seed] for seed in v if seed in other[figure]}
            for figure, v in variant.items()
        }

    return _differences(minus(one, two), minus(three, four), margin)


def _diverged(label: str, group: list[Run]) -> list[str]:
    said = [run.result.diverged for run in group if run.result.diverged]
    if not said:
        return []
    even = math.log(len(group[0].result.classes))
    return [
        f"{label}: training diverged in {len(said)} of {len(group)} runs ({said[0]}; an even guess "
        f"has {even:.2f}). Such figures tell nothing of the variant; use a smaller train.lr."
    ]


def _mcnemar(
    groups: dict[str, list[Run]], points: tuple[Point, ...], damaged: dict[str, None]
) -> dict[str, dict[str, dict[str, McNemar]]]:
    """By variant but the first, point and seed, wherever both runs still have their predictions of
    the same texts. Seed by seed, so that every file is read once.

    damaged: takes a line for each run that has other ones.
    """
    baseline, *others = (
        {replicate(run.result.config): run for run in group} for group in groups.values()
    )
    labels = list(groups)[1:]
    found: dict[str, dict[str, dict[str, McNemar]]] = {
        label: {point.name: {} for point in points} for label in labels
    }
    for seed, run in baseline.items():
        paired_with = {k: v[seed] for k, v in zip(labels, others, strict=True) if seed in v}
        right = _right(run, damaged) if paired_with else {}
        for label, other in paired_with.items():
            for name, right_too in (_right(other, damaged) if right else {}).items():
                if len(right[name]) == len(right_too):
                    found[label][name][seed] = mcnemar(right_too, right[name])
    return found


def _right(run: Run, damaged: dict[str, None]) -> dict[str, NDArray[np.bool_]]:
    """`correct`, but empty where the run no longer has its predictions, or other ones."""
    if not (run.path / predictions.FILE).exists():
        return {}
    try:
        return correct(run)
    except UserError as error:
        damaged[str(error)] = None
        return {}


def correct(run: Run) -> dict[str, NDArray[np.bool_]]:
    """By point, which texts the run has right: (n,). Raises `UserError` without its predictions."""
    stored = predictions.load(run)
    found = {}
    for point in POINTS[_protocol(run.result)]:
        on_test = point.prediction == predictions.TEST
        if (bits := stored.get(predictions.CORRECT + point.name)) is not None:
            n = run.result.data["n_test" if on_test else "n_val"]
            found[point.name] = predictions.unpack(bits, n)
        else:
            labels = stored[predictions.TEST_LABELS if on_test else predictions.VAL_LABELS]
            found[point.name] = most_probable(stored[point.prediction]) == labels
    return found


def _variant(label: str, group: list[Run], measured: Measured, held: kexue.Held | None) -> Variant:
    first = group[0].result
    num_epochs = min(len(run.result.epochs) for run in group)
    published = {}
    if held:
        published["peak"] = max(row["val_accuracy"] for row in held.figures)
        if num_epochs == len(held.figures):
            published["final"] = held.figures[-1]["val_accuracy"]
    summaries = {
        point: {name: Mean.of(list(values.values())) for name, values in found.items() if values}
        for point, found in measured.items()
    }
    return Variant(
        label=label,
        seeds=[replicate(run.result.config) for run in group],
        parameters=first.parameters,
        flops_per_example=first.flops_per_example,
        epochs=[_epoch(index, group, held) for index in range(num_epochs)],
        points=summaries,
        best_epochs=[run.result.best.epoch for run in group],
        k=published,
        unlike_k=held.unlike if held else [],
    )


def _epoch(index: int, group: list[Run], held: kexue.Held | None) -> EpochSummary:
    figures = {}
    for name in METRICS:
        values = [getattr(run.result.epochs[index], name) for run in group]
        if None not in values:
            figures[name] = Mean.of(values)
    known = held is not None and index < len(held.figures)
    return EpochSummary(
        epoch=index + 1,
        figures=figures,
        k=held.figures[index] if held and known else None,
        agreement=held.agreements[index] if held and known else {},
    )
