"""The run that K published, and whether it could be one more of our seeds.

Su Jianlin, "Attention is All You Need" 浅读, kexue.fm/archives/4765, January 2018: one seed of each
variant, with the test set used for validation: `kexue.csv`. K's code of then did not divide scores
by sqrt(d_head), and Adam's epsilon was 1e-8. Runs with the later settings are compared, too.
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from attnexp.analysis.group import Group
from attnexp.analysis.rows import Setup
from attnexp.runs.labels import as_word
from attnexp.statistics.defaults import FEWEST_SEEDS
from attnexp.statistics.intervals import count_inside

K_METRICS = ["train_loss", "train_accuracy", "val_loss", "val_accuracy"]
DEPARTURES = {"model.score.scale": False, "train.eps": 1e-8}
"""K's settings that differ from our defaults, which are those of later code and later Keras."""
FREE = {"train.epochs", "train.measure_train", "train.precision"}  # may differ from K's


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """K's values beside the 95 % prediction interval of one more of our seeds."""

    n: int  # our seeds
    unlike: tuple[str, ...]  # settings, as `key=value`, in which the variants differ from K's
    num_inside: int
    num_values: int
    ours: list[int]  # the same count for each of our seeds, by the others; empty below four seeds

    def __str__(self) -> str:
        """How many of K's values lie where one more of our seeds would."""
        line = "K's run"
        if self.unlike:
            line += f" (ours differ by {' '.join(self.unlike)})"
        line += f": {self.num_inside} of {self.num_values} values"
        line += " within the interval of one more seed"
        if self.ours:
            line += f" (ours: {min(self.ours)} to {max(self.ours)})"
        return line


@cache
def _read_k_runs() -> tuple[pd.DataFrame, dict[str, dict[str, Any]]]:
    """K's table, and the settings of K's run by position, with our defaults for `DEPARTURES`."""
    folder = Path(__file__).parent
    settings = json.loads((folder / "kexue.json").read_bytes())
    return pd.read_csv(folder / "kexue.csv"), settings


def k_rows_like(settings: dict[str, Any], data: dict[str, Any]) -> pd.DataFrame:
    """K's values for a run of K's comparison on the whole of IMDB: columns position, epoch and
    `K_METRICS`; no rows for any other run. Settings of `FREE` may differ."""
    table, k_settings = _read_k_runs()
    if (data["n_train"], data["n_test"]) != (25_000, 25_000):
        return table.iloc[:0]

    def is_like(stored: dict[str, Any]) -> bool:
        """Whether each setting is free, K's own, or our default where K's differs."""
        allowed = [*stored.items(), *DEPARTURES.items()]
        return all(key in FREE or (key, value) in allowed for key, value in settings.items())

    positions = [name for name, stored in k_settings.items() if is_like(stored)]
    return table[table["position"].isin(positions)]


def settings_unlike_k(setup: Setup) -> tuple[str, ...]:
    """Settings among `DEPARTURES` in which a run differs from K's, as `key=value`."""
    values = setup.settings
    return tuple(as_word(key, values[key]) for key in DEPARTURES if values[key] != DEPARTURES[key])


def agreements_with_k(group: Group) -> list[Agreement]:
    """One agreement for each set of settings in which variants that K ran differ from K's, where
    three of our seeds or more have all its values."""
    if group.published.empty:
        return []
    keys = ["variant", "epoch", "metric"]
    ours = group.epochs.pivot(index="seed", columns=keys, values="value")
    published = group.published.melt(["variant", "epoch"], K_METRICS, "metric")
    ks = published.set_index(keys)["value"]
    ks = ks[ks.index.isin(ours.columns)]
    unlike_of = {name: settings_unlike_k(group.setups[name]) for name in ks.index.unique("variant")}
    agreements = []
    for unlike in dict.fromkeys(unlike_of.values()):
        variants = [name for name in unlike_of if unlike_of[name] == unlike]
        values = ks[ks.index.isin(variants, level="variant")]
        seeds = ours[values.index].dropna().to_numpy()  # (seeds, values)
        if len(seeds) < FEWEST_SEEDS:
            continue
        one_each = range(len(seeds)) if len(seeds) > FEWEST_SEEDS else []
        agreement = Agreement(
            n=len(seeds),
            unlike=unlike,
            num_inside=count_inside(values.to_numpy(), seeds),
            num_values=len(values),
            ours=[count_inside(seeds[i], np.delete(seeds, i, axis=0)) for i in one_each],
        )
        agreements.append(agreement)
    return agreements
