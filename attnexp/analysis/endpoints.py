"""Endpoints: the epoch and the texts at which runs are compared, declared before any run."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pandas as pd


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """An epoch of each run and the texts on which it is measured."""

    name: str
    label: str  # in tables; with the split where not all endpoints of a protocol are on the same
    description: str = ""
    split: str = ""  # `test` or `validation`; empty in results of other trainers
    measured: str = "val"  # the stored evaluation, `val` or `test`: prefix of its columns
    remark: str = ""  # what a reader must know beside the epochs of the variants
    select: Callable[[pd.DataFrame], "pd.Series[bool]"] | None = None
    """Marks the rows at this endpoint, of rows with variant, seed, epoch and metrics as
    `val_accuracy`; None in results of other trainers."""


def _last_epochs(rows: pd.DataFrame) -> "pd.Series[int]":
    """The last epoch of the run of each row."""
    epochs = rows.groupby(["variant", "seed"])["epoch"]
    return epochs.transform("max")


def _is_last(rows: pd.DataFrame) -> "pd.Series[bool]":
    return rows["epoch"] == _last_epochs(rows)


def _is_best_on_average(rows: pd.DataFrame) -> "pd.Series[bool]":
    """One epoch for all seeds of a variant, among those that all of them have."""
    by_variant = _last_epochs(rows).groupby(rows["variant"])
    shortest = by_variant.transform("min")
    shared = rows[rows["epoch"] <= shortest]
    accuracies = shared.groupby(["variant", "epoch"])["val_accuracy"]
    means = accuracies.mean().unstack()
    best = means.idxmax(axis=1)
    return rows["epoch"] == rows["variant"].map(best)


_LAST = Endpoint(name="final", label="final", split="test", select=_is_last)

ENDPOINTS = {
    "blog": (  # which validates on the test set
        replace(_LAST, description="the last epoch, on the test set"),
        Endpoint(
            name="best",
            label="best",
            description="one epoch for all seeds of a variant, the best on average on the test set",
            split="test",
            remark="the epoch that is best on average over seeds",
            select=_is_best_on_average,
        ),
    ),
    "holdout": (
        Endpoint(
            name="chosen",
            label="chosen (test)",
            description="the epoch chosen on held-out data; the test set was touched once",
            split="test",
            measured="test",
            select=lambda rows: rows["test_accuracy"].notna(),
        ),
        replace(
            _LAST,
            label="final (validation)",
            description="the last epoch, on held-out data",
            split="validation",
        ),
    ),
}
"""Endpoints of each protocol; the one that decides comes first."""

RESULT = Endpoint(name="result", label="result")
"""The only endpoint of results of other trainers."""
