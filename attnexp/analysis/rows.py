"""Rows of a run, one an epoch, whether it lies on disk or in a published file."""

import json
import math
from collections.abc import Iterable
from typing import Any

from attnexp.runs.labels import settings

Row = dict[str, Any]
"""A run and epoch. Of the run: label (of its variant, or empty), study (key of its manifest),
declared (as in `Run`), default_label, num_departures, parameters, made_by, command, seed, run_id,
folder, and what `describe_run` says. Of the epoch: epoch, metrics (`val_loss`; `test_loss` in the
chosen epoch of a holdout run), correct: bits of the test texts."""

MADE_BY = ("version", "commit", "torch", "python", "processor", "device", "platform")
"""What made a run: the column made_by holds these values."""


def describe_run(config: dict[str, Any], facts: dict[str, Any], code: dict[str, str]) -> Row:
    """What config, facts of data and code say of a run. key: the same in all runs of a variant."""
    values = settings(config)
    return {
        "config": config,
        "settings": values,
        "protocol": config["train"]["protocol"],
        "seed_kind": kind_of_seeds(config),
        "facts": facts,
        "fingerprint": facts["fingerprint"],
        "n_test": facts["n_test"],
        "code": code,
        "key": json.dumps([values, code, facts.get("vectors")], sort_keys=True),
    }


def kind_of_seeds(config: dict[str, Any]) -> str:
    """The source of chance that differs between runs: `seed`, or those of `seeds.` that a config
    sets, such as `seeds.init`. Runs of different kinds are never pooled."""
    sources = [f"seeds.{name}" for name, number in config["seeds"].items() if number is not None]
    return " ".join(sources) or "seed"


def check_answers(rows: Iterable[Row]) -> None:
    """Raise `ValueError` where answers to the test texts do not have the accuracy of their row."""
    for row in rows:
        if row["correct"] is None:
            continue
        accuracy = row["val_accuracy" if row["protocol"] == "blog" else "test_accuracy"]
        num_right = int.from_bytes(row["correct"]).bit_count()
        num_texts = row["n_test"]
        num_bytes = math.ceil(num_texts / 8)
        if len(row["correct"]) != num_bytes or abs(num_right - accuracy * num_texts) > 0.5:
            raise ValueError(f"the answers of epoch {row['epoch']} do not have its accuracy")
