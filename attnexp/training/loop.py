"""The loop: K's training in PyTorch, whole and in sight.

Cross-entropy, dense Adam with Keras's epsilon, shuffled batches with the short last one
kept, validation after every epoch.

Shapes: B batch, T tokens, n examples, C classes. Logits of two classes are (n,), of more (n, C).
"""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from attnexp.base import progress
from attnexp.base.errors import RunFailed
from attnexp.config.schema import Optimizer, Precision, TrainConfig
from attnexp.data.encode import Encoded
from attnexp.model.seams import Baseline
from attnexp.runs.result import EpochRow, Evaluation
from attnexp.training import interrupt
from attnexp.training.device import autocast
from attnexp.training.metrics import measure
from attnexp.training.state import State

Logits = NDArray[np.float32]
"""(n,) or (n, C): a prediction for each review."""

CHECK_EVERY = 100
"""Steps between two looks for what is not finite. One takes a millisecond."""

NUM_NAMED = 32
"""Rows of a batch that a message names."""


@dataclass(frozen=True, slots=True)
class Examples:
    """A split on its device."""

    ids: Tensor  # (n, T) int32
    labels: Tensor  # (n,) float32, 0 to C - 1

    @classmethod
    def of(cls, encoded: Encoded, device: torch.device) -> "Examples":
        """A whole split at once: 25,000 reviews of 80 ids are 8 MB."""
        ids, labels = torch.from_numpy(encoded.ids), torch.from_numpy(encoded.labels)
        return cls(ids.to(device), labels.to(device, torch.float32))

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: Tensor | slice) -> "Examples":
        return Examples(self.ids[rows], self.labels[rows])

    @property
    def device(self) -> torch.device:
        """Where both tensors are."""
        return self.ids.device

    @property
    def truth(self) -> NDArray[np.float32]:
        """The labels on the host: (n,)."""
        labels: NDArray[np.float32] = self.labels.cpu().numpy()
        return labels


def start(
    model: nn.Module, train: Examples, config: TrainConfig, shuffle: torch.Generator
) -> State:
    """Training before its first step.

    shuffle: orders the examples; models given equal generators see the same batches.
    """
    return State.start(
        model,
        make_optimizer(model, config),
        shuffle,
        num_examples=len(train),
        device=train.device,
    )


def fit(
    state: State, train: Examples, val: Examples, config: TrainConfig
) -> Iterator[tuple[EpochRow, Logits]]:
    """Train on from `state`; after every epoch yield its row and what the model, as it is then,
    says of `val`. The state is then that before the next epoch.

    Raises `RunFailed` when the loss, a gradient or a weight is no longer a number, and
    `interrupt.Stopped`, with the state as the last step left it.
    """
    while state.epoch <= config.epochs:
        tensors = {name: tensor.clone() for name, tensor in state.tensors().items()}
        numbers = state.numbers()
        try:
            found = _epoch(state, train, val, config, check_every=CHECK_EVERY)
        except FloatingPointError:  # some steps ago: do them again, and look after each
            state.restore(tensors, numbers)
            found = _epoch(state, train, val, config, check_every=1)
        state.next_epoch()
        yield found


def fit_in_one_go(
    model: Baseline, train: Examples, val: Examples, config: TrainConfig
) -> Iterator[tuple[EpochRow, Logits]]:
    """As `fit`, in one epoch; for a running mean stands what the fitted model says of `train`."""
    started = time.perf_counter()
    model.fit(train.ids, train.labels)
    fitted = evaluate(model, train, config.precision, label="measuring on train")
    yield _measured(model, train, val, config, 1, (fitted.loss, fitted.accuracy), started)


def _epoch(
    state: State, train: Examples, val: Examples, config: TrainConfig, *, check_every: int
) -> tuple[EpochRow, Logits]:
    """The rest of the epoch that is under way."""
    model, tally = state.model, state.tally
    model.train()
    batches = state.order.split(config.batch_size)
    begun = time.perf_counter() - tally.seconds
    for rows in progress.track(
        batches[tally.num_steps :],
        total=len(batches),
        completed=tally.num_steps,
        label=f"epoch {state.epoch}/{config.epochs}",
    ):
        interrupt.check()
        batch = train[rows]
        with autocast(train.device, config.precision):
            logits = model(batch.ids).float()
        loss = loss_of(logits, batch.labels)
        state.optimizer.zero_grad()
        loss.backward()
        tally.add(loss, logits, batch.labels)
        if tally.num_steps % check_every == 0 or tally.num_steps == len(batches):
            _check_finite(state, config, rows, exact=check_every == 1)
        state.optimizer.step()
        tally.seconds = time.perf_counter() - begun
    return _measured(model, train, val, config, state.epoch, tally.mean(), begun)


def loss_of(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy in nats, of the sigmoid of logits (B,) or the softmax of (B, C)."""
    if logits.ndim == 1:
        return F.binary_cross_entropy_with_logits(logits, labels)
    return F.cross_entropy(logits, labels.long())


def _measured(
    model: nn.Module,
    train: Examples,
    val: Examples,
    config: TrainConfig,
    epoch: int,
    running: tuple[float, float],
    started: float,
) -> tuple[EpochRow, Logits]:
    """What an epoch has brought. running: loss and accuracy. started: when it did, in seconds."""
    train_seconds = time.perf_counter() - started
    running_loss, running_accuracy = running
    val_logits = predict(model, val, config.precision)
    validated = measure(val_logits, val.truth)
    seconds = time.perf_counter() - started
    if not math.isfinite(validated.loss):
        raise RunFailed(
            f"The validation loss is {validated.loss} after epoch {epoch}. {_remedy(config)}"
        )
    after = None
    if config.measure_train:
        after = evaluate(model, train, config.precision, label="measuring on train")
    row = EpochRow(
        epoch=epoch,
        train_loss=running_loss,
        train_accuracy=running_accuracy,
        train_loss_after=after.loss if after else None,
        train_accuracy_after=after.accuracy if after else None,
        val_loss=validated.loss,
        val_accuracy=validated.accuracy,
        val_brier=validated.brier,
        val_ece=validated.ece,
        seconds=seconds,
        examples_per_second=len(train) / train_seconds,
    )
    return row, val_logits


def _check_finite(state: State, config: TrainConfig, rows: Tensor, *, exact: bool) -> None:
    """Raise `FloatingPointError` where a NaN or an infinity has come up, which stays in the sum of
    losses, and through Adam's moments in the weights; if `exact`, `RunFailed`, for this step.
    """
    broken = _not_finite(state)
    if broken is None:
        return
    if not exact:
        raise FloatingPointError(broken)
    reviews = ", ".join(map(str, rows.tolist()[:NUM_NAMED]))
    more = f" and {len(rows) - NUM_NAMED} more" if len(rows) > NUM_NAMED else ""
    good = f"Epoch {state.epoch - 1} was the last good one." if state.epoch > 1 else ""
    raise RunFailed(
        f"{broken} is not finite in epoch {state.epoch}, step {state.tally.num_steps} (rows "
        f"{reviews}{more} of train). {good} {_remedy(config)}".replace("  ", " ")
    )


def _not_finite(state: State) -> str | None:
    """The first of loss, weights and gradients that holds a NaN or an infinity."""
    if not math.isfinite(state.tally.loss_sum.item()):
        return "The loss"
    for name, weight in state.model.named_parameters():
        for kind, tensor in (("weight", weight.detach()), ("gradient of", weight.grad)):
            # The sum is quick, but may overflow by itself.
            if tensor is not None and not tensor.sum().isfinite() and not tensor.isfinite().all():
                return f"The {kind} {name}"
    return None


def _remedy(config: TrainConfig) -> str:
    return f"A smaller train.lr (now {config.lr:g}) usually helps."


def evaluate(
    model: nn.Module, examples: Examples, precision: Precision, *, label: str = "evaluating"
) -> Evaluation:
    """What the model is worth on all examples, dropout off."""
    return measure(predict(model, examples, precision, label=label), examples.truth)


def predict(
    model: nn.Module, examples: Examples, precision: Precision, *, label: str = "evaluating"
) -> Logits:
    """The logits of every example, dropout off."""
    # On CPU a larger batch is slower: its scores no longer fit the cache.
    size = 1024 if examples.device.type == "cuda" else 32
    model.eval()
    logits = list[Tensor]()
    begins = range(0, len(examples), size)
    with torch.inference_mode(), autocast(examples.device, precision):
        for begin in progress.track(begins, total=len(begins), label=label):
            interrupt.check()
            logits.append(model(examples.ids[begin : begin + size]).float())
        predicted: Logits = torch.cat(logits).cpu().numpy()
    return predicted


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """Adam with Keras's decay rates; every step updates every row of the embedding."""
    match config.optimizer:
        case Optimizer.adam:
            kind: type[torch.optim.Adam] = KerasAdam
        case Optimizer.adamw:
            kind = torch.optim.AdamW
    return kind(model.parameters(), lr=config.lr, betas=(0.9, 0.999), eps=config.eps, fused=True)


class KerasAdam(torch.optim.Adam):
    """Adam with epsilon where Keras puts it: beside the second moment before its correction.

    torch computes m' / (sqrt(v / c) + eps) and Keras m' / ((sqrt(v) + eps) / sqrt(c)), with
    c = 1 - beta2^t. Early in training the first queries' and rare words' gradients are so small
    (1e-8) that epsilon decides the length of their steps. Dividing epsilon by sqrt(c) makes the
    two one.
    """

    def step(self, closure: Any = None) -> Any:
        """As torch's."""
        for group in self.param_groups:
            group["num_steps"] = group.get("num_steps", 0) + 1
            correction = 1 - group["betas"][1] ** group["num_steps"]
            group["eps"] = self.defaults["eps"] / math.sqrt(correction)
        return super().step(closure)
