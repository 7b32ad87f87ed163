"""What a run gave: every figure of `result.json`."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

SCHEMA = 3
"""Version of `result.json`. It enters the run id, so a new schema reruns instead of guessing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EpochRow:
    """What one epoch showed. Losses are mean binary cross-entropy in nats."""

    epoch: int
    train_loss: float
    """Running mean over the epoch, dropout on, as Keras and K show it."""
    train_accuracy: float
    """Likewise a running mean (C29)."""
    train_loss_after: float | None
    """Measured on the same reviews after the epoch, dropout off; None unless asked for."""
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
    peak_rss_bytes: int
    provenance: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Plain containers and numbers."""
        rows = {name: _plain(getattr(self, name)) for name in ("best", "final", "test")}
        return {**_plain(self), **rows, "epochs": [_plain(row) for row in self.epochs]}

    @classmethod
    def from_json(cls, tree: dict[str, Any]) -> "RunResult":
        """What `to_json` gave."""
        rows = [EpochRow(**row) for row in tree["epochs"]]
        return cls(
            **{
                **tree,
                "epochs": rows,
                "best": EpochRow(**tree["best"]),
                "final": EpochRow(**tree["final"]),
                "test": Evaluation(**tree["test"]),
            }
        )


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
    study: Path | None = None
    """The folder of that study."""
