"""How long a sweep will take, from runs that have finished or from a few timed steps."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import torch

from attnexp.config.schema import Protocol, RunConfig
from attnexp.model.classifier import build_model
from attnexp.model.fast import take_fast_path
from attnexp.runs.result import RunResult
from attnexp.training import device
from attnexp.training.evaluate import examples_of
from attnexp.training.inputs import read_inputs
from attnexp.training.loop import start
from attnexp.training.run import fit

NUM_TRIAL = 320
"""Reviews of a trial epoch: ten batches of K's size."""


def seconds(config: RunConfig, finished: Sequence[RunResult]) -> float | None:
    """Seconds of a run: what others of its variant took on such a device, or by a trial. None for
    TF-IDF, which cannot be tried in part."""
    device = str(config.train.device)
    took = [run.wall_seconds for run in finished if run.config["train"]["device"] == device]
    return fmean(took) if took else trial(config)


def trial(config: RunConfig) -> float | None:
    """Train on a few texts and scale up; the first epoch of two only warms up."""
    if not config.is_network:
        return None
    where = device.prepare(config.train)
    dataset = read_inputs(config).dataset
    few = examples_of(dataset.train, where)[:NUM_TRIAL]
    short = replace(config.train, epochs=2, measure_train=False)
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    model = build_model(config, len(dataset.classes)).to(where)
    if config.train.fast:
        take_fast_path(model)
    state = start(model, few, short, generator)
    *_, (row, _) = fit(state, few, few, short)
    each_step = 1 / row.examples_per_second
    each_look = row.seconds / len(few) - each_step
    num_train, num_val = len(dataset.train), len(dataset.test)
    if config.train.protocol is Protocol.holdout:
        num_val = round(num_train * config.train.holdout)
        num_train -= num_val
    looks = num_val + num_train * config.train.measure_train
    return config.train.epochs * (num_train * each_step + looks * each_look)
