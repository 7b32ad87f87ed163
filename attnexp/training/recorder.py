"""Recorder of a run: writes its metrics at every epoch, and resumes it after a stop."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnexp.config.schema import Protocol, RunConfig, TrainConfig
from attnexp.runs import checkpoint, predictions, store
from attnexp.runs.arrays import under
from attnexp.runs.identity import Identity, changed
from attnexp.runs.result import EpochRow
from attnexp.training.evaluate import Logits
from attnexp.training.loop import Examples, best_epoch
from attnexp.training.metrics import most_probable
from attnexp.training.state import State

MACHINE = ("torch", "device", "threads", "path", "products")
"""Keys of provenance that move a result by rounding: a run resumes only where they are equal."""


@dataclass(kw_only=True, slots=True)
class Recorder:
    """Metrics, predictions and weights of a run so far, and its folder."""

    path: Path
    identity: Identity
    provenance: dict[str, Any]
    note: Callable[[str], None]
    """Function that tells the user a line and writes it to `run.log`."""
    started: float = field(default_factory=time.perf_counter)
    epochs: list[EpochRow] = field(default_factory=list)
    predicted: dict[str, Any] = field(default_factory=dict)
    """Arrays of `predictions.safetensors`, by name."""
    weights: dict[str, Tensor] = field(default_factory=dict)
    """Weights of the model that will be tested."""

    def add(
        self, row: EpochRow, logits: Logits, val: Examples, model: nn.Module, config: RunConfig
    ) -> None:
        """Record an epoch: its metrics, the predictions on `val`, and, where this is the model that
        will be tested, its weights."""
        self.epochs.append(row)
        is_best = best_epoch([row.val_accuracy for row in self.epochs]) == len(self.epochs) - 1
        is_last = row.epoch == config.num_epochs
        if is_last if config.train.protocol is Protocol.blog else is_best:
            self.weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        if is_best:
            self.predicted[predictions.BEST] = logits
        self.predicted[predictions.FINAL] = logits
        right = most_probable(logits) == val.truth
        self.predicted[f"{predictions.CORRECT}{row.epoch}"] = predictions.pack(right)
        store.add_epoch(self.path, row)

    def save_checkpoint(self, state: State, where: torch.device) -> None:
        """Write everything that the rest of the run depends on."""
        tensors = {f"training.{name}": tensor for name, tensor in state.tensors(where).items()}
        tensors |= {f"weights.{name}": tensor for name, tensor in self.weights.items()}
        checkpoint.save(
            self.path,
            {name: tensor.cpu().numpy() for name, tensor in tensors.items()}
            | {f"predicted.{name}": array for name, array in self.predicted.items()},
            {
                "made_by": self._made_by(),
                "code": self.identity.code,
                "at": str(state),
                "training": state.numbers(),
                "epochs": [asdict(row) for row in self.epochs],
                "seconds": time.perf_counter() - self.started,
                "resumed": self.provenance["resumed"],
            },
        )

    def resume(self, state: State, config: TrainConfig, where: torch.device) -> None:
        """Continue from the checkpoint, if there is one that this run could have written."""
        try:
            found = checkpoint.load(self.path)
            if found is None:
                self._note_other_code()
                return
            arrays, about = found
            now, then = self._made_by(), about["made_by"]
            if config.threads is None:  # torch may choose them, and rounding depends on them
                now["threads"] = then["threads"]
            for name in now:
                if now[name] != then[name]:
                    raise ValueError(f"{name} was {then[name]}, now {now[name]}")
        except ValueError as error:
            self.note(f"The checkpoint of an earlier attempt is not used: {error}. Starts over.")
            return
        torch.set_num_threads(now["threads"])
        self.provenance["threads"] = now["threads"]

        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        state.restore(under("training.", tensors), about["training"], where)
        self.weights = under("weights.", tensors)
        self.predicted = under("predicted.", arrays)
        self.epochs = [EpochRow(**row) for row in about["epochs"]]
        for row in self.epochs:
            store.add_epoch(self.path, row)
        self.started -= about["seconds"]
        self.provenance["resumed"] = [*about["resumed"], about["at"]]
        self.note(f"goes on from {state}")

    def _made_by(self) -> dict[str, Any]:
        """Run and machine, which must be equal for a checkpoint to be used."""
        machine = {name: self.provenance[name] for name in MACHINE}
        return {"run": self.identity.run_id, **machine}

    def _note_other_code(self) -> None:
        for folder in checkpoint.of_other_code(self.path.with_suffix("")):
            with suppress(ValueError):
                if found := checkpoint.load(folder):
                    _, about = found
                    names = ", ".join(changed(about["code"], self.identity.code))
                    self.note(f"{names} changed since {folder} came to {about['at']}. Starts over.")


def epoch_line(row: EpochRow, num_epochs: int) -> str:
    """An epoch in one plain line of 80 columns, for logs and whoever waits."""
    figures: Mapping[str, float | None] = {
        "loss": row.train_loss,
        "acc": row.train_accuracy,
        "after": row.train_accuracy_after,
        "val_loss": row.val_loss,
        "val_acc": row.val_accuracy,
    }
    shown = [f"{name} {value:.4f}" for name, value in figures.items() if value is not None]
    line = " ".join(shown).replace(" 0.", " .")
    return f"epoch {row.epoch}/{num_epochs} {line} {row.examples_per_second:,.0f}/s"
