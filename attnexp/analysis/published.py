"""The run that K published, and whether it could be one more of our seeds (C20).

Su Jianlin, "Attention is All You Need" 浅读, kexue.fm/archives/4765, January 2018: one seed of each
variant, with the test set used for validation.

Two settings follow from the date. K's code divides scores by sqrt(d_head) only since March 2018,
and Adam's epsilon in Keras is 1e-7 only since 2.1.3 of January 2018 (pull request 8710); before, it
was 1e-8. `SETTINGS` are those of the time. Runs with the later ones are compared with the table as
well, and say so.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from attnexp.config.compose import compose
from attnexp.config.options import name_of
from attnexp.config.schema import flatten, to_dict
from attnexp.runs.identity import settings
from attnexp.runs.result import RunResult

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

EPOCHS: dict[str, list[dict[str, float]]] = {
    position: [dict(zip(NAMES, row, strict=True)) for row in rows]
    for position, rows in _TABLE.items()
}
"""K's metrics, by position (the variant), then by epoch."""

SETTINGS = {"model.score.scale": False, "train.eps": 1e-8}
"""K's settings that differ from our defaults, which are those of later code and later Keras."""

_FREE = {"train.epochs", "train.measure_train", "train.precision"}
"""Settings that may differ from K's run without making it another experiment."""


def epochs_for(run: RunResult) -> list[dict[str, float]] | None:
    """K's epochs for a run of K's comparison on the whole of IMDB, None for any other run."""
    given = _settings(run.config)
    as_default = {key: value for key, value in given.items() if value != SETTINGS.get(key)}
    whole = (run.data["n_train"], run.data["n_test"]) == (25_000, 25_000)
    for position, epochs in EPOCHS.items():
        default = _default(position)
        if whole and given.keys() <= default.keys() and as_default.items() <= default.items():
            return epochs
    return None


def is_k(run: RunResult) -> bool:
    """Whether a run has all of K's settings except `_FREE`."""
    k = epochs_for(run)
    return k is not None and len(k) == len(run.epochs) and not unlike(run)


def position(run: RunResult) -> str:
    """Which variant of K's comparison a run of it is: a key of `EPOCHS`."""
    return name_of(run.config["position"]["kind"])


def unlike(run: RunResult) -> list[str]:
    """Settings among `SETTINGS` in which a run differs from K's, as `key=value`."""
    given = flatten(run.config)
    return format_settings({k: given[k] for k, value in SETTINGS.items() if given[k] != value})


def format_settings(given: Mapping[str, object]) -> list[str]:
    """Settings as a user writes them: `model.score.scale=false`."""
    return [f"{key}={json.dumps(value)}" for key, value in given.items()]


def measured(runs: Sequence[RunResult]) -> Iterator[tuple[int | str, str, float]]:
    """Epoch or point, metric and value of K's run for the runs of a variant; nothing for others."""
    k = epochs_for(runs[0])
    if k is None:
        return
    num_epochs = min(len(run.epochs) for run in runs)
    for epoch, values in enumerate(k[:num_epochs], start=1):
        for metric, value in values.items():
            yield epoch, metric, value
    yield "best", "accuracy", max(values["val_accuracy"] for values in k)
    if num_epochs == len(k):
        yield "final", "accuracy", k[-1]["val_accuracy"]


@lru_cache
def _default(position: str) -> dict[str, Any]:
    return _settings(to_dict(compose([f"position={position}"])))


def _settings(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings(config).items() if key not in _FREE}
