"""Result of a run: everything in `result.json`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from annotated_types import MinLen
from pydantic import AfterValidator, ConfigDict, FiniteFloat, TypeAdapter
from typing_extensions import TypedDict

from attnexp.config.schema import Count, Share
from attnexp.config.settings import Tree

SCHEMA = 5
"""Version of `result.json`. It enters the run id, so runs of another schema are run again."""


@dataclass(frozen=True, kw_only=True)
class EpochRow:
    """Metrics of an epoch. Losses are mean cross-entropy in nats."""

    epoch: int
    # Running means over the epoch, dropout on, as Keras and K show them (claim C29):
    train_loss: FiniteFloat  # of `train.loss` if given
    train_accuracy: Share
    train_loss_after: FiniteFloat | None = None  # on the same texts after the epoch, dropout off
    train_accuracy_after: Share | None = None  # None, as the loss, unless asked for
    val_loss: FiniteFloat
    val_accuracy: Share
    val_brier: FiniteFloat
    val_ece: Share
    val_macro_f1: Share
    seconds: float  # of training and validation, without measuring train again
    examples_per_second: float  # of training


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """A model measured on n texts; `metrics.measure` says how."""

    loss: FiniteFloat
    accuracy: Share
    brier: FiniteFloat
    ece: Share
    macro_f1: Share
    n: Count


class Facts(TypedDict):
    """Facts of a data set that reports need; a result holds more."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]

    name: str
    fingerprint: str
    n_train: Count
    n_val: Count
    n_test: Count
    classes: Annotated[list[str], MinLen(2)]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunResult:
    """Everything `result.json` holds."""

    schema: int
    run_id: str
    code: dict[str, str]  # digests of the files that computed the run; they enter the id
    seed: int
    label: str  # of a run that belongs to no study, such as `imdb attention none mask=causal`
    departures: list[str]  # keys of its choices and settings that are not the default ones
    config: Tree  # as `to_dict` gave it
    data: Annotated[Tree, AfterValidator(TypeAdapter(Facts).validate_python)]
    parameters: int  # number of trainable ones
    epochs: Annotated[list[EpochRow], MinLen(1)]
    own_best: EpochRow  # of this run alone; `best` of a report is one epoch for all seeds
    final: EpochRow
    test: Evaluation  # at the epoch that held-out data chose, else at the last
    wall_seconds: float  # of all parts together if the run was stopped and resumed
    provenance: Tree
    read_files: dict[str, str] = field(default_factory=dict)  # of the user's code: digest by path

    @property
    def classes(self) -> list[str]:
        """Names in the order of labels."""
        return list(self.data["classes"])


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """Finished run: its folder and its result."""

    path: Path
    result: RunResult
    variant: str = ""  # its label in a study; empty without a study
    sequential: bool = False  # whether the study that names it, or else any, is sequential
