"""The training loop: K's training in PyTorch, whole and in sight.

Cross-entropy, Adam with Keras's epsilon, shuffled batches with the short last one kept.

Shapes: B batch, T tokens, n examples, C classes. Logits of two classes are (n,), of more (n, C).
"""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from attnexp.base import progress
from attnexp.base.errors import RunFailed, UserError
from attnexp.config import pieces
from attnexp.config.schema import Precision, TrainConfig
from attnexp.network.guard import place_of
from attnexp.runs.predictions import most_probable
from attnexp.runs.result import EpochRow
from attnexp.training.adam import clip_gradients, epoch_of
from attnexp.training.metrics import measure
from attnexp.training.optimizer import learning_rate
from attnexp.training.state import State


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
    def truth(self) -> NDArray[np.float32]:
        """Labels on the host: (n,)."""
        return np.asarray(self.labels.cpu())


def train_epoch(state: State, train: Examples, config: TrainConfig) -> None:
    """Train for one epoch, and leave its means in `state.running`. Raises as `take_steps`."""
    started = time.perf_counter()
    with epoch_of(state.optimizer):
        loss, accuracy = take_steps(state, train, config)
    state.running = loss, accuracy, time.perf_counter() - started
    state.epoch += 1


def take_steps(state: State, train: Examples, config: TrainConfig) -> tuple[float, float]:
    """Mean loss and accuracy of the steps of an epoch, each before its step.

    Raises `RunFailed` when the loss is a NaN or an infinity; on the CPU before the weights are.
    """
    device = train.ids.device
    compute_loss = choose_loss(config)
    exact = torch.float32 if device.type == "mps" else torch.float64  # mps has no float64
    loss_sum = torch.zeros((), dtype=exact, device=device)
    num_right = torch.zeros((), dtype=torch.int64, device=device)
    order = torch.randperm(len(train), generator=state.shuffle).to(device)
    batches = order.split(config.batch_size)
    epoch = state.epoch + 1
    num_before = state.epoch * len(batches)
    tracked = progress.track(batches, total=len(batches), label=f"epoch {epoch}/{config.epochs}")
    state.model.train()
    for step, rows in enumerate(tracked, start=1):
        batch = train[rows]
        with autocast(device, config.precision):
            logits = state.model(batch.ids).float()
        num_right += (most_probable(logits) == batch.labels).sum()  # before a loss changes them
        loss = compute_loss(logits, batch.labels)
        state.optimizer.zero_grad()
        loss.backward()
        loss_sum += (loss.detach() * len(batch)).to(exact)
        is_check = device.type == "cpu" or step == len(batches)  # a GPU would make the host wait
        if is_check and not math.isfinite(float(loss_sum)):
            raise RunFailed(
                f"The loss is not finite in epoch {epoch}, by step {step}. A smaller train.lr (now "
                f"{config.lr:g}) usually helps."
            )
        if config.clip is not None:
            clip_gradients(state.optimizer, config.clip)
        for group in state.optimizer.param_groups:
            group["lr"] = learning_rate(config, num_before + step, config.epochs * len(batches))
        state.optimizer.step()
    return float(loss_sum) / len(train), int(num_right) / len(train)


def measure_epoch(
    model: nn.Module,
    train: Examples,
    val: Examples,
    config: TrainConfig,
    epoch: int,
    running: tuple[float, float, float],
) -> tuple[EpochRow, NDArray[np.float32]]:
    """Row of an epoch and logits of `val`. running: as in `State`.

    Raises `RunFailed` when a logit is a NaN or an infinity.
    """
    started = time.perf_counter()
    loss, accuracy, seconds = running
    logits = predict(model, val, config.precision)
    if not np.isfinite(logits).all():
        raise RunFailed(f"The outputs of the model are not finite after epoch {epoch}.")
    found = measure(logits, val.truth)
    both = seconds + time.perf_counter() - started
    after = None
    if config.measure_train:
        after = measure(predict(model, train, config.precision), train.truth)
    row = EpochRow(
        epoch=epoch,
        train_loss=loss,
        train_accuracy=accuracy,
        train_loss_after=after.loss if after else None,
        train_accuracy_after=after.accuracy if after else None,
        **{f"val_{name}": value for name, value in asdict(found).items() if name != "n"},
        seconds=both,
        examples_per_second=len(train) / seconds,
    )
    return row, logits


def choose_loss(config: TrainConfig) -> Callable[[Tensor, Tensor], Tensor]:
    """The loss of a config: the user's, or cross-entropy."""
    return own_loss(config.loss) if config.loss else cross_entropy


def own_loss(name: str) -> Callable[[Tensor, Tensor], Tensor]:
    """The user's `module:function`, of logits (B,) or (B, C) and labels (B,), 0 to C - 1 as floats.
    It raises `UserError` where it fails, or gives no number with a gradient."""
    function = pieces.load(name)

    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        try:
            found = function(logits, labels.clone())  # which it may change in place
        except (Exception, SystemExit) as error:  # whatever anyone's code may do
            what = f"{type(error).__name__}: {error}"
            place = place_of(error, name)
            raise UserError(f"train.loss={name} failed: {what} ({place}).") from error
        if not (isinstance(found, Tensor) and found.shape == () and found.requires_grad):
            raise UserError(f"train.loss={name} must return one number with a gradient.")
        return found

    return loss


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy in nats, of the sigmoid of logits (B,) or the softmax of (B, C)."""
    if logits.ndim == 1:
        return F.binary_cross_entropy_with_logits(logits, labels)
    return F.cross_entropy(logits, labels.long())


def predict(model: nn.Module, examples: Examples, precision: Precision) -> NDArray[np.float32]:
    """Logits of every example, (n,) or (n, C), dropout off."""
    model.eval()
    batches = examples.ids.split(batch_size_of(model, examples))
    tracked = progress.track(batches, total=len(batches), label="evaluating")
    with torch.inference_mode(), autocast(examples.ids.device, precision):
        return np.asarray(torch.cat([model(ids).float() for ids in tracked]).cpu())


def batch_size_of(model: nn.Module, examples: Examples) -> int:
    """Examples of a batch in evaluation: 1,024, on the CPU 32 (more no longer fit its cache; 64
    where `pool_words` makes the maps of one head at a time), or as many as keep a map of attention,
    heads × T² floats a text, within 1 GB, on a GPU an eighth of its memory. A forward pass holds
    two or three such maps at a time."""
    device = examples.ids.device
    most = 1024
    if device.type == "cpu":
        most = 64 if getattr(model, "pools_words", False) else 32
    allowed = 2**30
    if device.type == "cuda":
        allowed = torch.cuda.get_device_properties(device).total_memory // 8
    num_heads = max(int(getattr(module, "num_heads", 1)) for module in model.modules())
    return max(1, min(most, allowed // (4 * num_heads * examples.ids.shape[-1] ** 2)))


def autocast(device: torch.device, precision: Precision) -> torch.autocast:
    """bf16 for matrix products where `precision` asks for it; weights stay fp32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision is Precision.bf16)
