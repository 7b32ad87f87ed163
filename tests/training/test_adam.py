"""Adam of touched rows: every weight moves as by dense Adam, and nothing reads a row that lags."""

from typing import Any

import pytest
import torch
from conftest import Patch
from small import WORDS, examples, shuffle

from attnexp.config.compose import compose
from attnexp.network.build import build_model
from attnexp.network.fast import take_fast_path
from attnexp.training import adam, loop
from attnexp.training.optimizer import make_optimizer
from attnexp.training.state import State


def trained(*words: str) -> tuple[Any, list[float], str]:
    """Model, losses of three epochs, and name of the path with that of the optimizer."""
    config = compose([*WORDS, "train.epochs=3", "model.dropout=0.3", *words])
    model = build_model(config)
    path = take_fast_path(model) if config.train.fast else "reference"
    torch.manual_seed(0)
    optimizer = make_optimizer(model, config.train)
    state = State(model=model, optimizer=optimizer, shuffle=shuffle())
    losses = []
    data = examples(61)
    data.ids[::3, :2] = 0
    for _ in range(3):
        loop.train_epoch(state, data, config.train)
        row, _ = loop.measure_epoch(model, data, data, config.train, state.epoch, state.running)
        losses += [row.train_loss, row.val_loss]
    return model, losses, f"{path} {type(optimizer).__name__}"


@pytest.mark.parametrize(
    ("words", "path"),
    [
        ("", "words SparseAdam"),
        ("position=sinusoidal", "words SparseAdam"),
        ("position=learned train.lr=0.01", "words SparseAdam"),
        ("mask=padding", "words SparseAdam"),
        ("mask=causal position=learned", "words SparseAdam"),
        ("model.pooling=masked_mean mask=padding_causal", "words SparseAdam"),
        ("model.pooling=last model.scale_embedding=true", "words SparseAdam"),
        ("train.warmup=5 train.schedule=cosine train.clip=0.01", "words SparseAdam"),
        ("model.freeze=true", "words KerasAdam"),
        ("train.optimizer=adamw", "words AdamW"),
        ("position=rotary", "pooled KerasAdam"),
        ("position=relative model.layers=2", "pooled KerasAdam"),
    ],
)
def test_training_on_the_fast_path_is_training_by_the_reference(
    words: str, path: str, monkeypatch: Patch
) -> None:
    """Rows may lag for five of an epoch's eight steps."""
    monkeypatch.setattr(adam, "MOST_STEPS", 5)
    model, losses, taken = trained(*words.split())
    reference, expected, _ = trained(*words.split(), "train.fast=false")
    assert taken == path
    assert losses == pytest.approx(expected, abs=2e-6)
    for name, weight in reference.named_parameters():
        torch.testing.assert_close(model.get_parameter(name), weight, rtol=1e-4, atol=2e-6)
