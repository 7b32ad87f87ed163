"""A run as the report needs it, whether it lies on disk or in a published file."""

import json
import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from attnexp.runs.labels import settings

MADE_BY = ("version", "commit", "torch", "python", "processor", "device", "platform")
"""What made a run, in this order."""


@dataclass(frozen=True, kw_only=True)
class About:
    """What the runs of a variant have in common."""

    config: dict[str, Any]
    facts: dict[str, Any]  # of the data
    code: dict[str, str]

    @cached_property
    def settings(self) -> dict[str, Any]:
        return settings(self.config)

    @cached_property
    def key(self) -> str:
        """The same in all runs of a variant."""
        vectors = self.facts.get("vectors")
        return json.dumps([self.settings, self.code, vectors], sort_keys=True)

    @property
    def seed_kind(self) -> str:
        return kind_of_seeds(self.config)


@dataclass(frozen=True, kw_only=True)
class RunRows:
    """A run: what it is, and a row for each epoch and metric."""

    run_id: str
    label: str  # of its variant, or empty
    study: str  # key of the manifest that planned it, or empty
    seed: str
    about: About
    made_by: list[tuple[Any, ...]]  # values of `MADE_BY`
    declared: bool = False  # as in `Run`
    default_label: str = ""
    num_departures: int = 0
    folder: Path | None = None
    command: str = ""
    rows: list[tuple[int, str, float]] = field(default_factory=list)  # epoch, metric, value
    correct: dict[int, bytes] = field(default_factory=dict)  # by epoch: bits of the test texts

    @property
    def protocol(self) -> str:
        return str(self.about.config["train"]["protocol"])

    @property
    def record(self) -> dict[str, Any]:
        """What tells runs apart, and what belongs together."""
        names = "run_id label study seed declared default_label num_departures folder command"
        facts = self.about.facts
        return {name: getattr(self, name) for name in names.split()} | {
            "protocol": self.protocol,
            "source": facts["name"],
            "fingerprint": facts["fingerprint"],
            "n_test": facts["n_test"],
            "key": self.about.key,
            "seed_kind": self.about.seed_kind,
            "resample": self.about.config["seeds"].get("resample"),
        }

    def check_answers(self) -> None:
        """Raise `ValueError` where answers to the test texts do not have the accuracy of an epoch."""
        metric = "val_accuracy" if self.protocol == "blog" else "test_accuracy"
        values = {epoch: value for epoch, name, value in self.rows if name == metric}
        num_texts = self.about.facts["n_test"]
        for epoch, bits in self.correct.items():
            num_right = int.from_bytes(bits).bit_count()
            is_cut = len(bits) != math.ceil(num_texts / 8)
            if is_cut or not abs(num_right - values[epoch] * num_texts) <= 0.5:
                raise ValueError(f"the answers of epoch {epoch} do not have its accuracy")


def kind_of_seeds(config: dict[str, Any]) -> str:
    """The source of chance that differs between runs: `seed`, or those of `seeds.` that a config
    sets, such as `seeds.init`. Runs of different kinds are never pooled."""
    sources = [f"seeds.{name}" for name, number in config["seeds"].items() if number is not None]
    return " ".join(sources) or "seed"
