"""The loop: K's training in PyTorch, whole and in sight.

Binary cross-entropy, dense Adam with Keras's epsilon, shuffled batches with the short last one
kept, validation after every epoch.

Shapes: B batch, T tokens, n examples.
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

from attnexp import progress
from attnexp.config.schema import Optimizer, Precision, TrainConfig
from attnexp.data.encode import Encoded
from attnexp.errors import RunFailed
from attnexp.model.seams import Baseline
from attnexp.runs.result import EpochRow, Evaluation
from attnexp.training.device import autocast
from attnexp.training.metrics import measure

Logits = NDArray[np.float32]
"""(n,): a prediction for each review."""


@dataclass(frozen=True, slots=True)
class Examples:
    """A split on its device."""

    ids: Tensor  # (n, T) int32
    labels: Tensor  # (n,) float32, 0 or 1

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


class Tally:
    """Running mean of loss and accuracy while training, summed on the device.

    Asking for a number after every batch would make the host wait for the GPU.
    """

    def __init__(self, device: torch.device) -> None:
        self.n = 0
        self.loss_sum = torch.zeros((), dtype=torch.float64, device=device)
        self.num_right = torch.zeros((), dtype=torch.int64, device=device)

    def add(self, loss: Tensor, logits: Tensor, labels: Tensor) -> None:
        """loss: mean over the batch. logits, labels: (B,). Probability 0.5 counts as negative."""
        self.n += len(labels)
        self.loss_sum += loss.detach() * len(labels)
        self.num_right += ((logits > 0) == (labels > 0)).sum()

    def mean(self) -> tuple[float, float]:
        """Loss and accuracy over all examples added so far."""
        return self.loss_sum.item() / self.n, self.num_right.item() / self.n


def fit(
    model: nn.Module, train: Examples, val: Examples, config: TrainConfig, shuffle: torch.Generator
) -> Iterator[tuple[EpochRow, Logits]]:
    """Train; after every epoch yield its row and what the model, as it is then, says of `val`.

    shuffle: orders the examples; models given equal generators see the same batches. Raises
    `RunFailed` when the loss is no longer a number.
    """
    optimizer = make_optimizer(model, config)
    for epoch in range(1, config.epochs + 1):
        started = time.perf_counter()
        model.train()
        tally = Tally(train.device)
        batches = torch.randperm(len(train), generator=shuffle).to(train.device)
        for rows in progress.track(
            batches.split(config.batch_size),
            total=math.ceil(len(train) / config.batch_size),
            label=f"epoch {epoch}/{config.epochs}",
        ):
            batch = train[rows]
            with autocast(train.device, config.precision):
                logits = model(batch.ids).float()
            loss = F.binary_cross_entropy_with_logits(logits, batch.labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            tally.add(loss, logits, batch.labels)
        yield _measured(model, train, val, config, epoch, tally.mean(), started)


def fit_in_one_go(
    model: Baseline, train: Examples, val: Examples, config: TrainConfig
) -> Iterator[tuple[EpochRow, Logits]]:
    """As `fit`, in one epoch; for a running mean stands what the fitted model says of `train`."""
    started = time.perf_counter()
    model.fit(train.ids, train.labels)
    fitted = evaluate(model, train, config.precision, label="measuring on train")
    yield _measured(model, train, val, config, 1, (fitted.loss, fitted.accuracy), started)


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
    for name, value in (("training", running_loss), ("validation", validated.loss)):
        if not math.isfinite(value):
            raise RunFailed(
                f"The {name} loss is {value} in epoch {epoch}. A smaller train.lr "
                f"(now {config.lr:g}) usually helps."
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


def evaluate(
    model: nn.Module, examples: Examples, precision: Precision, *, label: str = "evaluating"
) -> Evaluation:
    """What the model is worth on all examples, dropout off."""
    return measure(predict(model, examples, precision, label=label), examples.truth)


def predict(
    model: nn.Module, examples: Examples, precision: Precision, *, label: str = "evaluating"
) -> Logits:
    """The logit of every example, dropout off."""
    # On CPU a larger batch is slower: its scores no longer fit the cache.
    size = 1024 if examples.device.type == "cuda" else 32
    model.eval()
    logits = torch.empty(len(examples), device=examples.device)
    begins = range(0, len(examples), size)
    with torch.inference_mode(), autocast(examples.device, precision):
        for begin in progress.track(begins, total=len(begins), label=label):
            rows = slice(begin, begin + size)
            logits[rows] = model(examples.ids[rows]).float()
    predicted: Logits = logits.cpu().numpy()
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

    num_steps = 0

    def step(self, closure: Any = None) -> Any:
        """As torch's."""
        self.num_steps += 1
        for group in self.param_groups:
            group["eps"] = self.defaults["eps"] / math.sqrt(1 - group["betas"][1] ** self.num_steps)
        return super().step(closure)
