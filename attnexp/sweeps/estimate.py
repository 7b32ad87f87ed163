"""How long a sweep will take, from runs that have finished or from a few timed steps."""

import json
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import torch

from attnexp.config.schema import Protocol, RunConfig, to_dict
from attnexp.model.classifier import build_model
from attnexp.runs.identity import settings
from attnexp.runs.result import Run
from attnexp.sweeps.schedule import Entry
from attnexp.training import device
from attnexp.training.loop import Examples, fit, start
from attnexp.training.run import read_inputs

NUM_TRIAL = 320
"""Reviews of a trial epoch: ten batches of K's size."""


def seconds(entries: Sequence[Entry], finished: Sequence[Run]) -> dict[str, float | None]:
    """Seconds of each run by its id: what runs of the same variant took, or a trial. None for
    TF-IDF, which cannot be tried in part."""
    took: dict[str, list[float]] = {}
    for run in finished:
        took.setdefault(_variant(run.result.config), []).append(run.result.wall_seconds)
    expected: dict[str, float | None] = {
        variant: fmean(measured) for variant, measured in took.items()
    }
    found = {}
    for entry in entries:
        variant = _variant(to_dict(entry.job.config))
        if variant not in expected:
            expected[variant] = trial(entry.job.config)
        found[entry.identity.run_id] = expected[variant]
    return found


def trial(config: RunConfig) -> float | None:
    """Train on a few reviews and scale up; the first epoch of two only warms up."""
    if not config.is_network:
        return None
    where = device.prepare(config.train)
    dataset = read_inputs(config).dataset
    few = Examples.of(dataset.train, where)[:NUM_TRIAL]
    short = replace(config.train, epochs=2, measure_train=False)
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    state = start(build_model(config).to(where), few, short, generator)
    *_, (row, _) = fit(state, few, few, short)
    each_step = 1 / row.examples_per_second
    each_look = row.seconds / len(few) - each_step
    num_train, num_val = len(dataset.train), len(dataset.test)
    if config.train.protocol is Protocol.holdout:
        num_val = round(num_train * config.train.holdout)
        num_train -= num_val
    looks = num_val + num_train * config.train.measure_train
    return config.train.epochs * (num_train * each_step + looks * each_look)


def _variant(config: dict[str, Any]) -> str:
    """Everything that decides how long a run takes, and a little more."""
    return json.dumps([settings(config), config["train"]["device"]])
