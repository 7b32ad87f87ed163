"""The loop: what is shown is what happened, and it happens the same way every time."""

import math
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from samples import SMALL_RUN, examples, shuffle, without_clock
from torch import Tensor, nn
from torch.optim import lr_scheduler

from attnexp.base.errors import RunFailed
from attnexp.config.compose import compose
from attnexp.config.schema import Optimizer, Precision, Schedule, TrainConfig
from attnexp.model.classifier import build_model
from attnexp.model.init import named_seed
from attnexp.runs.result import EpochRow
from attnexp.training import run
from attnexp.training.evaluate import Logits, evaluate
from attnexp.training.loop import Examples, best_epoch, start
from attnexp.training.optimizer import make_optimizer, make_scheduler

Float = NDArray[np.float64]


def numbered(n: int) -> Examples:
    """Reviews of one token each, which is their number; the label alternates."""
    return Examples(
        torch.arange(n, dtype=torch.int32)[:, None], (torch.arange(n) % 2).to(torch.float32)
    )


def fit(
    model: nn.Module, data: Examples, val: Examples, config: TrainConfig, order: torch.Generator
) -> Iterator[tuple[EpochRow, Logits]]:
    """From the first step on."""
    return run.fit(start(model, data, config, order), data, val, config)


def train(*words: str, n: int = 37) -> list[EpochRow]:
    config = compose([*SMALL_RUN, *words])
    torch.manual_seed(named_seed(config.seed, "dropout"))
    model = build_model(config)
    data = examples(n), examples(19, seed=1)
    return [row for row, _ in fit(model, *data, config.train, shuffle(config.seed))]


class Stub(nn.Module):
    """Answers what it is told to, whatever it learns; keeps what it saw."""

    def __init__(self, answer: Callable[["Stub", Tensor], Tensor]) -> None:
        super().__init__()
        self.answer = answer
        self.weight = nn.Parameter(torch.zeros(()))
        self.batches: list[list[int]] = []  # in training

    def forward(self, ids: Tensor) -> Tensor:
        if self.training:
            self.batches.append(ids[:, 0].tolist())
        return self.answer(self, ids[:, 0]) + 0 * self.weight


def right(ids: Tensor) -> Tensor:
    """The logit that is right by 2 for `numbered` reviews."""
    return 4.0 * (ids % 2) - 2.0


def fit_stub(stub: Stub, data: Examples, **settings: Any) -> Iterator[EpochRow]:
    rows = fit(stub, data, data, TrainConfig(batch_size=4, **settings), shuffle())
    return (row for row, _ in rows)


def test_variants_that_share_a_seed_see_the_same_batches() -> None:
    """However many random numbers a variant draws for itself."""
    seen = []
    for words in (
        ["model.dropout=0.0"],
        ["model.dropout=0.9", "position=sinusoidal", "model.layers=3"],
    ):
        config = compose([*SMALL_RUN, *words])
        model, batches = build_model(config), list[Tensor]()

        def keep(module: nn.Module, given: tuple[Tensor], to: list[Tensor] = batches) -> None:
            if module.training:
                to.append(given[0])

        model.register_forward_pre_hook(keep)
        list(fit(model, examples(37), examples(5), config.train, shuffle(config.seed)))
        seen.append(batches)
    assert len(seen[0]) == 2 * math.ceil(37 / 8)
    assert all(torch.equal(one, other) for one, other in zip(*seen, strict=True))


def test_every_epoch_takes_each_review_once_in_a_new_order_with_a_short_last_batch() -> None:
    stub = Stub(lambda _, ids: right(ids))
    list(fit_stub(stub, numbered(10), epochs=3))
    assert [len(batch) for batch in stub.batches] == [4, 4, 2] * 3
    orders = [[*chain(*stub.batches[i : i + 3])] for i in (0, 3, 6)]
    assert all(sorted(order) == list(range(10)) for order in orders)
    assert len({tuple(order) for order in [*orders, list(range(10))]}) == 4


def test_running_accuracy_is_a_mean_over_the_epoch_and_after_is_measured_after() -> None:
    """C29. A model that gets the first two batches of four wrong and all else right."""
    wrong, good = math.log(1 + math.e**2), math.log(1 + math.e**-2)  # losses at logits of 2
    stub = Stub(
        lambda self, ids: right(ids) * (-1 if self.training and len(self.batches) <= 2 else 1)
    )
    first, second = fit_stub(stub, numbered(10), epochs=2, measure_train=True)
    assert first.train_accuracy == pytest.approx(2 / 10)  # not the mean of 0, 0 and 1
    assert first.train_loss == pytest.approx((8 * wrong + 2 * good) / 10)
    for row in (first, second):
        assert row.train_accuracy_after == row.val_accuracy == 1
        assert row.train_loss_after == pytest.approx(good)
        assert row.val_loss == pytest.approx(good)
    assert second.train_accuracy == 1
    assert second.train_loss == pytest.approx(good)


def test_validation_is_of_the_validation_set() -> None:
    stub = Stub(lambda _, ids: torch.ones(len(ids)))  # always "positive"
    data, val = numbered(10), Examples(torch.zeros(8, 1, dtype=torch.int32), torch.zeros(8))
    val.labels[0] = 1
    ((row, logits),) = fit(stub, data, val, TrainConfig(epochs=1, measure_train=True), shuffle())
    assert logits.tolist() == [1.0] * 8
    assert (row.val_accuracy, row.train_accuracy, row.train_accuracy_after) == (1 / 8, 1 / 2, 1 / 2)


@pytest.mark.parametrize("n", [1, 32, 33, 70])
def test_evaluate_is_the_mean_over_examples_whatever_the_batches(n: int) -> None:
    generator = torch.Generator().manual_seed(n)
    logits = torch.randn(n, generator=generator) * 3
    logits[n // 2] = 0.0  # probability 0.5 counts as negative
    labels = torch.randint(0, 2, (n,), generator=generator).float()
    data = Examples(torch.arange(n, dtype=torch.int32)[:, None], labels)
    found = evaluate(Stub(lambda _, ids: logits[ids]), data, Precision.fp32)

    z, y = logits.double().numpy(), labels.numpy()
    probability = 1 / (1 + np.exp(-z))
    losses = -(y * np.log(probability) + (1 - y) * np.log(1 - probability))
    assert found.n == n
    assert found.loss == pytest.approx(losses.mean(), rel=1e-6)
    assert found.accuracy == np.mean((probability > 0.5) == (y == 1))


def test_evaluate_switches_dropout_off_and_leaves_the_model_as_it_was() -> None:
    model = build_model(compose([*SMALL_RUN, "model.dropout=0.9"]))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    data = examples(40)
    model.train()
    assert evaluate(model, data, Precision.fp32) == evaluate(model, data, Precision.fp32)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("loss", [True, False])
def test_a_loss_that_is_not_finite_is_named_by_epoch_and_step(loss: bool) -> None:
    """A gradient that is not finite shows in the loss of the step after it."""

    def breaking(stub: Stub, rows: Tensor) -> Tensor:
        if not stub.training or 7 not in rows or len(stub.batches) <= 40:
            return right(rows)
        return right(rows) * math.inf if loss else right(rows) + torch.sqrt(0 * stub.weight)

    data, config = numbered(40), TrainConfig(batch_size=1, epochs=3, lr=0.25)
    rows = fit(Stub(breaking), data, data, config, shuffle())
    assert next(rows)[0].epoch == 1
    order = shuffle()
    torch.randperm(40, generator=order)
    step = torch.randperm(40, generator=order).tolist().index(7) + (1 if loss else 2)
    with pytest.raises(RunFailed) as message:
        next(rows)
    assert str(message.value) == (
        f"The loss is not finite in epoch 2, step {step}. Epoch 1 was the last good one. "
        f"A smaller train.lr (now 0.25) usually helps."
    )


@pytest.mark.parametrize(
    ("accuracies", "index"), [([0.5], 0), ([0.5, 0.75, 0.75], 1), ([0.75, 0.5, 0.75], 0)]
)
def test_the_best_epoch_is_the_earliest_of_equals(accuracies: list[float], index: int) -> None:
    assert best_epoch(accuracies) == index


def rates(num_steps: int, make: Callable[[torch.optim.Optimizer], Any]) -> list[float]:
    """Learning rate of every step, from 0.5."""
    optimizer, found = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.5), []
    scheduler = make(optimizer)
    for _ in range(num_steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return found


@pytest.mark.parametrize("warmup", [0, 5])
@pytest.mark.parametrize(
    ("schedule", "decay"),
    [
        ("constant", lambda optimizer: lr_scheduler.ConstantLR(optimizer, 1.0)),
        ("linear", lambda optimizer: lr_scheduler.LinearLR(optimizer, 1.0, 0.0, 20)),
        ("cosine", lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, 20)),
    ],
)
def test_schedules_are_those_of_torch(
    schedule: str, decay: Callable[[torch.optim.Optimizer], Any], warmup: int
) -> None:
    """A warm-up, then a decay over the 20 steps that are left."""
    config = TrainConfig(lr=0.5, warmup=warmup, schedule=Schedule(schedule))
    found = rates(warmup + 20, lambda optimizer: make_scheduler(optimizer, config, warmup + 20))
    rise = rates(warmup, lambda optimizer: lr_scheduler.LinearLR(optimizer, 1 / 5, 1.0, 4))
    assert found == pytest.approx([*rise, *rates(20, decay)])


def test_training_with_schedule_decay_and_clipping_is_torch_written_out() -> None:
    data, config = examples(12), TrainConfig(
        batch_size=4, epochs=2, lr=0.1, optimizer=Optimizer.adamw, weight_decay=0.2,
        warmup=2, schedule=Schedule.linear, clip=0.05,
    )  # fmt: skip
    ends = []
    for ours in (True, False):
        torch.manual_seed(0)
        model = BagOfWords(20)
        if ours:
            list(fit(model, data, data, config, shuffle()))
        else:
            optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.2, eps=1e-7)
            order = shuffle()
            epochs = [torch.randperm(12, generator=order).split(4) for _ in range(2)]
            shares = [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
            for share, rows in zip(shares, chain(*epochs), strict=True):
                optimizer.param_groups[0]["lr"] = 0.1 * share
                optimizer.zero_grad()
                logits = model(data.ids[rows])
                nn.functional.binary_cross_entropy_with_logits(logits, data.labels[rows]).backward()
                assert nn.utils.clip_grad_norm_(model.parameters(), 0.05) > 0.05
                optimizer.step()
        ends.append(model.score.weight.detach())
    torch.testing.assert_close(*ends)


def test_a_last_step_that_breaks_the_weights_fails_the_run_too() -> None:
    """The running loss was measured before that step; the validation loss is no number."""
    stub = Stub(lambda self, ids: right(ids) * (1 if self.training else math.nan))
    with pytest.raises(RunFailed, match="epoch 1"):
        list(fit_stub(stub, numbered(10), epochs=1))


def test_bf16_computes_in_bf16_and_stays_near_fp32() -> None:
    """Losses within 0.01 after two epochs, and the same every time."""
    full, half = train(), train("train.precision=bf16")
    assert without_clock(train("train.precision=bf16")) == without_clock(half)
    for one, other in zip(full, half, strict=True):
        assert other.train_loss != one.train_loss
        assert other.train_loss == pytest.approx(one.train_loss, abs=0.01)
        assert other.val_loss == pytest.approx(one.val_loss, abs=0.01)


def test_a_model_trained_in_bf16_keeps_its_weights_in_fp32() -> None:
    config = compose([*SMALL_RUN, "train.precision=bf16"])
    model, dtypes = build_model(config), set[torch.dtype]()
    model.layers[0].register_forward_hook(lambda *given: dtypes.add(given[-1].dtype))
    list(fit(model, examples(8), examples(8), config.train, shuffle()))
    assert dtypes == {torch.bfloat16}
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


class KerasAdam:
    """Adam as Keras writes it: epsilon joins before the bias correction; every row moves."""

    def __init__(self, *, lr: float, eps: float = 1e-7) -> None:
        self.lr, self.eps, self.t = lr, eps, 0
        self.m: Float | float = 0.0
        self.v: Float | float = 0.0

    def step(self, value: Float, gradient: Float) -> Float:
        self.t += 1
        self.m = 0.9 * self.m + 0.1 * gradient
        self.v = 0.999 * self.v + 0.001 * gradient**2
        alpha = self.lr * math.sqrt(1 - 0.999**self.t) / (1 - 0.9**self.t)
        moved: Float = value - alpha * self.m / (np.sqrt(self.v) + self.eps)
        return moved


class BagOfWords(nn.Module):
    """The logit is the sum of one number a word: a gradient that numpy can write down."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.score = nn.Embedding(vocab_size, 1)

    def forward(self, ids: Tensor) -> Tensor:
        total: Tensor = self.score(ids).sum(dim=(1, 2))
        return total


def test_training_is_kerass_adam_written_in_numpy() -> None:
    """Two epochs of three batches, the last one short; within a thousandth of one step."""
    data, config = examples(10), TrainConfig(batch_size=4, epochs=2, lr=0.02)
    torch.manual_seed(0)
    model = BagOfWords(20)
    value: Float = model.score.weight.detach().double().numpy()[:, 0].copy()
    start, adam, order = value, KerasAdam(lr=config.lr), shuffle()
    for _ in range(config.epochs):
        for rows in torch.randperm(10, generator=order).split(4):
            ids, labels = data.ids[rows].numpy(), data.labels[rows].double().numpy()
            counts = np.stack([np.bincount(row, minlength=20) for row in ids])
            probability = 1 / (1 + np.exp(-counts @ value))
            value = adam.step(value, (probability - labels) @ counts / len(rows))
    list(fit(model, data, data, config, shuffle()))
    trained = model.score.weight.detach().numpy()[:, 0]
    np.testing.assert_allclose(trained, value, rtol=0, atol=1e-3 * config.lr)
    assert np.abs(value - start).max() > 3 * config.lr


@pytest.mark.parametrize("eps", [1e-7, 1e-8])
def test_adam_is_kerass_where_gradients_are_as_small_as_those_of_fresh_queries(eps: float) -> None:
    """At 1e-8, what W_Q and W_K get at first, epsilon decides the length of a step."""
    value = nn.Parameter(torch.zeros(5))
    model = nn.Module()
    model.register_parameter("value", value)
    optimizer, adam, expected = (
        make_optimizer(model, TrainConfig(lr=1.0, eps=eps)),
        KerasAdam(lr=1.0, eps=eps),
        np.zeros(5),
    )
    generator = torch.Generator().manual_seed(0)
    for _ in range(10):
        value.grad = 1e-8 * torch.randn(5, generator=generator)
        optimizer.step()
        expected = adam.step(expected, value.grad.double().numpy())
    np.testing.assert_allclose(value.detach().numpy(), expected, rtol=1e-3, atol=0)


@pytest.mark.parametrize("eps", [1e-7, 1e-8])
def test_adamw_puts_epsilon_beside_the_corrected_moment(eps: float) -> None:
    """Adam's first step, from 0, is lr g / (|g| + eps)."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    optimizer = make_optimizer(model, TrainConfig(optimizer=Optimizer.adamw, lr=1.0, eps=eps))
    model.weight.grad = torch.full_like(model.weight, 1e-8)
    optimizer.step()
    assert model.weight.item() == pytest.approx(-1e-8 / (1e-8 + eps), rel=1e-3)
