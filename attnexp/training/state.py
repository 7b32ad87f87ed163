"""State of training between two epochs, what a run has measured, its log and its checkpoint."""

import copy
import io
import json
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attnexp.base import digests, progress
from attnexp.base.files import atomic_write, reading
from attnexp.runs import predictions, store
from attnexp.runs.result import EpochRow
from attnexp.training.adam import EagerAdam
from attnexp.training.metrics import Array

EPOCH_LINE = """epoch {epoch}/{num_epochs} loss {train_loss:.4f} acc {train_accuracy:.4f} \
val_loss {val_loss:.4f} val_acc {val_accuracy:.4f} {examples_per_second:,.0f} texts/s"""


class Epoch(NamedTuple):
    """An epoch of training: its running means of loss and accuracy, dropout on, and its time."""

    number: int = 0  # counted from 1; 0 is the start
    loss: float = 0.0
    accuracy: float = 0.0
    seconds: float = 0.0


@dataclass(kw_only=True, slots=True)
class State:
    """Model, optimizer and random streams. Dropout draws from torch's global stream."""

    model: nn.Module
    optimizer: EagerAdam
    shuffle: torch.Generator  # draws the order of the texts, once an epoch
    epoch: Epoch = field(default_factory=Epoch)  # the last that was trained

    @property
    def position(self) -> str:
        """Where training stands, in words."""
        return f"the end of epoch {self.epoch.number}" if self.epoch.number else "the start"


@dataclass(kw_only=True, slots=True)
class History:
    """What a run has measured so far, in all its processes; tensors, for its checkpoint."""

    epochs: list[EpochRow] = field(default_factory=list)
    predicted: dict[str, Tensor] = field(default_factory=dict)  # arrays of predictions.safetensors
    best_weights: dict[str, Tensor] = field(default_factory=dict)  # after the best epoch
    read_files: dict[str, str] = field(default_factory=dict)  # digests of the files user code read
    resumed: list[str] = field(default_factory=list)  # from where the run went on, each time it did

    def add(self, row: EpochRow, logits: Array, truth: Array, model: nn.Module) -> None:
        """Add an epoch. logits, (n,) or (n, C), and truth, (n,), are of the validation set."""
        self.epochs.append(row)
        is_right = predictions.most_probable(logits) == truth
        compressed = torch.from_numpy(predictions.pack_and_compress(is_right))
        self.predicted[f"{predictions.CORRECT}{row.epoch}"] = compressed
        self.predicted[predictions.FINAL] = torch.from_numpy(logits)
        if best_row(self.epochs) is row:
            self.predicted[predictions.OWN_BEST] = torch.from_numpy(logits)
            self.best_weights = copy.deepcopy(model.state_dict())


@dataclass(kw_only=True, slots=True)
class RunLog:
    """Progress of a run: lines for the user and for `run.log`, and rows in `metrics.jsonl`."""

    folder: Path
    num_epochs: int
    started: float = field(default_factory=time.perf_counter)  # less the time of earlier processes

    def note(self, line: str) -> None:
        """Show the user a line, and write it to `run.log`."""
        progress.note(line)
        self.write(f"{line}\n")

    def write(self, text: str) -> None:
        """Add text to `run.log`."""
        with (self.folder / store.LOG).open("a", encoding="utf-8", newline="\n") as file:
            file.write(text)

    @contextmanager
    def keeping_errors(self) -> Iterator[None]:
        """Write the traceback of an error within to `run.log`."""
        try:
            yield
        except BaseException:
            with suppress(OSError):  # The log may be what cannot be written.
                self.write(traceback.format_exc())
            raise

    def note_epoch(self, epochs: Sequence[EpochRow]) -> None:
        """Show the user the last epoch, and write all to `metrics.jsonl`."""
        lines = [f"{json.dumps(asdict(row))}\n" for row in epochs]
        metrics = self.folder / store.METRICS
        metrics.write_text("".join(lines), encoding="utf-8", newline="\n")
        row = epochs[-1]
        line = EPOCH_LINE.format(num_epochs=self.num_epochs, **asdict(row))
        num_left = self.num_epochs - row.epoch
        if num_left:
            seconds_left = row.seconds * num_left
            line += f", about {progress.duration(seconds_left)} left"
        self.note(line)


def save_checkpoint(state: State, history: History, log: RunLog) -> None:
    """Write the checkpoint of a run, whole or not at all."""
    saved = {
        "model": state.model.state_dict(),
        "optimizer": state.optimizer.state_dict(),
        "stream": torch.get_rng_state(),
        "stream_of_gpu": torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None,
        "stream_of_order": state.shuffle.get_state(),
        "epoch": tuple(state.epoch),  # `weights_only` loads no class of ours.
        "history": asdict(history),
        "seconds": time.perf_counter() - log.started,
    }
    content = io.BytesIO()
    torch.save(saved, content)
    with atomic_write(log.folder / store.CHECKPOINT) as file:
        file.write(content.getbuffer())


def resume(state: State, log: RunLog) -> History:
    """Go on from the checkpoint of a run, if there is one; return what it had measured. With the
    same number of threads a run ends as if never stopped, to the bit. It starts over where a file
    that user code read has changed. Raises `UserError` for a damaged checkpoint."""
    file = log.folder / store.CHECKPOINT
    if not file.exists():
        return History()
    with reading(file, "Delete it to start over."):
        saved = torch.load(file, weights_only=True, map_location="cpu")
        history = History(**saved["history"])
        history.epochs = [EpochRow(**row) for row in saved["history"]["epochs"]]
    change = digests.change_since(history.read_files)
    if change:
        log.note(f"{change} since this run was stopped. Starts over.")
        return History()
    state.model.load_state_dict(saved["model"])
    state.optimizer.load_state_dict(saved["optimizer"])
    torch.set_rng_state(saved["stream"])
    if saved["stream_of_gpu"] is not None:
        torch.cuda.set_rng_state(saved["stream_of_gpu"])
    state.shuffle.set_state(saved["stream_of_order"])
    state.epoch = Epoch(*saved["epoch"])
    log.started -= saved["seconds"]
    history.resumed.append(state.position)
    log.note(f"goes on from {state.position}")
    return history


def best_row(rows: Sequence[EpochRow]) -> EpochRow:
    """The epoch with the highest validation accuracy; the earliest of equal ones."""
    return max(rows, key=lambda row: row.val_accuracy)
