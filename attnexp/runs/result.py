"""Result of a run: everything in `result.json`."""

import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from annotated_types import MinLen
from pydantic import AfterValidator, BaseModel, FiniteFloat

from attnexp.base.errors import UserError
from attnexp.config.schema import Count, Natural, Protocol, SeedsConfig, Share

SCHEMA = 5
"""Version of `result.json`. It enters the run id, so runs of another schema are run again."""


@dataclass(frozen=True, kw_only=True)
class EpochRow:
    """Metrics of an epoch. Losses are mean cross-entropy in nats."""

    epoch: int
    # Running means over the epoch, dropout on, as Keras and K show them (C29):
    train_loss: FiniteFloat  # of `train.loss` if given
    train_accuracy: Share
    train_loss_after: FiniteFloat | None = None  # on the same texts after the epoch, dropout off
    train_accuracy_after: Share | None = None  # None, as the loss, unless asked for
    val_loss: FiniteFloat
    val_accuracy: Share
    val_brier: FiniteFloat
    val_ece: Share
    val_macro_f1: Share | None = None  # None in earlier runs
    seconds: float  # of training and validation, without measuring train again
    examples_per_second: float  # of training


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """A model measured on n texts; `metrics.measure` says how."""

    loss: FiniteFloat
    accuracy: Share
    brier: FiniteFloat
    ece: Share
    macro_f1: Share | None = None  # None in earlier runs
    n: Count


class Choice(BaseModel):
    """Piece of a stored config."""

    kind: str | None = None


class StoredTraining(BaseModel):
    """Section `train` of a stored config."""

    protocol: Protocol


class StoredConfig(BaseModel):
    """What readers of results take from a config, which may be an earlier version's."""

    seed: Natural
    seeds: SeedsConfig
    data: dict[str, str | float | None]
    train: StoredTraining
    model: Choice
    position: Choice = Choice()
    mask: Choice = Choice()


class Facts(BaseModel):
    """What readers of results take from the facts of a data set."""

    name: str
    fingerprint: str
    n_train: Count
    n_val: Count
    n_test: Count
    classes: Annotated[list[str], MinLen(2)]
    vectors: str | None = None
    largest_class: Share | None = None


def _fits(model: type[BaseModel]) -> AfterValidator:
    """A check that a dict fits a model, which leaves it as it is."""
    return AfterValidator(lambda tree: model.model_validate(tree) and tree)


def _check_epochs(rows: list[EpochRow]) -> list[EpochRow]:
    if [row.epoch for row in rows] != list(range(1, len(rows) + 1)):
        raise ValueError("the epochs are not 1, 2, ...")
    return rows


@dataclass(frozen=True, kw_only=True, slots=True)
class RunResult:
    """Everything `result.json` holds."""

    schema: int
    run_id: str
    code: dict[str, str]  # digests of the files that computed the run; they enter the id
    seed: int
    label: str  # of a run that belongs to no study, such as `imdb attention none mask=causal`
    departures: list[str]  # keys of its choices and settings that are not the default ones
    config: Annotated[dict[str, Any], _fits(StoredConfig)]
    data: Annotated[dict[str, Any], _fits(Facts)]
    parameters: int  # number of trainable ones
    flops_per_example: int | None  # of a forward pass; a multiply and an add are 2
    epochs: Annotated[list[EpochRow], MinLen(1), AfterValidator(_check_epochs)]
    best: EpochRow
    final: EpochRow
    test: Evaluation
    wall_seconds: float  # of all parts together if the run was stopped and resumed
    provenance: dict[str, Any]
    read_files: dict[str, str] = field(default_factory=dict)  # of the user's code: digest by path

    @property
    def accuracy(self) -> float:
        """On the test set at the epoch that held-out data chose, else on validation at the last."""
        is_holdout = self.config["train"]["protocol"] == Protocol.holdout
        return self.test.accuracy if is_holdout else self.final.val_accuracy

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
    sequential: bool = False  # whether a study has it that adds seeds because of results

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
