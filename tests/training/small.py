"""Small configs, texts and results that the tests of training share."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from attnexp.config.compose import compose
from attnexp.config.schema import RunConfig, TrainConfig
from attnexp.model.init import named_seed
from attnexp.runs.result import EpochRow
from attnexp.training import loop
from attnexp.training.adam import make_optimizer
from attnexp.training.state import State

SHORT = """experiment=smoke train.threads=1 train.epochs=3 model.d_model=8 model.d_head=4
data.limit_train=64 data.limit_test=64""".split()


def config_in(folder: Path, *words: str) -> RunConfig:
    """Config of a run on 64 generated texts that takes a tenth of a second."""
    return compose([*SHORT, f"out={folder}", *words])


def examples(n: int, *, seed: int = 0) -> loop.Examples:
    """Random texts of 6 tokens, whose label a bag of words can tell."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, 20, (n, 6), generator=generator, dtype=torch.int32)
    return loop.Examples(ids, (ids.float().mean(1) > 11).float())


def shuffle(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(named_seed(seed, "order"))


def fit(model: nn.Module, data: loop.Examples, config: TrainConfig) -> Iterator[EpochRow]:
    """Train from the first step on, without a folder; the same texts validate."""
    state = State(model=model, optimizer=make_optimizer(model, config), shuffle=shuffle())
    while state.epoch.number < config.epochs:
        loop.train_epoch(state, data, config)
        yield loop.measure_epoch(model, state.epoch, data, data, config)[0]


def without_clock(rows: list[EpochRow]) -> list[EpochRow]:
    return [replace(row, seconds=0, examples_per_second=0) for row in rows]
