"""Result of a run: everything in `result.json`."""

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnexp.base.errors import UserError

SCHEMA = 5
"""Version of `result.json`. It enters the run id, so runs of another schema are run again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EpochRow:
    """Metrics of an epoch. Losses are mean cross-entropy in nats."""

    epoch: int
    # Running means over the epoch, dropout on, as Keras and K show them (C29):
    train_loss: float  # of `train.loss` if given
    train_accuracy: float
    train_loss_after: float | None = None  # on the same texts after the epoch, dropout off
    train_accuracy_after: float | None = None  # None, as the loss, unless asked for
    val_loss: float
    val_accuracy: float
    val_brier: float
    val_ece: float
    seconds: float  # of training and validation, without measuring train again
    examples_per_second: float  # of training


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """A model measured on n texts; `metrics.measure` says how."""

    loss: float
    accuracy: float
    brier: float
    ece: float
    n: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RunResult:
    """Everything `result.json` holds."""

    schema: int
    run_id: str
    code: dict[str, str]  # digests of the files that computed the run; they enter the id
    seed: int
    label: str  # of a run that belongs to no study, such as `imdb attention none mask=causal`
    departures: list[str]  # keys of its choices and settings that are not the default ones
    config: dict[str, Any]
    data: dict[str, Any]
    parameters: int  # number of trainable ones
    flops_per_example: int | None  # of a forward pass; a multiply and an add are 2
    epochs: list[EpochRow]
    best: EpochRow
    final: EpochRow
    test: Evaluation
    wall_seconds: float  # of all parts together if the run was stopped and resumed
    provenance: dict[str, Any]

    @property
    def classes(self) -> list[str]:
        """Names in the order of labels."""
        return list(self.data["classes"])


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """Finished run: its folder and its result."""

    path: Path
    result: RunResult
    label: str = ""  # name of the variant in its study; empty without a study
    declared: bool = False  # whether a study has it that adds seeds because of results

    def read(self, name: str) -> bytes:
        """Content of a file of the run. Raises `UserError` if it cannot be read, or is another than
        the run wrote."""
        file = self.path / name
        try:
            content = file.read_bytes()
        except OSError as error:
            raise UserError(f"{file} cannot be read: {error.strerror}. Train again.") from error
        checksums = self.result.provenance.get("checksums", {})  # none in runs of before
        if name in checksums and zlib.crc32(content) != checksums[name]:
            raise UserError(f"{file} is damaged: the run wrote other bytes. Train again (--again).")
        return content
