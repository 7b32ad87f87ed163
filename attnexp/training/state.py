"""Training between two epochs: what the rest of it depends on, and the file that keeps it.

Shapes: n validation texts, C classes. Logits of two classes are (n,), of more (n, C).
"""

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from attnexp.base.files import atomic_write, writing
from attnexp.runs import predictions
from attnexp.runs.result import EpochRow
from attnexp.training.metrics import most_probable


@dataclass(kw_only=True, slots=True)
class Measured:
    """What the epochs so far have shown."""

    epochs: list[EpochRow] = field(default_factory=list)
    predicted: dict[str, NDArray[Any]] = field(default_factory=dict)
    """Arrays of `predictions.safetensors`, by name."""
    best_weights: dict[str, Tensor] = field(default_factory=dict)
    """Weights after the best epoch, where they are kept."""
    seconds_before: float = 0.0
    """Duration of earlier attempts, which were stopped."""

    def add(
        self,
        row: EpochRow,
        logits: NDArray[np.float32],
        truth: NDArray[Any],
        keep: nn.Module | None,
    ) -> None:
        """Add an epoch, with logits and labels (n,) of the validation set. keep: the model, if its
        weights are to be kept where the epoch is the best so far."""
        self.epochs.append(row)
        self.predicted[predictions.FINAL] = logits
        right = predictions.pack(most_probable(logits) == truth)
        self.predicted[f"{predictions.CORRECT}{row.epoch}"] = right
        if self.epochs[best_epoch(self.epochs)] is row:
            self.predicted[predictions.BEST] = logits
            if keep is not None:
                self.best_weights = {k: v.clone() for k, v in keep.state_dict().items()}


@dataclass(kw_only=True, slots=True)
class State:
    """Model, optimizer and random streams. Dropout draws from torch's global stream."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    scheduler: LambdaLR
    shuffle: torch.Generator
    """Generator of the order of examples, which draws once an epoch."""
    measured: Measured = field(default_factory=Measured)
    epoch: int = 0
    """Number of epochs trained so far; the last one may not be measured yet."""
    running: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Mean loss and accuracy over the last of them, dropout on, and its seconds."""

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(self.model.parameters()).device

    def __str__(self) -> str:
        return f"the end of epoch {self.epoch}" if self.epoch else "the start"

    def save(self, file: Path, **about: Any) -> None:
        """Write a checkpoint, whole or not at all. about: plain values to keep beside it."""
        streams, device = [torch.get_rng_state(), self.shuffle.get_state()], self.device
        if device.type != "cpu":
            streams.append(torch.get_device_module(device).get_rng_state())
        saved = about | {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "num_steps": self.scheduler.last_epoch,
            "streams": streams,
            "epoch": self.epoch,
            "running": self.running,
            "epochs": [asdict(row) for row in self.measured.epochs],
            "predicted": {k: torch.from_numpy(v) for k, v in self.measured.predicted.items()},
            "best_weights": self.measured.best_weights,
        }
        with writing(file), atomic_write(file) as opened:
            torch.save(saved, opened)

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.scheduler.last_epoch = saved["num_steps"]
        global_stream, shuffle, *on_device = saved["streams"]
        torch.set_rng_state(global_stream)
        self.shuffle.set_state(shuffle)
        for stream in on_device:
            torch.get_device_module(self.device).set_rng_state(stream)
        self.epoch, self.running = saved["epoch"], saved["running"]
        self.measured.epochs = [EpochRow(**row) for row in saved["epochs"]]
        self.measured.predicted = {k: v.numpy() for k, v in saved["predicted"].items()}
        self.measured.best_weights = saved["best_weights"]
        self.measured.seconds_before = saved["seconds"]


def load_checkpoint(file: Path) -> dict[str, Any] | None:
    """What `State.save` wrote; None without a file. Raises `ValueError` if it cannot be read."""
    try:
        saved: dict[str, Any] = torch.load(file, weights_only=True, map_location="cpu")
        return saved
    except FileNotFoundError:
        return None
    except (RuntimeError, EOFError, OSError, pickle.UnpicklingError) as error:
        raise ValueError(f"it cannot be read ({str(error).partition(chr(10))[0]})") from error


def best_epoch(rows: Sequence[EpochRow]) -> int:
    """Index of the row with the highest validation accuracy; the earliest of equal ones."""
    return max(range(len(rows)), key=lambda index: rows[index].val_accuracy)
