"""The run that K published, and ours held against it: could it be one more of our seeds (C20)?

Su Jianlin, "Attention is All You Need" 浅读, kexue.fm/archives/4765, January 2018: one seed of each
variant, the test set used for validation.

Two settings are told by the date alone. K's code divides scores by sqrt(d_head) only since March
2018, and Adam's epsilon in Keras is 1e-7 only since 2.1.3 of January 2018 (pull request 8710);
before, it was 1e-8. `SETTINGS` are those of the time. Runs with the later ones are held against the
table as well, and say so: it is the table that tells them apart.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from attnexp.config.compose import compose
from attnexp.config.options import name_of
from attnexp.config.schema import flatten, to_dict
from attnexp.runs.identity import replicate, settings
from attnexp.runs.result import RunResult
from attnexp.statistics.agreement import Agreement, agreement, leave_one_out
from attnexp.statistics.paired import Mean

NAMES = ("train_loss", "train_accuracy", "val_loss", "val_accuracy")

_TABLE = {
    "none": (
        (0.4090, 0.8126, 0.3541, 0.8430),
        (0.2528, 0.8976, 0.3962, 0.8284),
        (0.1731, 0.9335, 0.5172, 0.8137),
        (0.1172, 0.9568, 0.6185, 0.8009),
        (0.0750, 0.9730, 0.9310, 0.7925),
    ),
    "sinusoidal": (
        (0.5179, 0.7183, 0.3540, 0.8413),
        (0.2880, 0.8786, 0.3464, 0.8447),
        (0.1584, 0.9404, 0.4398, 0.8313),
        (0.0588, 0.9803, 0.5836, 0.8243),
        (0.0182, 0.9947, 0.8095, 0.8178),
    ),
}

FIGURES: dict[str, list[dict[str, float]]] = {
    position: [dict(zip(NAMES, row, strict=True)) for row in rows]
    for position, rows in _TABLE.items()
}
"""By variant, then by epoch."""

SETTINGS = {"model.score.scale": False, "train.eps": 1e-8}
"""K's, where they are not our defaults, which are those of later code and of later Kerases."""

_FREE = {"train.epochs", "train.measure_train", "train.precision"}
"""Settings that may differ from K's run without making it another experiment."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """K's run of a variant beside ours."""

    position: str
    n: int
    figures: list[dict[str, float]]
    """K's, by epoch, then by name."""
    agreements: list[dict[str, Agreement]]
    """Likewise, for as many epochs as ours have; without what `agreement` cannot tell."""
    own: dict[str, int]
    """By our seeds: how many figures would be inside, were this run K's and the others ours."""
    unlike: list[str]
    """Our settings where they are not K's, as `key=value`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Count:
    """How many of K's figures could be those of one more of our seeds."""

    variants: list[str]
    """One, or both of K's comparison."""
    n: int
    """Seeds; of two variants, those of the one with fewer."""
    inside: int
    num_figures: int
    furthest: float
    """The largest distance from our mean, in standard deviations of our seeds."""
    furthest_figure: tuple[str, int, str]
    """Its variant, epoch and name."""
    own: dict[str, int]
    """By seed: `inside` of our own run, were it K's and the others ours. Empty below four seeds."""
    unlike: list[str]
    """Our settings where they are not K's, as `key=value`."""


def figures_for(run: RunResult) -> list[dict[str, float]] | None:
    """K's epochs for a run of K's comparison on the whole of IMDB, None for any other."""
    given = _settings(run.config)
    as_default = {key: value for key, value in given.items() if value != SETTINGS.get(key)}
    whole = (run.data["n_train"], run.data["n_test"]) == (25_000, 25_000)
    for position, figures in FIGURES.items():
        default = _default(position)
        if whole and given.keys() == default.keys() and as_default.items() <= default.items():
            return figures
    return None


def is_k(run: RunResult) -> bool:
    """Whether a run is K's in every setting that is not free, code and Keras too."""
    k = figures_for(run)
    return k is not None and len(k) == len(run.epochs) and not unlike(run)


def unlike(run: RunResult) -> list[str]:
    """Which of `SETTINGS` a run has otherwise, in words."""
    given = flatten(run.config)
    return words({key: given[key] for key, value in SETTINGS.items() if given[key] != value})


def words(given: Mapping[str, object]) -> list[str]:
    """Settings as a user writes them: `model.score.scale=false`."""
    return [f"{key}={json.dumps(value)}" for key, value in given.items()]


def hold(runs: Sequence[RunResult]) -> Held | None:
    """K's run beside ours of one variant, which differ in seed alone; None if it is not K's."""
    k = figures_for(runs[0])
    if k is None:
        return None
    num_epochs = min(len(k), *(len(run.epochs) for run in runs))
    ours = [
        [getattr(run.epochs[epoch], name) for epoch in range(num_epochs) for name in NAMES]
        for run in runs
    ]
    means = iter([Mean.of(values) for values in zip(*ours, strict=True)])
    agreements = []
    for figures in k[:num_epochs]:
        found = {name: agreement(figures[name], next(means)) for name in NAMES}
        agreements.append({name: each for name, each in found.items() if each})
    counts = leave_one_out(ours)
    return Held(
        position=name_of(runs[0].config["position"]["kind"]),
        n=len(runs),
        figures=k,
        agreements=agreements,
        own={replicate(run.config): count for run, count in zip(runs, counts, strict=False)},
        unlike=unlike(runs[0]),
    )


def counts(variants: Mapping[str, Held]) -> list[Count]:
    """One for each variant, and one for each two that make up K's comparison."""
    groups: dict[tuple[str, ...], dict[str, Held]] = {}
    for label, held in variants.items():
        if any(held.agreements):
            groups.setdefault(tuple(held.unlike), {})[label] = held
    found = []
    for group in groups.values():
        found += [_count({label: held}) for label, held in group.items()]
        if sorted(held.position for held in group.values()) == sorted(FIGURES):
            found.append(_count(group))
    return found


@lru_cache
def _default(position: str) -> dict[str, Any]:
    return _settings(to_dict(compose([f"position={position}"])))


def _settings(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings(config).items() if key not in _FREE}


def _count(variants: Mapping[str, Held]) -> Count:
    each = {
        (label, epoch, name): found
        for label, held in variants.items()
        for epoch, row in enumerate(held.agreements, start=1)
        for name, found in row.items()
    }
    furthest = max(each, key=lambda figure: abs(each[figure].distance))
    owns = [held.own for held in variants.values()]
    return Count(
        variants=list(variants),
        n=min(held.n for held in variants.values()),
        inside=sum(found.inside for found in each.values()),
        num_figures=len(each),
        furthest=each[furthest].distance,
        furthest_figure=furthest,
        own={seed: sum(o[seed] for o in owns) for seed in owns[0] if all(seed in o for o in owns)},
        unlike=next(iter(variants.values())).unlike,
    )
