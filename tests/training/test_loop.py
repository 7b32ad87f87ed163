"""The loop and its optimizers: what is shown is what happened, the same way every time."""

import math
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Patch
from samples import NARROW, SMALL_MODEL
from small import examples, fit, shuffle
from torch import Tensor, nn

from attnexp.base.errors import RunFailed
from attnexp.config.compose import compose
from attnexp.config.schema import Optimizer, Schedule, TrainConfig
from attnexp.network.build import build_model
from attnexp.network.fast import take_fast_path
from attnexp.runs.result import EpochRow
from attnexp.training import loop, touched_rows
from attnexp.training.adam import make_optimizer


class Stub(nn.Module):
    """Answers what it is told to, whatever it learns; counts its steps of training."""

    def __init__(self, answer: Callable[["Stub", Tensor], Tensor]) -> None:
        super().__init__()
        self.answer = answer
        self.weight = nn.Parameter(torch.zeros(()))
        self.num_steps = 0

    def forward(self, ids: Tensor) -> Tensor:
        self.num_steps += self.training
        return self.answer(self, ids[:, 0]) + 0 * self.weight


def right(ids: Tensor) -> Tensor:
    """The logit that is right by 2 for the texts of `fit_stub`."""
    return 4.0 * (ids % 2) - 2.0


def fit_stub(answer: Callable[[Stub, Tensor], Tensor], **settings: Any) -> list[EpochRow]:
    """Train on ten texts of one token each, which is their number; the label alternates."""
    ids = torch.arange(10, dtype=torch.int32)
    data = loop.Examples(ids[:, None], (ids % 2).float())
    return [*fit(Stub(answer), data, TrainConfig(**settings))]


def test_running_accuracy_is_a_mean_over_the_epoch_and_after_is_measured_after() -> None:
    """C29. A model that gets the first two batches of four wrong and all else right."""

    def answer(stub: Stub, ids: Tensor) -> Tensor:
        is_wrong = stub.training and stub.num_steps < 3
        return -right(ids) if is_wrong else right(ids)

    first, second = fit_stub(answer, epochs=2, batch_size=4, measure_train=True)
    right_loss = math.log(1 + math.exp(-2))
    assert first.train_accuracy == pytest.approx(2 / 10)  # not the mean of 0, 0 and 1
    assert first.train_loss == pytest.approx(right_loss + 2 * 8 / 10)
    assert second.train_accuracy == 1
    for row in (first, second):
        assert row.train_accuracy_after == row.val_accuracy == 1
        assert row.train_loss_after == pytest.approx(right_loss)


@pytest.mark.parametrize("late", [0, 1])
def test_a_loss_that_is_not_finite_is_named_by_epoch_and_step(late: int) -> None:
    """A gradient that is not finite shows in the loss of the step after it."""

    def answer(stub: Stub, ids: Tensor) -> Tensor:
        if not stub.training or stub.num_steps < 13:
            return right(ids)
        return right(ids) + torch.sqrt(0 * stub.weight) if late else right(ids) * math.inf

    with pytest.raises(RunFailed, match=rf"epoch 2, by step {3 + late}\. A smaller .* \(now 0.2"):
        fit_stub(answer, epochs=3, batch_size=1, lr=0.25)


def test_a_last_step_that_breaks_the_weights_fails_the_run_too() -> None:
    """The running loss was measured before that step; the validation loss is no number."""
    with pytest.raises(RunFailed, match="epoch 1"):
        fit_stub(lambda stub, ids: right(ids) * (1 if stub.training else math.nan), epochs=1)


@pytest.mark.parametrize(
    ("schedule", "shares"),
    [
        ("constant", [1.0] * 4),
        ("linear", [1.0, 0.75, 0.5, 0.25]),
        ("cosine", [(1 + math.cos(math.pi * step / 4)) / 2 for step in range(4)]),
    ],
)
def test_training_is_torch_written_out(schedule: str, shares: list[float]) -> None:
    """With decay, clipping, a rate that rises for two steps and follows its schedule, every text
    once an epoch in a new order, and a short last batch."""
    data = examples(11)
    config = TrainConfig(
        batch_size=4, epochs=2, lr=0.1, optimizer=Optimizer.adamw, weight_decay=0.2,
        warmup=2, schedule=Schedule(schedule), clip=0.05,
    )  # fmt: skip
    torch.manual_seed(0)
    ours = nn.Sequential(nn.EmbeddingBag(20, 1, mode="sum"), nn.Flatten(0))
    theirs = deepcopy(ours)
    list(fit(ours, data, config))
    optimizer = torch.optim.AdamW(theirs.parameters(), lr=0.1, weight_decay=0.2, eps=1e-7)
    order = shuffle()
    batches = [rows for _ in range(2) for rows in torch.randperm(11, generator=order).split(4)]
    for share, rows in zip([0.5, 1.0, *shares], batches, strict=True):
        optimizer.param_groups[0]["lr"] = 0.1 * share
        optimizer.zero_grad()
        logits = theirs(data.ids[rows])
        nn.functional.binary_cross_entropy_with_logits(logits, data.labels[rows]).backward()
        assert nn.utils.clip_grad_norm_(theirs.parameters(), 0.05) > 0.05
        optimizer.step()
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())


@pytest.mark.parametrize("scale", [1e-8, 1.0])
@pytest.mark.parametrize("eps", [1e-7, 1e-8])
def test_adam_is_kerass_written_in_numpy(eps: float, scale: float) -> None:
    """Epsilon joins before the bias correction, and every row moves: at 1e-8 epsilon decides."""
    weight = nn.Parameter(torch.zeros(5))
    optimizer = make_optimizer(nn.ParameterList([weight]), TrainConfig(lr=1.0, eps=eps))
    m = v = expected = np.zeros(5)
    gradients = np.random.default_rng(0).normal(0, scale, (10, 5))
    for t, gradient in enumerate(gradients, start=1):
        weight.grad = torch.tensor(gradient).float()
        optimizer.step()
        m = 0.9 * m + 0.1 * gradient
        v = 0.999 * v + 0.001 * gradient**2
        alpha = math.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        expected = expected - alpha * m / (np.sqrt(v) + eps)
    np.testing.assert_allclose(weight.detach(), expected, rtol=1e-3, atol=0)


def test_a_row_whose_gradients_were_tiny_moves_on() -> None:
    """Its second moment is below 1e-12, and Adam moves it without a gradient, too."""
    weight = torch.zeros(2, 1)
    m = torch.tensor([[1e-8], [0.0]])
    rows = touched_rows.TouchedRows(touched_rows.Rows(weight, m, m**2), (0.9, 0.999), 1e-7)
    rows.read(torch.tensor([1])).grad = torch.zeros(1, 1)
    rows.update(1, 1.0)
    rows.catch_up()
    assert weight[0] < -0.01


@pytest.mark.parametrize(
    ("words", "path"),
    [
        ("", "words SparseAdam"),
        ("position=learned train.lr=0.01", "words SparseAdam"),
        ("model.pooling=masked_mean mask=padding_causal", "words SparseAdam"),
        ("model.pooling=last model.scale_embedding=true", "words SparseAdam"),
        ("train.warmup=5 train.schedule=cosine train.clip=0.01", "words SparseAdam"),
        ("model.freeze=true", "words KerasAdam"),
        ("train.optimizer=adamw", "words EagerAdam"),
        ("position=rotary", "pooled KerasAdam"),
        ("position=relative model.layers=2", "pooled KerasAdam"),
        ("model.attention_dropout=0.3", "pooled KerasAdam"),
        # Adam divides by the size of a gradient, so the rounding of one near 0 would show.
        (
            "model.layer_dropout=0.3 model.layers=2 model.pooling=max train.eps=1e-5",
            "fused KerasAdam",
        ),
    ],
)
def test_the_fast_path_trains_like_the_reference(words: str, path: str, monkeypatch: Patch) -> None:
    """Rows may lag for five of an epoch's eight steps."""
    monkeypatch.setattr(touched_rows, "MOST_STEPS", 5)
    usual = ["train.batch_size=8", "train.epochs=3", "model.dropout=0.3"]
    config = compose([*SMALL_MODEL, *NARROW, *usual, *words.split()])
    reference = build_model(config)
    fast = build_model(config)
    taken = take_fast_path(fast)
    assert f"{taken} {type(make_optimizer(fast, config.train)).__name__}" == path
    data = examples(61)
    data.ids[::3, :2] = 0
    losses = []
    for model in (reference, fast):
        torch.manual_seed(0)
        losses.append([(row.train_loss, row.val_loss) for row in fit(model, data, config.train)])
    np.testing.assert_allclose(losses[1], losses[0], rtol=0, atol=2e-6)
    torch.testing.assert_close(fast.state_dict(), reference.state_dict(), rtol=1e-4, atol=2e-6)
