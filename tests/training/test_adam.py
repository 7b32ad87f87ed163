"""Adam of touched rows: every weight moves as by dense Adam, and nothing reads a row that lags."""

from typing import Any

import pytest
import torch
from small import WORDS, examples, shuffle
from torch import Tensor

from attnexp.config.compose import compose
from attnexp.model.mixers import WordEmbedding
from attnexp.network.build import build_model
from attnexp.network.fast import take_fast_path
from attnexp.training import adam, loop
from attnexp.training.adam import KerasAdam, SparseAdam, epoch_of
from attnexp.training.optimizer import make_optimizer
from attnexp.training.state import State

OPTIONS: dict[str, Any] = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-7, "fused": True}


def batches(num_steps: int) -> list[tuple[Tensor, Tensor, float]]:
    """Different words of 50, gradients of all sizes, and a rate, of each step. A word is in the
    first batch and in no other, and one is in none."""
    generator = torch.Generator().manual_seed(0)
    drawn = []
    for step in range(num_steps):
        chosen = 1 + torch.randperm(49, generator=generator)[: 1 + step % 7]
        words = torch.cat([torch.zeros(1, dtype=torch.int64), chosen - 1]).unique()
        words = words[words > 0] if step else words
        size = 10.0 ** torch.randint(-8, 0, (len(words), 1), generator=generator)
        gradient = size * torch.randn(len(words), 3, generator=generator)
        drawn.append((words, gradient, 1e-3 * (1 + step % 5)))
    return drawn


def test_rows_move_as_by_dense_adam(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights, moments and steps, through three epochs, some of more steps than rows may lag."""
    monkeypatch.setattr(adam, "MOST_STEPS", 64)
    tables = [WordEmbedding(50, 3) for _ in range(2)]
    tables[1].load_state_dict(tables[0].state_dict())
    dense = KerasAdam(tables[0].parameters(), **OPTIONS)
    sparse = SparseAdam(tables[1], tables[1], **OPTIONS)
    start = tables[0].weight.detach().clone()
    for num_steps in (10, 200, 63):
        with epoch_of(sparse):
            for words, gradient, rate in batches(num_steps):
                for table, optimizer in zip(tables, (dense, sparse), strict=True):
                    optimizer.param_groups[0]["lr"] = rate
                    optimizer.zero_grad()
                    (table(words) * gradient).sum().backward()
                    optimizer.step()
        torch.testing.assert_close(tables[1].weight, tables[0].weight, rtol=1e-5, atol=1e-6)
        expected = dense.state[tables[0].weight]
        found = sparse.state[tables[1].weight]
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-30)
    assert torch.equal(tables[1].weight[-1], start[-1])
    assert not torch.isclose(tables[1].weight[:-1], start[:-1]).any()


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
def test_training_on_the_fast_path_is_training_by_the_reference(words: str, path: str) -> None:
    model, losses, taken = trained(*words.split())
    reference, expected, _ = trained(*words.split(), "train.fast=false")
    assert taken == path
    assert losses == pytest.approx(expected, abs=2e-6)
    for name, weight in reference.named_parameters():
        torch.testing.assert_close(model.get_parameter(name), weight, rtol=1e-4, atol=2e-6)
