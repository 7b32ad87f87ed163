"""Training between two epochs: what the rest of it depends on, and the file that keeps it."""

import copy
import io
import json
import time
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from attnexp.base import progress, reads
from attnexp.base.files import atomic_write
from attnexp.runs import predictions, store
from attnexp.runs.result import EpochRow

CHECKSUM_SIZE = 4  # bytes after a checkpoint, since torch does not check its own


@dataclass(kw_only=True, slots=True)
class State:
    """Model, optimizer and random streams. Dropout draws from torch's global stream."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    shuffle: torch.Generator  # of the order of examples; it draws once an epoch
    epoch: int = 0  # number of those trained so far
    running: tuple[float, float, float] = (0.0, 0.0, 0.0)  # of the last: loss, accuracy, seconds

    def __str__(self) -> str:
        return f"the end of epoch {self.epoch}" if self.epoch else "the start"


@dataclass(kw_only=True, slots=True)
class Record:
    """What a run under way has measured so far, and its folder."""

    folder: Path
    num_epochs: int
    provenance: dict[str, Any]
    epochs: list[EpochRow] = field(default_factory=list)
    predicted: dict[str, NDArray[Any]] = field(default_factory=dict)  # of predictions.safetensors
    best_weights: dict[str, Tensor] = field(default_factory=dict)  # after the best epoch
    has_user_code: bool = False
    read_before: dict[str, str] = field(default_factory=dict)  # by processes that were stopped
    started: float = field(default_factory=time.perf_counter)

    def note(self, line: str) -> None:
        """Tell the user a line, and write it to `run.log`."""
        progress.note(line)
        self.log(f"{line}\n")

    def log(self, text: str) -> None:
        """Add text to `run.log`."""
        with (self.folder / store.LOG).open("a", encoding="utf-8", newline="\n") as file:
            file.write(text)

    def add(
        self, row: EpochRow, logits: NDArray[Any], truth: NDArray[Any], model: nn.Module
    ) -> None:
        """Add an epoch and tell of it. logits, (n,) or (n, C), and truth, (n,): of `val`."""
        self.epochs.append(row)
        self.predicted[predictions.FINAL] = logits
        is_right = predictions.most_probable(logits) == truth
        self.predicted[f"{predictions.CORRECT}{row.epoch}"] = predictions.pack(is_right)
        if best_epoch(self.epochs) == len(self.epochs) - 1:
            self.predicted[predictions.BEST] = logits
            self.best_weights = copy.deepcopy(model.state_dict())
        lines = [f"{json.dumps(asdict(row))}\n" for row in self.epochs]
        metrics = self.folder / store.METRICS
        metrics.write_text("".join(lines), encoding="utf-8", newline="\n")
        line = f"epoch {row.epoch}/{self.num_epochs}"
        line += f" loss {row.train_loss:.4f} acc {row.train_accuracy:.4f}"
        line += f" val_loss {row.val_loss:.4f} val_acc {row.val_accuracy:.4f}"
        line += f" {row.examples_per_second:,.0f} texts/s"
        num_left = self.num_epochs - row.epoch
        if num_left:
            line += f", about {progress.duration(row.seconds * num_left)} left"
        self.note(line)

    def read_files(self) -> dict[str, str]:
        """What this process has read, and those before it that did earlier epochs."""
        return self.read_before | reads.read_files(self.folder.parent)

    def save(self, state: State) -> None:
        """Write a checkpoint, whole or not at all."""
        streams = [torch.get_rng_state(), state.shuffle.get_state()]
        device = self.provenance["device"]
        if device != "cpu":
            streams.append(torch.get_device_module(device).get_rng_state())
        saved = {
            "model": state.model.state_dict(),
            "optimizer": state.optimizer.state_dict(),
            "streams": streams,
            "epoch": state.epoch,
            "running": state.running,
            "epochs": [asdict(row) for row in self.epochs],
            # as tensors, for a checkpoint is loaded without pickles of numpy
            "predicted": {k: torch.from_numpy(array) for k, array in self.predicted.items()},
            "best_weights": self.best_weights,
            "read_files": self.read_files() if self.has_user_code else {},
            "seconds": time.perf_counter() - self.started,
            "resumed": [*self.provenance["resumed"], str(state)],
        }
        content = io.BytesIO()
        torch.save(saved, content)
        with atomic_write(self.folder / store.CHECKPOINT) as file:
            file.write(content.getbuffer())
            file.write(_checksum(content.getbuffer()))

    def resume(self, state: State) -> None:
        """Continue from a whole checkpoint, if any: with as many threads, to the bit."""
        file = self.folder / store.CHECKPOINT
        if not file.exists():
            return
        whole = memoryview(file.read_bytes())
        content = whole[:-CHECKSUM_SIZE]
        if whole[-CHECKSUM_SIZE:] != _checksum(content):
            self.note(f"{file} is damaged. Starts over.")
            return
        saved = torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
        changed = reads.changed_file(saved["read_files"])
        if changed:
            self.note(f"{changed} changed since this run was stopped. Starts over.")
            return
        self.read_before = saved["read_files"]
        state.model.load_state_dict(saved["model"])
        state.optimizer.load_state_dict(saved["optimizer"])
        cpu, shuffle, *on_device = saved["streams"]
        torch.set_rng_state(cpu)
        state.shuffle.set_state(shuffle)
        device = self.provenance["device"]
        if device != "cpu" and on_device:
            torch.get_device_module(device).set_rng_state(on_device[0])
        state.epoch = saved["epoch"]
        state.running = saved["running"]
        self.predicted = {name: tensor.numpy() for name, tensor in saved["predicted"].items()}
        self.best_weights = saved["best_weights"]
        self.provenance["resumed"] = saved["resumed"]
        self.started -= saved["seconds"]
        self.epochs += [EpochRow(**row) for row in saved["epochs"]]
        self.note(f"goes on from {state}")


def _checksum(content: memoryview) -> bytes:
    return zlib.crc32(content).to_bytes(CHECKSUM_SIZE, "big")


def best_epoch(rows: Sequence[EpochRow]) -> int:
    """Index of the row with the highest validation accuracy; the earliest of equal ones."""
    return max(range(len(rows)), key=lambda index: rows[index].val_accuracy, default=0)
