"""The run that K published, and whether it could be one more of our seeds.

Su Jianlin, "Attention is All You Need" 浅读, kexue.fm/archives/4765, January 2018: one seed of each
variant, with the test set used for validation: `kexue.csv`. K's code of then did not divide scores
by sqrt(d_head), and Adam's epsilon was 1e-8. Runs with the later settings are compared, too.
"""

import json
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from attnexp.analysis.group import Group
from attnexp.analysis.rows import Setup
from attnexp.config.options import Tree
from attnexp.runs.labels import as_word
from attnexp.statistics.defaults import FEWEST_SEEDS
from attnexp.statistics.intervals import count_inside

K_METRICS = ["train_loss", "train_accuracy", "val_loss", "val_accuracy"]
OUR_DEFAULTS = {"model.score.scale": True, "train.eps": 1e-7}
"""Our defaults where K's settings differ: they are those of K's later code, and of later Keras."""
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
        line = "K's run"
        if self.unlike:
            line += f" (ours differ by {' '.join(self.unlike)})"
        line += f": {self.num_inside} of {self.num_values} values "
        line += "within the interval of one more seed"
        if self.ours:
            line += f" (ours: {min(self.ours)} to {max(self.ours)})"
        return line


@cache
def _read_k_runs() -> tuple[pd.DataFrame, dict[str, Tree]]:
    """K's table, and the settings of K's run by position."""
    folder = Path(__file__).parent
    settings = json.loads((folder / "kexue.json").read_bytes())
    return pd.read_csv(folder / "kexue.csv"), settings


def k_rows_like(settings: Tree, data: Tree) -> pd.DataFrame:
    """K's values for a run like K's on all of IMDB, by position and epoch; else no rows."""
    table, k_settings = _read_k_runs()
    if (data["n_train"], data["n_test"]) != (25_000, 25_000):
        return table.iloc[:0]
    positions = []
    for position, k_own in k_settings.items():
        accepted = [*k_own.items(), *OUR_DEFAULTS.items()]
        differing = {key for key, value in settings.items() if (key, value) not in accepted}
        if differing <= FREE:
            positions.append(position)
    return table[table["position"].isin(positions)]


def settings_unlike_k(setup: Setup) -> tuple[str, ...]:
    """Our defaults that a run like K's has in place of K's settings, as `key=value`."""
    return tuple(as_word(*item) for item in OUR_DEFAULTS.items() if item in setup.settings.items())


def agreements_with_k(group: Group) -> list[Agreement]:
    """K's values beside ours, in epochs that ours have. Variants that differ from K's in the same
    settings are put together; a seed of ours counts if it has all values, from three seeds on."""
    if group.published.empty:
        return []
    keys = ["variant", "epoch", "metric"]
    ours = group.epochs.pivot(index="seed", columns=keys, values="value")
    published = group.published.melt(["variant", "epoch"], K_METRICS, "metric")
    k_values = published.set_index(keys)["value"]  # indexed as the columns of ours
    k_values = k_values[k_values.index.isin(ours.columns)]
    variants_unlike: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for variant in k_values.index.unique("variant"):
        unlike = settings_unlike_k(group.setups[variant])
        variants_unlike[unlike].append(variant)
    agreements = []
    for unlike, variants in variants_unlike.items():
        k_own = k_values[k_values.index.isin(variants, level="variant")]
        our_values = ours[k_own.index].dropna().to_numpy()  # (seeds, values)
        n = len(our_values)
        if n < FEWEST_SEEDS:
            continue
        left_out = range(n) if n > FEWEST_SEEDS else []  # each seed once
        agreement = Agreement(
            n=n,
            unlike=unlike,
            num_inside=count_inside(k_own.to_numpy(), our_values),
            num_values=len(k_own),
            ours=[count_inside(our_values[i], np.delete(our_values, i, axis=0)) for i in left_out],
        )
        agreements.append(agreement)
    return agreements
