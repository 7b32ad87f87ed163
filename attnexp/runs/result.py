"""What a run gave: every figure of `result.json`."""

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from attnexp.base.errors import UserError

SCHEMA = 4
"""Version of `result.json`. It enters the run id, so a new schema reruns instead of guessing."""

SENSIBLE_LOSS = 10.0
"""Nats, over an epoch. To always say 50 % costs 0.69, K's most over-fitted epoch 0.93; beyond this
the right label is given less than 1 in 22,000."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EpochRow:
    """What one epoch showed. Losses are mean cross-entropy in nats."""

    epoch: int
    train_loss: float
    """Running mean over the epoch, dropout on, as Keras and K show it."""
    train_accuracy: float
    """Likewise a running mean (C29)."""
    train_loss_after: float | None
    """Measured on the same texts after the epoch, dropout off; None unless asked for."""
    train_accuracy_after: float | None
    val_loss: float
    val_accuracy: float
    val_brier: float
    val_ece: float
    seconds: float
    """Training and validation; without the second look at train."""
    examples_per_second: float
    """In training."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """A model measured on a set; `metrics.measure` says how."""

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
    code: dict[str, str]
    """Digests of the modules that computed it, by name; they enter the id."""
    seed: int
    config: dict[str, Any]
    data: dict[str, Any]
    parameters: int
    """Trainable ones."""
    flops_per_example: int
    """Of one forward pass: 2 for a multiply and an add."""
    epochs: list[EpochRow]
    best: EpochRow
    final: EpochRow
    test: Evaluation
    wall_seconds: float
    """Of all parts, where the run was stopped and taken up again."""
    peak_rss_bytes: int
    provenance: dict[str, Any]
    files: dict[str, str]
    """SHA-256 in hex of the files beside it, by name."""

    @property
    def classes(self) -> list[str]:
        """Names in the order of labels; a result from before there were names has two."""
        names: list[str] = self.data.get("classes", ["negative", "positive"])
        return names

    @property
    def diverged(self) -> str:
        """Such as `a loss of 3e+21 in epoch 1`, where one left every sensible range; or empty."""
        loss, epoch = max((max(row.train_loss, row.val_loss), row.epoch) for row in self.epochs)
        return f"a loss of {loss:.3g} in epoch {epoch}" if loss > SENSIBLE_LOSS else ""

    def to_json(self) -> dict[str, Any]:
        """Plain containers and numbers."""
        rows = {name: _plain(getattr(self, name)) for name in ("best", "final", "test")}
        return {**_plain(self), **rows, "epochs": [_plain(row) for row in self.epochs]}

    @classmethod
    def from_json(cls, tree: dict[str, Any]) -> "RunResult":
        """What `to_json` gave. Raises `ValueError`, `KeyError` or `TypeError` for what no run can
        have given."""
        result = cls(
            **{
                **tree,
                "epochs": [EpochRow(**row) for row in tree["epochs"]],
                "best": EpochRow(**tree["best"]),
                "final": EpochRow(**tree["final"]),
                "test": Evaluation(**tree["test"]),
            }
        )
        _check(result)
        return result


def _check(result: RunResult) -> None:
    """Raise where a value is outside its range, or missing."""
    rows = result.epochs
    if [row.epoch for row in rows] != list(range(1, len(rows) + 1)) or result.final != rows[-1]:
        raise ValueError("its epochs are not 1, 2, ... up to the final one")
    if result.best not in rows:
        raise ValueError("its best epoch is not one of its epochs")
    for row in rows:
        _check_shares([row.train_accuracy, row.val_accuracy, row.val_brier / 2, row.val_ece])
        _check_sizes([row.train_loss, row.val_loss, row.seconds, row.examples_per_second])
        if row.train_accuracy_after is not None or row.train_loss_after is not None:
            _check_shares([row.train_accuracy_after])
            _check_sizes([row.train_loss_after])
    test = result.test
    _check_shares([test.accuracy, test.brier / 2, test.ece])
    sizes = [result.data[name] for name in ("n_train", "n_val", "n_test")]
    _check_sizes([test.loss, test.n, *sizes, result.parameters, result.wall_seconds])
    config = result.config
    for key in ("seed", "seeds", "data", "model", "train"):
        config[key]
    names = [config["model"]["kind"], config["train"]["protocol"], result.data["name"]]
    for value in (*names, *result.classes):
        if not isinstance(value, str):
            raise TypeError(f"{value} stands where a name should")
    for tree in (config["seeds"], result.code, result.files, result.provenance):
        if not isinstance(tree, dict):
            raise TypeError(f"{tree} stands where settings should")


def _check_shares(values: Iterable[float | None]) -> None:
    for value in values:
        if value is None or not 0 <= value <= 1:
            raise ValueError(f"{value} is no share between 0 and 1")


def _check_sizes(values: Iterable[float | None]) -> None:
    for value in values:
        if value is None or not 0 <= value < math.inf:
            raise ValueError(f"{value} is no loss, size or time")


def _plain(one: Any) -> dict[str, Any]:
    """`asdict` without its copies, which thousands of runs would wait for."""
    return {field.name: getattr(one, field.name) for field in fields(one)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """A finished run: where it lies and what came out."""

    path: Path
    result: RunResult
    label: str = ""
    """What its study calls the variant; empty outside of one, where its settings name it."""
    studies: tuple[Path, ...] = ()
    """The folders of the studies that have it under that label."""

    def read(self, name: str) -> bytes:
        """What is in a file of its folder. Raises `UserError` where that is not what was written,
        naming the file, or where there is none."""
        file = self.path / name
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            cure = (
                f"`attnexp doctor {self.path}` says how to make it again."
                if name in self.result.files
                else "The run was published without it; make the run again to have it."
            )
            raise UserError(f"{file} is missing. {cure}") from None
        except OSError as error:
            raise UserError(f"{file} cannot be read: {error.strerror}.") from error
        if digest(content) != self.result.files.get(name):
            raise UserError(
                f"{file} is damaged: it is not what the run wrote, by the checksum in result.json. "
                f"`attnexp doctor {self.path}` says how to make it again."
            )
        return content


def digest(content: bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(content).hexdigest()
