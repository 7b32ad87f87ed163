"""The run that K published, and whether it could be one more of our seeds (C20).

Su Jianlin, "Attention is All You Need" 浅读, kexue.fm/archives/4765, January 2018: one seed of each
variant, with the test set used for validation: `kexue.csv`. K's code of then did not divide scores
by sqrt(d_head), and Adam's epsilon was 1e-8. Runs with the later settings are compared, too.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from attnexp.config.schema import flatten
from attnexp.runs.labels import as_word, settings
from attnexp.statistics.intervals import inside_by_the_others, prediction_interval

if TYPE_CHECKING:
    from attnexp.analysis.frames import Group

METRICS = ["train_loss", "train_accuracy", "val_loss", "val_accuracy"]

SETTINGS = {"model.score.scale": False, "train.eps": 1e-8}
"""K's settings that differ from our defaults, which are those of later code and later Keras."""


def k_epochs(config: dict[str, Any], data: dict[str, Any]) -> pd.DataFrame:
    """K's values for a run of K's comparison on the whole of IMDB: columns position, epoch and
    `METRICS`; no rows for any other run. The number of epochs may differ."""
    table = pd.read_csv(Path(__file__).with_name("kexue.csv"))
    free = {"train.epochs", "train.measure_train", "train.precision"}
    own = {k: v for k, v in settings(config).items() if k not in free and v != SETTINGS.get(k, ...)}
    whole = (data["n_train"], data["n_test"]) == (25_000, 25_000)
    theirs = json.loads(Path(__file__).with_name("kexue.json").read_bytes())  # later settings
    return table[[whole and own.items() <= theirs[one].items() for one in table["position"]]]


def unlike_k(config: dict[str, Any]) -> tuple[str, ...]:
    """Settings among `SETTINGS` in which a run differs from K's, as `key=value`."""
    given = flatten(config)
    return tuple(as_word(k, given[k]) for k, value in SETTINGS.items() if given[k] != value)


def k_counts(group: "Group") -> list[dict[str, Any]]:
    """How many of K's `values` are `inside` the 95 % prediction interval of one more of our seeds,
    a record for `variants` `unlike` K's in the same settings; own: those of our own seeds."""
    if group.published.empty:
        return []
    unlike, found = group.published["variant"].map(lambda v: unlike_k(group.configs[v])), []
    for differing in unlike.unique():
        place = ["variant", "epoch", "metric"]
        rows = group.published[unlike == differing].melt(place[:2], METRICS, var_name="metric")
        wide = group.epochs.pivot(index="seed", columns=place, values="value")
        k = rows.set_index(place)["value"]
        k = k[k.index.isin(wide.columns)]
        wide = wide[k.index].dropna()
        low, high = np.array([prediction_interval(wide[place]) for place in k.index]).T
        own = inside_by_the_others(wide.to_numpy()) if len(wide) > 3 else []
        count = {"inside": int(k.between(low, high).sum()), "values": len(k), "own": own}
        record = {"variants": [*rows["variant"].unique()], "n": len(wide), "unlike": differing}
        found += [record | count] if len(wide) > 2 else []  # of two seeds there is no interval
    return found
