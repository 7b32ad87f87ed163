"""The run that K published, and whether it could be one more of our seeds.

Su Jianlin, "Attention is All You Need" 浅读, kexue.fm/archives/4765, January 2018: one seed of each
variant, with the test set used for validation: `kexue.csv`. K's code of then did not divide scores
by sqrt(d_head), and Adam's epsilon was 1e-8. Runs with the later settings are compared, too."""

import json
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from attnexp.analysis.group import Group
from attnexp.analysis.rows import Setup
from attnexp.config.settings import Tree
from attnexp.runs.labels import as_word
from attnexp.statistics.defaults import FEWEST_SEEDS
from attnexp.statistics.intervals import count_inside

K_METRICS = ["train_loss", "train_accuracy", "val_loss", "val_accuracy"]
OUR_DEFAULTS = {"model.score.scale": True, "train.eps": 1e-7}
"""Our defaults that K's run did not have. K's later code and later Keras do."""
FREE = {"train.epochs", "train.measure_train", "train.precision"}  # may differ from K's


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """K's values beside the 95 % prediction interval of one more of our seeds."""

    n: int  # our seeds
    unlike: tuple[str, ...]  # settings, as `key=value`, in which the variants differ from K's
    num_inside: int
    num_values: int
    ours_inside: list[int]  # num_inside of each of our seeds by the others; empty below four

    def __str__(self) -> str:
        unlike = f" (ours differ by {' '.join(self.unlike)})" if self.unlike else ""
        inside = f"{self.num_inside} of {self.num_values} values"
        line = f"K's run{unlike}: {inside} within the interval of one more seed"
        if self.ours_inside:
            line += f" (ours: {min(self.ours_inside)} to {max(self.ours_inside)})"
        return line


@cache
def _read_k_runs() -> tuple[pd.DataFrame, dict[str, Tree]]:
    """K's table, and the settings of K's run by position."""
    folder = Path(__file__).parent
    settings = json.loads((folder / "kexue.json").read_bytes())
    return pd.read_csv(folder / "kexue.csv"), settings


def k_run_like(settings: Tree, data: Tree) -> pd.DataFrame | None:
    """K's values for a run like K's on all of IMDB, a row an epoch; None if K has no such run."""
    if (data["n_train"], data["n_test"]) != (25_000, 25_000):
        return None
    table, k_settings = _read_k_runs()
    for position, k_own in k_settings.items():
        accepted = [*k_own.items(), *OUR_DEFAULTS.items()]  # K's value, or ours in its place
        if all(key in FREE or (key, value) in accepted for key, value in settings.items()):
            return table[table["position"] == position]
    return None


def our_defaults_in(setup: Setup) -> tuple[str, ...]:
    """Those of `OUR_DEFAULTS` that a run like K's has, as `key=value`."""
    return tuple(as_word(*item) for item in OUR_DEFAULTS.items() if item in setup.settings.items())


def k_runs_of(group: Group, *, as_k_ran: bool = False) -> dict[str, pd.DataFrame]:
    """K's run of each variant that K ran, a row an epoch. as_k_ran: with K's settings alone."""
    k_runs = {}
    for variant, setup in group.origin.setups.items():
        k_run = k_run_like(setup.settings, setup.facts)
        if k_run is not None and not (as_k_ran and our_defaults_in(setup)):
            k_runs[variant] = k_run
    return k_runs


def agreements_with_k(group: Group) -> list[Agreement]:
    """K's values beside at least three of our seeds, for each set of settings unlike K's."""
    k_by_defaults: defaultdict[tuple[str, ...], dict[str, pd.Series[float]]] = defaultdict(dict)
    for variant, k_run in k_runs_of(group).items():
        by_metric_and_epoch = k_run.set_index("epoch")[K_METRICS].unstack()
        defaults = our_defaults_in(group.origin.setups[variant])
        k_by_defaults[defaults][variant] = by_metric_and_epoch
    keys = ["variant", "metric", "epoch"]
    values = group.epochs.pivot(index="seed", columns=keys, values="value")
    agreements = []
    for unlike, k_by_variant in k_by_defaults.items():
        k_values = pd.concat(k_by_variant)  # by variant, metric and epoch, as the columns of values
        in_both = values.columns.intersection(k_values.index)
        ours = values[in_both].dropna().to_numpy()  # (seeds, values)
        n = len(ours)
        if n < FEWEST_SEEDS:
            continue
        left_out = range(n) if n > FEWEST_SEEDS else []  # At least three others judge each seed.
        agreement = Agreement(
            n=n,
            unlike=unlike,
            num_inside=count_inside(k_values[in_both].to_numpy(), ours),
            num_values=len(in_both),
            ours_inside=[count_inside(ours[i], np.delete(ours, i, axis=0)) for i in left_out],
        )
        agreements.append(agreement)
    return agreements
