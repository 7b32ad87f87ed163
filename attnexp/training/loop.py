"""The training loop: K's training in PyTorch, whole and in sight.

Cross-entropy, dense Adam with Keras's epsilon, shuffled batches with the short last one kept.

Shapes: B batch, T tokens, n examples, C classes. Logits of two classes are (n,), of more (n, C).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from numpy import float32
from numpy.typing import NDArray
from torch import Tensor, nn

from attnexp.base.errors import RunFailed, UserError
from attnexp.config.schema import Precision, Protocol, RunConfig, TrainConfig
from attnexp.model.classifier import build_model
from attnexp.model.init import named_seed
from attnexp.training.metrics import most_probable
from attnexp.training.optimizer import make_optimizer, make_scheduler
from attnexp.training.state import State

CHECK_EVERY = 100
"""Number of steps between two checks of the loss on a GPU, where a check makes the host wait."""


class NotFinite(RunFailed):
    """The loss is a NaN or an infinity, since one of the last `check_every` steps."""

    def __init__(self, epoch: int, step: int, check_every: int, ids: Tensor) -> None:
        """ids: (B, T), the batch of the last step."""
        first = max(step - check_every + 1, 1)
        steps = f"step {step}" if first == step else f"steps {first} to {step}"
        super().__init__(f"The loss is not finite in epoch {epoch}, {steps}.")
        self.ids = ids


@dataclass(frozen=True, slots=True)
class Examples:
    """A split on its device."""

    ids: Tensor  # (n, T) int32
    labels: Tensor  # (n,) float32, 0 to C - 1

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: Tensor | slice) -> "Examples":
        return Examples(self.ids[rows], self.labels[rows])

    @property
    def device(self) -> torch.device:
        """Device of both tensors."""
        return self.ids.device

    @property
    def truth(self) -> NDArray[float32]:
        """Labels on the host: (n,)."""
        labels: NDArray[float32] = self.labels.cpu().numpy()
        return labels


@dataclass(kw_only=True, slots=True)
class Tally:
    """Running mean of loss and accuracy over an epoch, summed on the device."""

    num_steps: int = 0
    num_examples: int = 0
    loss_sum: Tensor | float = 0.0
    num_right: Tensor | int = 0

    def add(self, loss: Tensor, logits: Tensor, labels: Tensor) -> None:
        """Add a batch. loss: its mean. logits: (B,) or (B, C). labels: (B,)."""
        self.num_steps += 1
        self.num_examples += len(labels)
        exact = torch.float32 if loss.device.type == "mps" else torch.float64  # mps has no float64
        self.loss_sum = self.loss_sum + (loss.detach() * len(labels)).to(exact)
        self.num_right = self.num_right + (most_probable(logits) == labels).sum()

    def mean(self) -> tuple[float, float]:
        """Loss and accuracy over all examples added so far."""
        return float(self.loss_sum) / self.num_examples, int(self.num_right) / self.num_examples


def build(config: RunConfig, num_classes: int) -> nn.Module:
    """The model before training. Dropout goes on with torch's global stream from here."""
    torch.manual_seed(named_seed(config.seed_of("order"), "dropout"))
    return build_model(config, num_classes)


def shuffle_of(config: RunConfig) -> torch.Generator:
    """Generator of the order of examples: models with equal ones see the same batches."""
    return torch.Generator().manual_seed(named_seed(config.seed_of("order"), "order"))


def start(
    model: nn.Module, train: Examples, config: TrainConfig, shuffle: torch.Generator
) -> State:
    """Training before its first step."""
    optimizer = make_optimizer(model, config)
    num_steps = config.epochs * math.ceil(len(train) / config.batch_size)
    return State(
        model=model,
        optimizer=optimizer,
        scheduler=make_scheduler(optimizer, config, num_steps),
        shuffle=shuffle,
    )


def train_epoch(state: State, train: Examples, config: TrainConfig, tally: Tally) -> Iterator[None]:
    """Train for one epoch; yield after every step, which `tally` then holds.

    Raises `NotFinite` when the loss is a NaN or an infinity, before it reaches the weights on CPU.
    """
    model, optimizer = state.model, state.optimizer
    model.train()
    order = torch.randperm(len(train), generator=state.shuffle).to(train.device)
    batches = order.split(config.batch_size)
    check_every = 1 if train.device.type == "cpu" else CHECK_EVERY
    for rows in batches:
        batch = train[rows]
        with autocast(train.device, config.precision):
            logits = model(batch.ids).float()
        loss = loss_of(logits, batch.labels)
        optimizer.zero_grad()
        loss.backward()
        tally.add(loss, logits, batch.labels)
        is_check = tally.num_steps % check_every == 0 or tally.num_steps == len(batches)
        if is_check and not math.isfinite(float(tally.loss_sum)):
            raise NotFinite(state.epoch, tally.num_steps, check_every, batch.ids)
        if config.clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), config.clip)
        optimizer.step()
        state.scheduler.step()
        yield
    state.epoch += 1


def loss_of(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy in nats, of the sigmoid of logits (B,) or the softmax of (B, C)."""
    if logits.ndim == 1:
        return F.binary_cross_entropy_with_logits(logits, labels)
    return F.cross_entropy(logits, labels.long())


def predict_batches(model: nn.Module, examples: Examples, precision: Precision) -> Iterator[Tensor]:
    """Logits of every example, batch by batch of `batch_size_of` the device, dropout off."""
    model.eval()
    for ids in examples.ids.split(batch_size_of(examples.device)):
        with torch.inference_mode(), autocast(examples.device, precision):
            logits = model(ids).float()
        yield logits.detach()


def batch_size_of(device: torch.device) -> int:
    """Examples of a batch in evaluation. On CPU a larger batch no longer fits the cache."""
    return 32 if device.type == "cpu" else 1024


def autocast(device: torch.device, precision: Precision) -> torch.autocast:
    """bf16 for matrix products where `precision` asks for it; weights stay fp32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision is Precision.bf16)


def split(config: RunConfig, train: Examples, test: Examples) -> tuple[Examples, Examples]:
    """Train and validation. Under `protocol: blog` the test set validates."""
    if config.train.protocol is Protocol.blog:
        return train, test
    generator = torch.Generator().manual_seed(named_seed(config.seed_of("split"), "split"))
    rows = torch.randperm(len(train), generator=generator).to(train.device)
    num_val = round(len(train) * config.train.holdout)
    if not 0 < num_val < len(train):
        raise UserError(
            f"train.holdout={config.train.holdout} of {len(train)} texts leaves one part empty. "
            f"Give another share, or more texts."
        )
    return train[rows[num_val:]], train[rows[:num_val]]


def best_epoch(val_accuracies: Sequence[float]) -> int:
    """Index of the highest validation accuracy; the earliest of equal ones."""
    return max(range(len(val_accuracies)), key=val_accuracies.__getitem__)
