"""Endpoints: the epoch and the texts at which runs are compared, declared before any run."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pandas as pd


def _last_epoch(accuracies: pd.DataFrame) -> "pd.Series[int]":
    return accuracies.apply(pd.Series.last_valid_index, axis=1)


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """An epoch of each run and the texts on which it is measured."""

    name: str
    label: str  # in tables; with the split where not all endpoints of a protocol are on the same
    description: str = ""
    split: str = ""  # `test` or `validation`; empty in results of other trainers
    measured: str = "val"  # `val` or `test`, as in `val_accuracy`, a column, and `n_val`, a fact
    remark: str = ""  # what a reader must know beside the epochs of the variants
    select: Callable[[pd.DataFrame], "pd.Series[int]"] = _last_epoch
    """Chooses the epoch of each run. Given: accuracies, a row a run, a column an epoch."""


def _best_on_average(accuracies: pd.DataFrame) -> "pd.Series[int]":
    """One epoch for all seeds of a variant, among those that all of them have."""
    by_variant = accuracies.groupby(level="variant")
    shared = by_variant.mean().where(by_variant.count().eq(by_variant.size(), axis=0))
    best = shared.idxmax(axis=1)
    variants = accuracies.index.get_level_values("variant")
    return pd.Series(variants.map(best), accuracies.index)


_FINAL = Endpoint(name="final", label="final", split="test")

ENDPOINTS = {
    "blog": (  # which validates on the test set
        replace(_FINAL, description="the last epoch, on the test set"),
        Endpoint(
            name="best",
            label="best",
            description="one epoch for all seeds of a variant, the best on average on the test set",
            split="test",
            remark="the epoch that is best on average over seeds",
            select=_best_on_average,
        ),
    ),
    "holdout": (
        Endpoint(
            name="chosen",
            label="chosen (test)",
            description="the epoch chosen on held-out data; the test set was touched once",
            split="test",
            measured="test",  # at the chosen epoch alone: the last with a value
        ),
        replace(
            _FINAL,
            label="final (validation)",
            description="the last epoch, on held-out data",
            split="validation",
        ),
    ),
}
"""Endpoints of each protocol; the one that decides comes first."""

RESULT = Endpoint(name="result", label="result")  # the only one of results of other trainers
