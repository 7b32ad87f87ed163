"""The training loop: K's training (the blog post of 2018) in PyTorch, an epoch in one function.

Cross-entropy, Adam with Keras's epsilon, shuffled batches with the short last one kept.
Shapes: B batch, T tokens, n examples, C classes. Logits of two classes are (n,), of more (n, C)."""

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
from attnexp.base.errors import RunFailed
from attnexp.config import pieces
from attnexp.config.schema import Precision, Schedule, TrainConfig
from attnexp.network.classifier import FastPath
from attnexp.runs.predictions import most_probable
from attnexp.runs.result import EpochRow
from attnexp.training.metrics import measure
from attnexp.training.state import Epoch, State


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
    """Train for one epoch, which `state.epoch` then describes. Raises `RunFailed` for a loss that
    is not finite, on the CPU before it spoils the weights."""
    started = time.perf_counter()
    device = train.ids.device
    compute_loss = choose_loss(config)
    order = torch.randperm(len(train), generator=state.shuffle).to(device)
    batches = order.split(config.batch_size)
    num_steps = config.epochs * len(batches)
    num_steps_before = state.epoch.number * len(batches)
    number = state.epoch.number + 1
    exact = torch.float32 if device.type == "mps" else torch.float64  # mps has no float64
    loss_sum = torch.zeros((), dtype=exact, device=device)
    num_right = torch.zeros((), dtype=torch.int64, device=device)
    tracked = progress.track(batches, f"epoch {number}/{config.epochs}")
    state.model.train()
    with state.optimizer.taking_steps():
        for step, rows in enumerate(tracked, start=1):
            batch = train[rows]
            with autocast(device, config.precision):
                logits = state.model(batch.ids).float()
            is_right = most_probable(logits) == batch.labels  # A user's loss may change logits.
            num_right += is_right.sum()
            loss = compute_loss(logits, batch.labels)
            state.optimizer.zero_grad()
            loss.backward()
            loss_sum += (loss.detach() * len(batch)).to(exact)
            # Reading the loss would stop a GPU at each step; there it is read after the last one.
            is_check = device.type == "cpu" or step == len(batches)
            if is_check and not math.isfinite(float(loss_sum)):
                raise RunFailed(
                    f"The loss is not finite in epoch {number}, by step {step}. A smaller "
                    f"train.lr (now {config.lr:g}) usually helps."
                )
            if config.clip is not None:
                nn.utils.clip_grad_norm_(state.optimizer.to_clip(), config.clip)
            rate = learning_rate(config, num_steps_before + step, num_steps)
            for group in state.optimizer.param_groups:
                group["lr"] = rate
            state.optimizer.step()
    seconds = time.perf_counter() - started
    mean_loss = float(loss_sum) / len(train)
    accuracy = int(num_right) / len(train)
    state.epoch = Epoch(number, mean_loss, accuracy, seconds)


def learning_rate(config: TrainConfig, step: int, num_steps: int) -> float:
    """Rate of a step, counted from 1. Step s of the first `train.warmup` has s / warmup of
    `train.lr`. Then `train.schedule` follows, to 0 one step after `num_steps`: linear in a straight
    line, cosine as half a cosine (Loshchilov and Hutter 2017, equation 5)."""
    if step <= config.warmup:
        return config.lr * (step / config.warmup)
    share_done = (step - 1 - config.warmup) / max(num_steps - config.warmup, 1)
    if config.schedule is Schedule.linear:
        return config.lr * (1 - share_done)
    if config.schedule is Schedule.cosine:
        return config.lr * ((1 + math.cos(math.pi * share_done)) / 2)
    return config.lr


def measure_epoch(
    model: nn.Module, epoch: Epoch, train: Examples, val: Examples, config: TrainConfig
) -> tuple[EpochRow, NDArray[np.float32]]:
    """Measure a model after an epoch: the row of that epoch, and logits of `val`, (n,) or (n, C).
    Raises `RunFailed` when a logit is a NaN or an infinity."""
    started = time.perf_counter()
    logits = predict(model, val, config.precision)
    if not np.isfinite(logits).all():
        raise RunFailed(f"The outputs of the model are not finite after epoch {epoch.number}.")
    on_val = measure(logits, val.truth)
    seconds_on_val = time.perf_counter() - started
    on_train = None
    if config.measure_train:
        on_train = measure(predict(model, train, config.precision), train.truth)
    row = EpochRow(
        epoch=epoch.number,
        train_loss=epoch.loss,
        train_accuracy=epoch.accuracy,
        train_loss_after=on_train.loss if on_train else None,
        train_accuracy_after=on_train.accuracy if on_train else None,
        val_loss=on_val.loss,
        val_accuracy=on_val.accuracy,
        val_brier=on_val.brier,
        val_ece=on_val.ece,
        val_macro_f1=on_val.macro_f1,
        seconds=epoch.seconds + seconds_on_val,
        examples_per_second=len(train) / epoch.seconds,
    )
    return row, logits


def choose_loss(config: TrainConfig) -> Callable[[Tensor, Tensor], Tensor]:
    """Cross-entropy, or the user's function of logits (B,) or (B, C) and labels (B,), 0 to C - 1 as
    floats, of which it gets a copy. A class is first called with its settings, and returns it."""
    if config.loss is None:
        return cross_entropy
    settings = asdict(config.loss)
    function = pieces.load(settings.pop("kind"))
    if isinstance(function, type):
        function = function(**settings)
    return lambda logits, labels: function(logits, labels.clone())


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy in nats, of the sigmoid of logits (B,) or the softmax of (B, C)."""
    if logits.ndim == 1:
        return F.binary_cross_entropy_with_logits(logits, labels)
    return F.cross_entropy(logits, labels.long())


def predict(model: nn.Module, examples: Examples, precision: Precision) -> NDArray[np.float32]:
    """Logits of every example, (n,) or (n, C), dropout off."""
    model.eval()
    batches = examples.ids.split(batch_size_of(model, examples))
    tracked = progress.track(batches, "evaluating")
    with torch.inference_mode(), autocast(examples.ids.device, precision):
        logits = [model(ids).float() for ids in tracked]
    return np.asarray(torch.cat(logits).cpu())


def batch_size_of(model: nn.Module, examples: Examples) -> int:
    """Number of texts in a batch of evaluation: one set of their attention maps fits 1 GB and, on
    the CPU, its cache. There `pool_words` takes more, since it keeps maps of one head at a time."""
    largest = 1024
    if examples.ids.device.type == "cpu":
        is_by_hand = getattr(model, "fast_path", None) is FastPath.words
        largest = 64 if is_by_hand else 32
    num_tokens = examples.ids.shape[-1]
    num_heads = max(int(getattr(module, "num_heads", 1)) for module in model.modules())
    map_size = 4 * num_heads * num_tokens**2  # bytes a text; a forward pass holds two or three
    fitting = 2**30 // map_size
    return max(1, min(largest, fitting))


def autocast(device: torch.device, precision: Precision) -> torch.autocast:
    """bf16 for matrix products where `precision` asks for it; weights stay fp32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision is Precision.bf16)
